"""Landlock: the table of versions, and what the kernel then refuses."""

import errno
import os
import socket
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pinfold.kernel import landlock, process
from pinfold.kernel.landlock import ABIS
from pinfold.model.machine import Machine
from tests.kernel.child import USERS, errno_of, in_child


def require_abi(machine: Machine, version: int) -> None:
    if machine.landlock < version:
        pytest.skip(f"Landlock ABI {version} is needed, this is {machine.landlock} {machine.landlock_reason}")


def test_each_version_only_adds() -> None:
    for version, (older, newer) in enumerate(pairwise(ABIS), 1):
        assert all(before & after == before for before, after in zip(older, newer, strict=True))
        assert (older == newer) is (version in (7, 8)), "these two brought flags alone"


def test_a_newer_kernel_is_taken_for_the_newest_known() -> None:
    assert landlock.known(99) == ABIS[-1]
    assert landlock.known(1) == ABIS[1]


def test_this_kernel_takes_exactly_what_the_table_says(machine: Machine) -> None:
    require_abi(machine, 1)
    abi = landlock.known(machine.landlock)
    os.close(landlock.create_ruleset(abi.files, abi.ports, abi.scopes))
    if machine.landlock < len(ABIS) - 1:
        later = ABIS[-1]
        for more in ((later.files & ~abi.files, 0), (0, later.ports & ~abi.ports)):
            if any(more):
                assert errno_of(lambda more=more: landlock.create_ruleset(*more)) == errno.EINVAL  # type: ignore[misc]


def restrict(top: Path, access: int, *, scopes: int = 0, ports: int = 0) -> None:
    process.set_no_new_privs()
    handled = landlock.known(landlock.abi_version())
    ruleset = landlock.create_ruleset(handled.files, ports, scopes)
    landlock.allow_path(ruleset, "/", landlock.READ)
    landlock.allow_path(ruleset, str(top), access & handled.files)
    landlock.restrict_self(ruleset)
    os.close(ruleset)


WRITE = landlock.WRITE_FILE | landlock.TRUNCATE
Act = Callable[[Path], object]


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


# What a writable root is: files there may be written and removed, and no name be made.
WITHHELD: list[tuple[str, Act, int]] = [
    ("read", lambda top: (top / "file").read_text(), 0),
    ("write", lambda top: (top / "file").write_text("x"), 0),
    ("create what exists", lambda top: os.close(os.open(top / "file", os.O_CREAT | os.O_WRONLY)), 0),
    ("truncate", lambda top: os.truncate(top / "file", 0), 0),
    ("remove", lambda top: (top / "file").unlink(), 0),
    ("create", lambda top: (top / "new").touch(), errno.EACCES),
    ("through a dangling link", lambda top: (top / "dangling").write_text("x"), errno.EACCES),
    ("make a directory", lambda top: (top / "new").mkdir(), errno.EACCES),
    ("make a fifo", lambda top: os.mkfifo(top / "new"), errno.EACCES),
    ("make a link", lambda top: (top / "new").symlink_to("file"), errno.EACCES),
    ("make a hard link", lambda top: os.link(top / "file", top / "new"), errno.EACCES),
    ("rename", lambda top: os.rename(top / "file", top / "new"), errno.EACCES),
    ("rename elsewhere", lambda top: os.rename(top / "file", top / "sub/new"), errno.EACCES),
    ("bind a socket", lambda top: bind(top / "new"), errno.EACCES),
    ("write outside", lambda top: (top / "../outside").write_text("x"), errno.EACCES),
    ("remove outside", lambda top: (top / "../outside").unlink(), errno.EACCES),
]


@USERS
@pytest.mark.parametrize(("name", "act", "expected"), WITHHELD, ids=[row[0] for row in WITHHELD])
def test_the_making_of_names_is_withheld(
    machine: Machine, tmp_path: Path, uid: int, name: str, act: Act, expected: int
) -> None:
    require_abi(machine, 3)
    if uid and os.geteuid():
        pytest.skip("only root can become another user")
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    for file in (top / "file", tmp_path / "outside"):
        file.write_text("content")
        file.chmod(0o666)
    (top / "dangling").symlink_to("nowhere")
    for directory in (top / "sub", top, tmp_path):
        directory.chmod(0o777)

    def action() -> int:
        restrict(Path(), WRITE | landlock.READ | landlock.REMOVE)
        return errno_of(lambda: act(Path()))

    def from_above() -> int:
        # pytest's directory is closed to others from above: stand in it first.
        os.chdir(top)
        return in_child(action, uid)

    assert in_child(from_above) == expected


@USERS
def test_a_port_is_refused(machine: Machine, uid: int) -> None:
    require_abi(machine, 4)

    def action() -> int:
        process.set_no_new_privs()
        landlock.restrict_self(landlock.create_ruleset(ports=landlock.BIND_TCP | landlock.CONNECT_TCP))
        with socket.socket() as client:
            return errno_of(lambda: client.connect(("127.0.0.1", 9)))

    assert in_child(action, uid) == errno.EACCES


@USERS
def test_a_signal_stays_in_the_scope(machine: Machine, uid: int) -> None:
    require_abi(machine, 6)

    def action() -> int:
        parent = os.getpid()

        def below() -> int:
            process.set_no_new_privs()
            landlock.restrict_self(landlock.create_ruleset(scopes=landlock.SCOPE_SIGNAL))
            return errno_of(lambda: os.kill(parent, 0))

        return in_child(below)

    assert in_child(action, uid) == errno.EPERM


def test_a_file_gets_only_what_a_file_can_have(machine: Machine, tmp_path: Path) -> None:
    require_abi(machine, 1)
    (tmp_path / "file").touch()
    ruleset = landlock.create_ruleset(landlock.known(machine.landlock).files)
    landlock.allow_path(ruleset, str(tmp_path / "file"), landlock.READ | landlock.MAKE)
    os.close(ruleset)
