"""What holds in a `.git` holds in every git directory inside it."""

import pytest

from pinfold.model.protected_names import IGNORABLE, Match, NameMatcher, NameRule, folded, matcher_of

RULES = [
    NameRule(".git/hooks", "w"),
    NameRule(".git/config", "w"),
    NameRule(".git/objects/info/alternates", "w"),
    NameRule(".vscode", "w"),
]
MATCHER = NameMatcher(RULES, ["/w"])


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/w/.git/modules/x/hooks", ".git/hooks"),
        ("/w/.git/modules/x/hooks/pre-commit", ".git/hooks"),
        ("/w/.git/modules/libs/x/Config", ".git/config"),
        ("/w/.git/modules/a/modules/b/hooks", ".git/hooks"),
        ("/w/.git/worktrees/x/config", ".git/config"),
        ("/w/sub/.git/modules/x/objects/info/alternates", ".git/objects/info/alternates"),
    ],
)
def test_protected(path: str, rule: str) -> None:
    (found,) = MATCHER.matches(path)
    assert found.rule.name == rule and not found.rest


@pytest.mark.parametrize(
    "path",
    [
        "/w/.git",
        "/w/.git/modules/x",
        "/w/.git/modules/config",
        "/w/.git/modules/libs/x",
        "/w/.git/modules/a/modules/b",
        "/w/.git/worktrees/x",
    ],
)
def test_a_git_directory_is_on_the_way_to_all_of_these(path: str) -> None:
    assert {match.rest for match in MATCHER.matches(path)} == {
        ("hooks",),
        ("config",),
        ("objects", "info", "alternates"),
    }


@pytest.mark.parametrize(
    "path",
    [
        "/w/.git/modules",
        "/w/.git/refs/heads/config",
        "/w/.git/objects/modules/x/hooks",
        "/w/.git/worktrees/x/HEAD",
        "/w/modules/x/hooks",
        "/w/hooks",
    ],
)
def test_free(path: str) -> None:
    assert MATCHER.matches(path) == ()


INNER = (
    "refs",
    "objects",
    "logs",
    "info",
    "hooks",
    "worktrees",
    "modules",
    "gitdir",
    "config",
    "refs/heads",
    ".git",
)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("where", (".git", "sub/.git", ".git/worktrees/w", ".git/modules/z"))
def test_wherever_the_name_of_a_module_ends(where: str, inner: str) -> None:
    """Names that git takes, as in `git submodule add --name x/refs/y`."""
    for name in (f"x/{inner}/y", f"x/{inner}/y/{inner}/z", f"x/y/{inner}"):
        for content in ("hooks", "hooks/post-checkout", "config", "objects/info/alternates"):
            found = MATCHER.matches(f"/w/{where}/modules/{name}/{content}")
            assert found and not found[0].rest, (name, content)


def test_a_directory_in_modules_may_be_the_git_directory_of_one() -> None:
    for path in ("/w/.git/modules/x/refs/y", "/w/.git/modules/x/refs", "/w/.git/modules/x/objects/ab"):
        assert ("hooks",) in {match.rest for match in MATCHER.matches(path)}


def test_a_blocked_git_is_blocked_with_its_modules() -> None:
    blocked = NameRule(".git", "w")
    matcher = NameMatcher([*RULES, blocked], ["/w"])
    for path in ("/w/.git", "/w/.git/modules", "/w/.git/modules/x/HEAD", "/w/a/.git/worktrees/b/c"):
        assert matcher.matches(path) == (Match(blocked),)


def test_a_directory_may_be_closed_but_for_some_names() -> None:
    rules = [
        NameRule("/m/.git", "w", except_for=("objects", "worktrees", "packed-refs")),
        NameRule("/m/.git/worktrees", "w", except_for=("Mine",)),
        NameRule("/m/.git/worktrees/Mine/gitdir", "w"),
    ]
    matcher = NameMatcher(rules, ["/m/.git", "/w"])
    for path in ("objects/aa/b", "packed-refs", "worktrees/Mine/HEAD", "worktrees/Mine/logs/HEAD"):
        assert matcher.matches(f"/m/.git/{path}") == (), path
    for path in ("HEAD", "hooks/x", "index.lock", "worktrees/other", "worktrees/other/HEAD", "Config"):
        assert matcher.matches(f"/m/.git/{path}")[0].rest == (), path
    assert matcher.matches("/m/.git/worktrees/Mine/gitdir") == (Match(rules[2]),)
    assert {match.rest for match in matcher.matches("/m/.git/worktrees/Mine")} == {("gitdir",)}
    assert matcher.matches("/m/.git/worktrees") and matcher.matches("/m/.git")


@pytest.mark.parametrize("code", [code for ends in IGNORABLE for code in ends])
def test_what_a_file_system_passes_over_makes_no_other_name(code: int) -> None:
    assert folded(f".G{chr(code)}it") == ".git"


@pytest.mark.parametrize("name", [".g\u0301it", ".gít", "данные", "日本語.txt"])
def test_what_is_drawn_makes_another_name(name: str) -> None:
    assert folded(name) == name.casefold()


@pytest.mark.parametrize(
    ("root", "path", "rule"),
    [
        ("/h/.m2", "/h/.m2/settings.xml", ".m2/settings.xml"),
        ("/h/.M2", "/h/.M2/Settings.xml", ".m2/settings.xml"),
        ("/h/.config", "/h/.config/Code/User/tasks.json", ".config/Code/User"),
        ("/h/.config/Code", "/h/.config/Code/User", ".config/Code/User"),
        ("/m/.git", "/m/.git/hooks/pre-commit", ".git/hooks"),
        ("/m/.git", "/m/.git/modules/x/hooks", ".git/hooks"),
        ("/m/.git/objects", "/m/.git/objects/info/alternates", ".git/objects/info/alternates"),
        ("/m/.git/modules/x", "/m/.git/modules/x/config", ".git/config"),
    ],
)
def test_a_name_that_begins_above_its_root_is_protected_in_it(root: str, path: str, rule: str) -> None:
    further = [NameRule(".m2/settings.xml", "w"), NameRule(".config/Code/User", "w")]
    (found,) = NameMatcher([*RULES, *further], [root]).matches(path)
    assert found.rule.name == rule and not found.rest


def test_a_root_that_is_on_the_way_to_a_name_tells_what_is_left_of_it() -> None:
    rule = NameRule(".config/Code/User", "w")
    assert NameMatcher([rule], ["/h/.config"]).matches("/h/.config/Code") == (Match(rule, ("user",)),)
    assert NameMatcher([rule], ["/h/.config"]).matches("/h/.config/other/Code/User") == ()


def test_a_root_that_is_itself_a_protected_name_is_open() -> None:
    rules = [NameRule(".config/nvim", "w"), NameRule(".vscode", "w")]
    for root in ("/h/.config/nvim", "/h/.vscode"):
        assert NameMatcher(rules, [root]).matches(f"{root}/init.lua") == ()


ENDING = NameRule("*.code-workspace", "w")


@pytest.mark.parametrize("directory", ["", "a/b/", ".git/", ".git/modules/", ".git/modules/m/", "m/other/"])
def test_a_pattern_protects_every_name_with_its_ending(directory: str) -> None:
    matcher = NameMatcher([*RULES, ENDING, NameRule("/w/m/other.code-workspace/x", "w")], ["/w"])
    for name in ("x.code-workspace", "a.b.Code-Workspace", ".code-workspace", "x.code-workspace. "):
        for below in ("", "/y", "/y/z"):
            assert matcher.matches(f"/w/{directory}{name}{below}") == (Match(ENDING),), (name, below)
    for name in ("code-workspace", "x.code-workspace.txt", "xcode-workspace", "x.code", "x."):
        found = matcher.matches(f"/w/{directory}{name}")
        assert ENDING not in {match.rule for match in found}, name
    assert matcher.matches("/w/m/other.code-workspace") == (Match(ENDING),)
    assert matcher.matches("/elsewhere/x.code-workspace") == ()


def test_a_pattern_closes_nothing_that_another_rule_leaves_open() -> None:
    rules = [ENDING, NameRule("/w/m", "w", except_for=("mine.code-workspace", "HEAD"))]
    matcher = NameMatcher(rules, ["/w"])
    assert matcher.matches("/w/m/mine.code-workspace") == () == matcher.matches("/w/m/HEAD")
    assert matcher.matches("/w/m/other.code-workspace") == (Match(rules[1]),)


def test_a_pattern_may_hold_at_the_top_of_a_root_alone_and_have_further_components() -> None:
    rules = [NameRule("*.top", "w", top=True), NameRule("*.d/run", "w")]
    matcher = NameMatcher(rules, ["/w"])
    assert matcher.matches("/w/a.top") == (Match(rules[0]),) and matcher.matches("/w/s/a.top") == ()
    assert matcher.matches("/w/s/a.d") == (Match(rules[1], ("run",)),)
    assert matcher.matches("/w/s/a.d/run/x") == (Match(rules[1]),) and matcher.matches("/w/a.d/x") == ()


def test_a_root_with_the_ending_of_a_pattern_is_open() -> None:
    assert NameMatcher([ENDING], ["/h/x.code-workspace"]).matches("/h/x.code-workspace/y") == ()


def test_of_the_same_rules_a_matcher_is_made_once() -> None:
    def made() -> NameMatcher:
        return matcher_of((NameRule(".git/hooks", "why"),), ("/work",))

    assert made() is made()
    assert matcher_of((NameRule(".git/config", "why"),), ("/work",)) is not made()


def test_what_a_directory_takes_along_is_known_of_every_rule() -> None:
    rules = (NameRule(".git/hooks/x", "why"), NameRule("Cache/tag", "why", top=True), NameRule("/a/b", "why"))
    assert NameMatcher(rules, ("/work",)).tails == {"hooks", "x", "tag", "b"}
