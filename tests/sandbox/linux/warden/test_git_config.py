"""Which configuration a command may put in place of another."""

import os
import subprocess
from pathlib import Path

import pytest

from pinfold.sandbox.linux.warden.git_config import is_harmless, objection

HARMFUL = [
    ("include.path", "x"),
    ("includeif.gitdir:/.path", "x"),
    ("core.hookspath", "x"),
    ("core.fsmonitor", "x"),
    ("core.fsmonitor", "true"),
    ("core.sshcommand", "x"),
    ("core.editor", "x"),
    ("core.pager", "x"),
    ("core.askpass", "x"),
    ("core.gitproxy", "x"),
    ("core.worktree", "/"),
    ("core.attributesfile", "x"),
    ("core.alternaterefscommand", "x"),
    ("filter.x.clean", "x"),
    ("alias.st", "!x"),
    ("alias.st", "status"),
    ("credential.helper", "x"),
    ("credential.https://a.helper", "x"),
    ("url.ext::x.insteadof", "x"),
    ("gpg.program", "x"),
    ("gpg.ssh.program", "x"),
    ("diff.external", "x"),
    ("diff.x.textconv", "x"),
    ("diff.x.command", "x"),
    ("merge.x.driver", "x"),
    ("pager.log", "x"),
    ("sequence.editor", "x"),
    ("protocol.ext.allow", "always"),
    ("http.proxy", "x"),
    ("hook.x.command", "x"),
    ("submodule.x.update", "!x"),
    ("trailer.x.cmd", "x"),
    ("uploadpack.packobjectshook", "x"),
    ("extensions.partialclone", "origin"),
    ("remote.o.promisor", "true"),
    ("remote.o.uploadpack", "x"),
    ("remote.o.receivepack", "x"),
    ("remote.o.proxy", "x"),
    ("remote.o.vcs", "x"),
    # addresses that run a helper
    ("remote.o.url", "ext::sh -c id"),
    ("remote.o.url", "odd://x"),
    ("remote.o.url", "-oProxyCommand=id"),
    ("remote.o.url", "ssh://-oProxyCommand=id/x"),
    ("remote.o.url", "ssh://u@-oProxyCommand=id/x"),
    ("remote.o.url", "u@-oProxyCommand=id:x"),
    ("remote.o.pushurl", "fd::7"),
    ("branch.main.remote", "ext::id"),
    ("branch.main.pushremote", "ext::id"),
    ("remote.pushdefault", "ext::id"),
    ("remote.o.url", "a\nb"),
    # a subsection where none is meant, and none where one is
    ("core.x.filemode", "true"),
    ("remote.url", "x"),
    ("color.x.ui", "y"),
]


@pytest.mark.parametrize(("key", "value"), HARMFUL)
def test_harmful(key: str, value: str) -> None:
    assert not is_harmless(key, value)


GOOD_URLS = [
    "https://example.com/a.git",
    "https://user@example.com:8443/a",
    "ssh://git@example.com/a",
    "git@example.com:a/b.git",
    "/srv/git/a.git",
    "../a",
    "file:///srv/a",
    "origin",
    ".",
]


@pytest.mark.parametrize("url", GOOD_URLS)
def test_urls_that_run_nothing(url: str) -> None:
    assert is_harmless("remote.origin.url", url)


PLAIN = b'[core]\n\tbare = false\n[remote "o"]\n\turl = https://a/b\n'
OWN = b'[alias]\n\tst = status\n[filter "lfs"]\n\tclean = git-lfs clean\n'


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        (PLAIN, b"", None),
        (PLAIN + OWN, OWN, None),
        (OWN + PLAIN, PLAIN + OWN, None),
        (OWN, PLAIN + OWN, None),
        (PLAIN + OWN, PLAIN, "alias.st"),
        (PLAIN, PLAIN + OWN, "would be removed"),
        (OWN.replace(b"= status", b"= !id"), OWN, "alias.st"),
        (b"[alias]\na = 1\nb = 2\n", b"[alias]\nb = 2\na = 1\n", "order of settings"),
        (b"[alias]\na = 1\na = 1\n", b"[alias]\na = 1\n", "order of settings"),
        (b"[core", b"", "read this configuration differently"),
        (PLAIN, b"[core", "read this configuration differently"),
    ],
)
def test_objection(new: bytes, old: bytes, why: str | None) -> None:
    found = objection(new, old)
    assert found is None if why is None else found is not None and why in found


def test_what_git_writes_by_itself_is_harmless(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        subprocess.run(["git", *arguments], cwd=tmp_path, env=home, check=True, capture_output=True)

    git("init", "a")
    git("-C", "a", "config", "user.name", "A B")
    git("-C", "a", "config", "user.email", "a@b")
    git("-C", "a", "commit", "--allow-empty", "-m", "x")
    git("clone", "a", "b")
    git("-C", "b", "remote", "add", "other", "git@example.com:x/y.git")
    git("-C", "b", "fetch", "origin")
    git("-C", "b", "branch", "--track", "topic")
    git("-C", "b", "branch", "-m", "topic", "topic2")
    git("-C", "b", "sparse-checkout", "init")
    for name in ("a/.git/config", "b/.git/config", "b/.git/config.worktree"):
        assert objection((tmp_path / name).read_bytes()) is None


LEADING = [
    '[remote "o"]\n\turl = ./fix/x.git\n',
    '[remote "o"]\n\turl = file:///srv/x.git\n',
    '[remote "o"]\n\turl = https://a/b\n\tpushurl = ../x\n',
    "[remote]\n\tpushDefault = ./x\n",
    "[remote]\n\tpushDefault = x\n",
    '[branch "main"]\n\tpushRemote = fix/x.git\n',
    '[branch "main"]\n\tremote = x\n',
    '[remote "o/p"]\n\turl = /srv/x\n',
]
NOT_LEADING = [
    '[remote "origin"]\n\turl = https://a/b\n[branch "main"]\n\tremote = origin\n\tpushRemote = origin\n',
    '[remote "o"]\n\turl = git@example.com:a/b\n[remote]\n\tpushDefault = o\n',
    '[branch "main"]\n\tremote = .\n',
]


@pytest.mark.parametrize("text", LEADING)
def test_no_command_leads_a_push_to_a_repository_of_this_machine(text: str) -> None:
    """The repository's hooks may have come with the project's files, and would run outside the sandbox."""
    found = objection(PLAIN + text.encode(), PLAIN)
    assert found is not None and "git push" in found
    assert objection(PLAIN + text.encode(), PLAIN + text.encode()) is None  # the person's own


@pytest.mark.parametrize("text", NOT_LEADING)
def test_remotes_on_other_machines_are_allowed(text: str) -> None:
    assert objection(PLAIN + text.encode(), PLAIN) is None


def test_a_clone_of_a_path_may_say_where_it_came_from(tmp_path: Path) -> None:
    remote = f'[remote "origin"]\n\turl = {tmp_path}/x\n'.encode()
    hooks = tmp_path / "x.git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-receive.sample").write_text("")
    assert objection(remote) is None
    (hooks / "pre-receive").write_text("")
    assert "git push" in (objection(remote) or "")
    (hooks / "pre-receive").unlink()
    (tmp_path / "x.git/config").write_text("[core]\n\thooksPath = evil\n")
    assert "git push" in (objection(remote) or "")
