"""Protected names in every spelling, and ordinary work let be."""

import pytest

from pinfold.model.settings import FilesystemSettings
from pinfold.policy.shipped_protected import ProtectedName, protected_by, protected_names

ROOT = "/home/me/project"


def found(relative: str, *entries: str) -> ProtectedName | None:
    return protected_by(f"{ROOT}/{relative}".rstrip("/"), (ROOT,), entries)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".git/hooks/pre-commit", ".git/hooks"),
        ("sub/deep/.git/config", ".git/config"),
        (".vscode/tasks.json", ".vscode"),
        (".bashrc", ".bashrc"),
        (".opencode/plugin/x.ts", ".opencode"),
        ("sub/opencode.json", "opencode.json"),
        ("_darcs/prefs/defaults", "_darcs/prefs/defaults"),
        ("my.code-workspace", "*.code-workspace"),
        ("sub/a.b.Code-Workspace.", "*.code-workspace"),
        # spellings
        (".GIT/Hooks/x", ".git/hooks"),
        (".g\u200cit/hooks/x", ".git/hooks"),
        (".git./hooks /x", ".git/hooks"),
        (".git::$INDEX_ALLOCATION/hooks/x", ".git/hooks"),
        ("git~1/hooks/x", ".git/hooks"),
        (".hu\u017fky/x", ".husky"),
    ],
)
def test_protected(path: str, name: str) -> None:
    protected = found(path)
    assert protected is not None
    assert protected.name == name


@pytest.mark.parametrize(
    "path",
    [
        *("package.json", "Makefile", "tsconfig.json", "src/main.py", ".gitignore"),
        *(".git/objects/ab/cd", ".git/HEAD", "docs/HEAD", "git/hooks/x", "claude.md", "a~1", ""),
        *("x.code-workspace.md", "code-workspace", "x.code"),
        *(".env", ".venv/bin/python", "config", "hooks/x", "backup~"),
    ],
)
def test_ordinary_work(path: str) -> None:
    assert found(path) is None


@pytest.mark.parametrize("path", [".git", "sub/.git", ".config", "sub/.cargo"])
def test_a_directory_that_holds_one_would_take_it_along(path: str) -> None:
    assert found(path) is not None


def test_a_git_file_leads_elsewhere() -> None:
    """Of a worktree's or a submodule's `.git`, which is a file, the reason is that it leads elsewhere."""
    name = found("sub/.git")
    assert name is not None and "lead git to another" in name.why


def test_entries_of_the_policy() -> None:
    # Bare names hold at any depth, paths where they are: so `settings.policy_of` writes them.
    assert found("a/deploy.sh", "deploy.sh") is not None
    assert found("a/deploy.sh", "*.sh") is not None and found("a/deploy.sh", "*") is None
    assert found("src/gen/x", f"{ROOT}/src/gen") is not None
    assert found("src", f"{ROOT}/src/gen") is not None
    assert found("a/src/gen/x", f"{ROOT}/src/gen") is None
    assert protected_by("/etc/x", (ROOT,), ("/etc",)) is not None


def test_every_root_is_protected() -> None:
    for root in ("/srv/one", "/srv/two"):
        assert protected_by(f"{root}/.git/config", ("/srv/one", "/srv/two"), ()) is not None
    assert protected_by("/elsewhere/.git/config", (ROOT,), ()) is None


def test_the_table() -> None:
    names = protected_names()
    assert len({name.name for name in names}) == len(names)
    assert all(name.why for name in names)
    assert all(found(name.name) is not None for name in names)


def test_the_ignore_files_that_everybody_has_are_listed() -> None:
    """Others that settings name are protected by the session's law."""
    assert {each.name for each in protected_names()}.issuperset(FilesystemSettings().ignore_files)


OBEYED = {
    "agents": ".clinerules/hooks/PreToolUse .factory/settings.json .junie/mcp/mcp.json .amp/settings.json"
    " .qoder/settings.json .codebuddy/settings.json .iflow/settings.json"
    " .pi/extensions/x.ts .pi/settings.json .eca/config.json",
    "editors": ".dir-locals.el .dir-locals-2.el .vs/tasks.vs.json .gvimrc .exrc .nvim.lua .zed/settings.json"
    " hie.yaml buildServer.json .local/share/nvim/site/plugin/x.lua",
    "lefthook": "lefthook.yml lefthook.yaml .lefthook.toml lefthook-local.yml .lefthook-local.jsonc"
    " .config/lefthook.json .config/lefthook-local.yaml .lefthook/pre-commit/x.sh .lefthook-local/x.sh",
    "git hooks": "prek.toml .pre-commit-config.yml .huskyrc.js captainhook.json .simple-git-hooks.cjs"
    " hk.pkl hk.local.pkl .config/hk.pkl .config/hk.local.pkl",
    "other programs of git": ".git/lazygit.yml .lazygit.yml .git/safe",
    "mise": "mise.toml mise.local.toml .mise.local.toml .mise/config.toml .mise/tasks/x mise/config.toml"
    " .config/mise/conf.d/x.toml mise.production.toml .miserc.toml",
    "directories": ".autoenv.zsh .autoenv_leave.zsh .envrc .envrc.local .envrc.private",
    "packages": "rust-toolchain.toml rust-toolchain .pnpmfile.mjs .pnpmfile.cjs .bundle/config .bazeliskrc",
    "interpreters": ".gdbinit .gdbearlyinit .Renviron .octaverc .jdbrc .perldb .rdbgrc .byebugrc .RData",
    "shells": ".zcompdump .bashrc.d/x .local/share/bash-completion/completions/x .nvm/nvm.sh"
    " .opam/opam-init/init.sh"
    " .local/share/fish/vendor_conf.d/x.fish .sdkman/bin/sdkman-init.sh .asdf/asdf.sh .ghcup/env .deno/env",
}
"""What a tool obeys unasked, by kind."""


@pytest.mark.parametrize("kind", OBEYED)
def test_what_tools_obey_unasked_is_protected(kind: str) -> None:
    """Each in the root, and but for those of `top` in a project below it, too."""
    for path in OBEYED[kind].split():
        rule = found(path)
        assert rule is not None and not path.endswith("/"), path
        assert rule.why and (found(f"packages/inner/{path}") is not None) == (rule.reach == "any"), path


@pytest.mark.parametrize(
    "path",
    [
        *(
            "lefthook.md",
            "rust-toolchain.md",
            "vendor/crate/rust-toolchain.toml",
            "mise.md",
            "mise/README.md",
        ),
        *(
            ".clinerules/style.md",
            ".bundle/cache/x",
            "src/lefthook/index.ts",
            "AGENTS.md",
            ".nvmrc",
            "justfile",
        ),
        *(".python-version", "pnpm-workspace.yaml", ".eslintrc.js", "ansible.cfg", ".junie/guidelines.md"),
        *(".pi/prompts/x.md", ".git/refs/heads/safe/x"),
    ],
)
def test_what_no_tool_runs_by_itself_is_left_to_commands(path: str) -> None:
    assert found(path) is None
