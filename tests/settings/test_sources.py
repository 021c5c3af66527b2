"""Where a project is, and which settings around it count."""

import os
from pathlib import Path

import pytest
from tests.settings.loaded import shape, write

from pinfold.model.errors import PolicyError
from pinfold.policy.hosts import require_pattern
from pinfold.settings import Sources, load
from pinfold.settings.sources import find_project

NOBODY = 65534


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def usual(home: Path, *roots: str) -> Sources:
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": f"{home}/config"}
    return Sources.usual([f"{home}/{root}" for root in roots], environ=environ)


@pytest.mark.parametrize(
    ("made", "start", "project"),
    [
        ((), "a/b", "a/b"),
        (("a/.git",), "a/b/c", "a"),
        (("a/.git", "a/b/.git"), "a/b/c", "a/b"),
        # settings further out do not enlarge the workspace
        (("a/.pinfold",), "a/b/c", "a/b/c"),
        (("a/.pinfold", "a/b/.git"), "a/b/c", "a/b"),
        # nor does a repository in the home
        ((".git", ".pinfold"), "a", "a"),
    ],
)
def test_find_project(home: Path, made: tuple[str, ...], start: str, project: str) -> None:
    for directory in (*made, start):
        os.makedirs(home / directory, exist_ok=True)
    assert find_project(f"{home}/{start}") == f"{home}/{project}"


def test_a_directory_that_everybody_works_in_is_no_project_around_another(home: Path) -> None:
    """One `git init` in /tmp, and every directory there had all of it for a workspace."""
    os.makedirs(home / "tmp/.git")
    os.makedirs(home / "tmp/mine/sub")
    os.chmod(home / "tmp", 0o1777)
    assert find_project(f"{home}/tmp/mine/sub") == f"{home}/tmp/mine/sub"
    assert find_project(f"{home}/tmp") == f"{home}/tmp"
    os.chmod(home / "tmp", 0o777)  # as every directory of a Windows disk is
    assert find_project(f"{home}/tmp/mine/sub") == f"{home}/tmp"


def test_outer_restrictions_count(home: Path) -> None:
    write(home, ".pinfold/settings.toml", "[commands]\ndeny = ['home']")
    write(home, "a/.pinfold/settings.toml", "[commands]\ndeny = ['rm']\nallow = ['curl']\n")
    write(home, "a/b/.pinfold/settings.local.toml", "[filesystem]\nhide = ['secret/x']")
    write(home, "a/b/c/.pinfold/settings.toml", "[commands]\ndeny = ['dd']")
    sources = usual(home, "a/b/c")
    assert sources.projects == (f"{home}/a/b/c",)
    assert sources.above == (f"{home}/a/b", f"{home}/a")
    settings = load(sources, shape)
    assert {rule.text for rule in settings.commands.deny} == {"dd", "rm"}
    assert settings.commands.allow == ()
    assert settings.filesystem.hide == (f"{home}/a/b/secret/x",)


def test_roots_in_one_another_are_read_once(home: Path) -> None:
    sources = usual(home, "a", "a/b/c")
    assert sources.above == (f"{home}/a/b",)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_outer_settings_of_others_are_not_looked_at(home: Path) -> None:
    """As git since CVE-2022-24765: whoever can write to a directory above is not the user."""
    os.makedirs(home / "shared/mine")
    path = write(home, "shared/.pinfold/settings.toml", "[commands]\ndeny = ['rm']")
    os.mkdir(home / "shared/.git")
    assert find_project(f"{home}/shared/mine") == f"{home}/shared"
    assert load(usual(home, "shared/mine"), shape).commands.deny
    os.chown(home / "shared/.git", NOBODY, NOBODY)
    assert find_project(f"{home}/shared/mine") == f"{home}/shared/mine"
    for foreign in (path, os.path.dirname(path)):
        os.chown(foreign, NOBODY, NOBODY)
        settings = load(usual(home, "shared/mine"), shape)
        assert settings.commands.deny == ()
        assert settings.notices == (f"{path}: is ignored: it belongs to another user",)
        os.chown(foreign, 0, 0)
    # nor can they break anything
    os.unlink(path)
    os.mkfifo(path)
    os.chown(path, NOBODY, NOBODY)
    load(usual(home, "shared/mine"), shape)


HOSTS = [
    ("allow = ['pypi.org', 'a b.example']", 2),
    ("allow = ['*.10.0.0.1']", 2),
    ("deny = [\n'x.example:99999']", 3),
    ("deny = ['10.0.0.0/40']", 2),
    ("allow = ['*']", 2),
    ("allow = ['*:443']", 2),
]


@pytest.mark.parametrize(("text", "line"), HOSTS)
def test_a_bad_host_is_an_error(home: Path, text: str, line: int) -> None:
    user = write(home, "user.toml", f"[network]\n{text}\n")
    with pytest.raises(PolicyError) as raised:
        load(Sources(user=user), shape, require_pattern)
    assert raised.value.where == f"{user}:{line}"
    assert "^" in raised.value.excerpt


def test_good_hosts(home: Path) -> None:
    text = "allow = ['x.y', '*.x.y', 'x:443', '10.0.0.1', '10.0.0.0/8', '[::1]:80']\ndeny = ['*']"
    user = write(home, "user.toml", f"[network]\n{text}\n")
    assert len(load(Sources(user=user), shape, require_pattern).network.allow) == 6
