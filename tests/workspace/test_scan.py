"""What a survey of a workspace finds, as it is and after it changed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.probe_runner import USERS, run_at_home
from tests.session.listed_dirs import note_entries, note_listings

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.policy.hidden_paths import hidden_by
from pinfold.policy.shipped_protected import protected_by
from pinfold.sandbox.backend import Found
from pinfold.workspace import dir_cache, tree_walk
from pinfold.workspace import scan as surveys
from pinfold.workspace.scan import WorkspaceScanner

WORKSPACE = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    top = tmp_path.resolve() / "work"
    top.mkdir()
    return top


def fill(top: Path, *names: str) -> None:
    for name in names:
        path = top / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")


def survey(top: Path, policy: SandboxPolicy = WORKSPACE) -> Found:
    return WorkspaceScanner([str(top)], str(top.parent / "home"))(policy)


def below(top: Path, paths: tuple[str, ...]) -> list[str]:
    return [os.path.relpath(path, top) for path in paths]


PROTECTED = (
    *(".git/hooks/", ".git/config", ".git/info/attributes", ".git/objects/info/alternates"),
    *(".vscode/", "a/b/.ENVRC", "a/.Git/Hooks/", "a/b/.cargo/config.toml", "a/.claude. /"),
    *("x.code-workspace", "a/b/Y.CODE-workspace", "a/z.code-workspace/", ".git/modules/m/x.code-workspace"),
    *("a/gradle/wrapper/gradle-wrapper.jar", "x/.git", ".git/modules/m/hooks/", ".git/modules/m/n/config"),
    *(".git/modules/m/modules/o/config", ".git/worktrees/w/gitdir", ".git/worktrees/w/commondir"),
    *(".git/modules/m/refs/heads/config", ".git/modules/m/objects/ab/hooks/", ".git/modules/m/logs/n/config"),
)
FREE = (
    *(".git/HEAD", ".git/index", ".git/refs/heads/config", ".git/objects/aa/hooks", ".git/info/exclude"),
    *("a/config", "a/hooks/pre-commit", "a/.cargo/registry", "a/b/c.py", ".git/modules/m/HEAD"),
    *(".git/logs/refs/heads/.vscode", ".git/modules/m/refs/heads/x"),
)


def test_all_that_is_protected_is_found_at_any_depth_in_any_spelling(work: Path) -> None:
    fill(work, *PROTECTED, *FREE)
    found = survey(work)
    assert below(work, found.protected) == sorted(name.rstrip("/") for name in PROTECTED)
    assert all(
        protected_by(path, (str(work),), ()) for path in found.protected if not path.endswith("/x/.git")
    )
    assert found.names and found.hidden == ()


def test_blocked_git_writes_close_every_git_directory(work: Path) -> None:
    fill(work, ".git/HEAD", ".git/hooks/x", "a/.git/HEAD", "b/.git")
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True)
    assert below(work, survey(work, policy).protected) == [".git", "a/.git", "b/.git"]


def test_a_policy_has_entries_of_its_own(work: Path) -> None:
    fill(work, "a/lock", "b/lock", "b/one/x", "lock/.vscode/y")
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, protected=("lock", f"{work}/b/one"))
    assert below(work, survey(work, policy).protected) == ["a/lock", "b/lock", "b/one", "lock"]


def test_what_is_hidden_is_found_even_in_what_is_protected(work: Path) -> None:
    fill(
        work,
        ".env",
        "a/.env",
        ".vscode/.env",
        "a/key.pem",
        "secret/x",
        "b/secret",
        "c/only",
        "d/only",
        "e/f/x",
    )
    (work.parent / "home").mkdir()
    fill(work.parent / "home", ".ssh/id", "keys/a.pem", "keys/b.txt")
    policy = SandboxPolicy(
        type=PolicyType.WORKSPACE_READWRITE,
        hidden=(".env", "*.pem", f"{work}/e/f", f"{work.parent}/home/.ssh", f"{work.parent}/home/keys/*.pem",
                f"{work.parent}/home/.aws"),
        ignore_mapping={str(work): ("secret/",), f"{work}/c": ("only",)},
    )  # fmt: skip
    found = survey(work, policy)
    wanted = ["../home/.ssh", "../home/keys/a.pem", ".env", ".vscode/.env", "a/.env", "a/key.pem", "c/only"]
    assert below(work, found.hidden) == sorted([*wanted, "e/f", "secret"])
    assert all(hidden_by(path, policy, (str(work),)) for path in found.hidden if not path.endswith("/secret"))
    assert below(work, found.protected) == [".vscode"]


def test_in_read_only_mode_only_what_is_hidden_counts(work: Path) -> None:
    fill(work, ".env", ".vscode/x")
    found = survey(work, SandboxPolicy(type=PolicyType.WORKSPACE_READONLY, hidden=(".env",)))
    assert (below(work, found.hidden), found.protected) == ([".env"], ())


def test_links_lead_to_what_counts_but_never_out(work: Path) -> None:
    fill(work, "real/env", "dots/git/config", "code/")
    home = work.parent / "home"
    fill(home, "env")
    (work / ".env").symlink_to("real/env")
    (work / "code/.env").symlink_to(home / "env")
    (work / ".config").symlink_to("dots")
    (work / "real/.vscode").symlink_to("/usr")
    (work / "real/.idea").symlink_to("..")
    (work / "loop").symlink_to(".")
    found = survey(work, SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=(".env",)))
    assert below(work, found.hidden) == ["../home/env", "real/env"]
    assert below(work, found.protected) == [".config/git"]


TICK = 0.02
"""Seconds. Change times come in ticks: two changes in one look the same."""


def test_what_changes_is_seen_and_what_does_not_is_not_listed_again(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(work, *(f"d{n}/f" for n in range(50)))
    monkeypatch.setattr(dir_cache, "SETTLED", 0)
    time.sleep(TICK)
    surveyor = WorkspaceScanner([str(work)], "/nowhere")
    assert surveyor(WORKSPACE).protected == ()
    listed = note_listings(monkeypatch)
    fill(work, "d7/.envrc")
    assert below(work, surveyor(WORKSPACE).protected) == ["d7/.envrc"]
    assert listed == [f"{work}/d7"]
    (work / "d7").rename(work / "other")
    assert below(work, surveyor(WORKSPACE).protected) == ["other/.envrc"]
    time.sleep(TICK)
    (work / "other/.envrc").unlink()
    assert surveyor(WORKSPACE).protected == ()


def test_a_change_right_after_a_look_is_seen(work: Path) -> None:
    surveyor = WorkspaceScanner([str(work)], "/nowhere")
    for n in range(60):
        assert len(surveyor(WORKSPACE).protected) == n
        fill(work, f"{n}/.envrc")


def test_beyond_its_bounds_it_refuses(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(work, *(f"d{n}/.envrc" for n in range(20)))
    for bound in ("MOST_ENTRIES", "MOST_FOUND"):
        with monkeypatch.context() as patch:
            patch.setattr(tree_walk, bound, 19)
            with pytest.raises(ConfinementError, match="more than 19"):
                survey(work)
    with monkeypatch.context() as patch:
        patch.setattr(tree_walk, "MOST_TEXT", 19 * len(str(work)))
        with pytest.raises(ConfinementError, match="too many long paths"):
            survey(work)
    assert len(survey(work).protected) == 20


def test_bare_repositories_are_closed_as_a_git_directory_is(work: Path) -> None:
    fill(
        work, "x.git/HEAD", "x.git/objects/", "x.git/refs/", "x.git/config", "x.git/hooks/", "x.git/a/.envrc"
    )
    fill(work, "y/HEAD", "y/objects/", "y/config")
    found = survey(work)
    assert below(work, found.protected) == ["x.git/a/.envrc", "x.git/config", "x.git/hooks"]
    assert f"{work}/x.git/info/attributes" in {rule.name for rule in found.names}


def test_a_directory_is_open_again_once_nothing_of_a_repository_is_left_in_it(work: Path) -> None:
    fill(work, "x/HEAD", "x/objects/", "x/refs/", "x/config", "x/kept")
    surveyor = WorkspaceScanner([str(work)], str(work.parent / "home"))

    def is_closed() -> bool:
        return f"{work}/x/config" in {rule.name for rule in surveyor(WORKSPACE).names}

    assert is_closed()
    for name in ("HEAD", "objects", "refs"):
        (work / "x" / name).rename(work / name)
        assert is_closed(), f"what a command can take away: {name}"
    (work / "x/config").unlink()
    assert not is_closed()
    fill(work, "x/config")
    assert not is_closed()


def test_what_a_repository_shares_is_closed_with_it(work: Path) -> None:
    """git reads the configuration where `commondir` leads, whether or not that has a `HEAD` of its own."""
    fill(work, "x/HEAD", "x/config", "y /config", "z/config")
    (work / "link").symlink_to("z")
    for told, shared in (("../y \n", "y "), ("../link", "z"), ("../later\r\n", "later")):
        (work / "x/commondir").write_text(told)
        found = survey(work)
        existing = [f"{shared}/config"] if shared != "later" else []
        assert below(work, found.protected) == ["x/commondir", "x/config", *existing]
        assert {f"{work}/{shared}/config", f"{work}/{shared}/hooks"} <= {rule.name for rule in found.names}
        assert f"{work}/x/HEAD" in found.placed
        if shared == "z":
            assert f"{work}/link/config" in {rule.name for rule in found.names}


def test_roots_inside_roots(work: Path) -> None:
    fill(work, "a/.envrc", "b/.envrc")
    policy = SandboxPolicy(
        type=PolicyType.WORKSPACE_READWRITE, additional_readwrite_paths=(f"{work}/a", f"{work}/gone")
    )
    assert below(work, survey(work, policy).protected) == ["a/.envrc", "b/.envrc"]


def an_unreadable_directory_hides_what_is_in_it() -> None:
    work = os.getcwd()
    for name in ("known", "new"):
        os.mkdir(name)
        with open(f"{name}/.env", "w"):
            pass
    with open("known/.envrc", "w"):
        pass
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=(".env",))
    surveyor = WorkspaceScanner([work], os.environ["HOME"])
    os.chmod("new", 0)
    seen = os.geteuid() == 0  # whom nothing is closed to
    known, new = f"{work}/known/.env", f"{work}/new/.env"
    first = surveyor(policy)
    assert (first.hidden, first.closed) == (((known, new), ()) if seen else ((known,), (f"{work}/new",)))
    # What was in it may be elsewhere by now, and something else in it.
    os.chmod("known", 0)
    again = surveyor(policy)
    closed = (f"{work}/known", f"{work}/new")
    assert (again.hidden, again.closed) == (((known, new), ()) if seen else ((), closed))


@pytest.mark.parametrize("user", USERS)
def test_an_unreadable_directory_hides_what_is_in_it(user: str) -> None:
    run_at_home(user, "an_unreadable_directory_hides_what_is_in_it", "tests.workspace.test_scan")


if __name__ == "__main__":
    globals()[sys.argv[1]]()


def _linked(work: Path, links: int, chain: int) -> SandboxPolicy:
    """So many links of a hidden name to a chain of links, each with a path of many parts."""
    deep = work / "/".join("d" * 20)
    deep.mkdir(parents=True)
    for number in range(chain):
        (deep / f"{number}").symlink_to(deep / f"{number + 1}")
    (deep / f"{chain}").write_text("")
    for number in range(links):
        (work / f"k{number}").mkdir()
        (work / f"k{number}" / ".env").symlink_to(deep / "0")
    return SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=(".env",))


def test_of_one_directory_no_more_is_taken_than_of_all(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(work, *(f"all/{n}" for n in range(100)))
    monkeypatch.setattr(tree_walk, "MOST_ENTRIES", 19)
    taken = note_entries(monkeypatch, tree_walk)
    with pytest.raises(ConfinementError, match="more than 19"):
        survey(work)
    assert len(taken) == 1 + 20


def test_links_that_lead_nowhere_take_no_time(work: Path) -> None:
    policy = _linked(work, links=200, chain=200)
    began = time.process_time()
    assert survey(work, policy).hidden == ()
    assert time.process_time() - began < 2


RENAMES = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("a")
print(flush=True)
while True:
    os.rename("a", "b")
    os.rename("b", "a")
"""


def test_links_are_followed_as_far_while_others_rename(work: Path) -> None:
    """The kernel counts links twice then, and tells of too many."""
    policy = _linked(work, links=5, chain=30)
    deep = "/".join("d" * 20)
    words = [sys.executable, "-I", "-c", RENAMES, str(work / deep)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as renaming:
        try:
            assert renaming.stdout and renaming.stdout.readline()
            for _ in range(100):
                found = survey(work, policy)
                assert below(work, found.hidden) == [f"{deep}/30"]
                assert len(found.links) == 5 + 30
        finally:
            renaming.kill()


@pytest.mark.parametrize("chain", [39, 40, 41, 90])
def test_links_lead_as_far_as_the_kernel_follows_them(work: Path, chain: int) -> None:
    policy = _linked(work, links=3, chain=chain)
    is_found = any("/" in name for name in below(work, survey(work, policy).hidden))
    try:
        (work / "k0/.env").stat()
    except OSError:
        assert not is_found
    else:
        assert is_found


def test_links_that_lead_far_are_followed_so_many_steps(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = _linked(work, links=5, chain=30)
    assert below(work, survey(work, policy).hidden) == ["/".join("d" * 20) + "/30"]
    monkeypatch.setattr(surveys, "MOST_STEPS", 1000)
    with pytest.raises(ConfinementError, match="too many links"):
        survey(work, policy)


def test_so_many_links_are_held_and_no_more(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = _linked(work, links=5, chain=30)
    assert len(survey(work, policy).links) == 5 + 30
    monkeypatch.setattr(surveys, "MOST_LINK_MOUNTS", 34)
    with pytest.raises(ConfinementError, match="too many links"):
        survey(work, policy)


def test_links_of_a_hidden_name_that_hide_nothing_are_not_held(work: Path) -> None:
    (work / ".env").symlink_to("/etc/hostname")
    (work / ".vscode").symlink_to("/etc")
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=(".env",))
    assert below(work, survey(work, policy).links) == [".vscode"]


def test_a_repository_that_lies_in_a_git_directory_is_closed_as_one(work: Path) -> None:
    """As one of a submodule does whose `submodule.NAME.gitdir` says so."""
    for name in ("HEAD", "config", "objects/", "refs/"):
        fill(work, f".git/{name}", f".git/apart/sub/{name}")
    found = survey(work)
    assert ".git/apart/sub/config" in below(work, found.protected)
    assert f"{work}/.git/apart/sub/hooks" in {rule.name for rule in found.names}
