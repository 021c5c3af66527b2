"""The mounts of a pen against the machine's own. Each function runs in a child of the tests, as root and as
an ordinary user, in a workspace of its own. Its name says what must hold."""

import os
import socket
from contextlib import closing
from typing import Any, NamedTuple

from tests.probe_module import PYTHON, in_own_mounts, probes_of, run

import pinfold
from pinfold.kernel import mounts

HOME = os.environ.get("HOME", "")
SESSION_MOUNTS = ("/proc", "/dev/pts", "/dev/shm", "/tmp", "/var/tmp")
"""What a session makes for itself and lets commands write to."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
CHANGE = """
import os, stat, sys
def refused(name, act):
    try: act()
    except OSError as error: return
    print("CHANGED", name)
for name in sys.argv[1:]:
    path = "/dev/" + name
    status = os.stat(path)
    ways = [("path", path), ("proc", "/proc/self/root" + path)]
    try: ways.append(("descriptor", os.open(path, os.O_RDWR | os.O_NOCTTY)))
    except OSError: pass
    for way, thing in ways:
        refused((way, "chmod", name), lambda: os.chmod(thing, stat.S_IMODE(status.st_mode)))
        refused((way, "chown", name), lambda: os.chown(thing, -1, -1))
        refused((way, "utime", name), lambda: os.utime(thing))
        refused((way, "setxattr", name), lambda: os.setxattr(thing, "user.pinfold", b"x"))
refused("standard input", lambda: os.fchmod(0, stat.S_IMODE(os.fstat(0).st_mode)))
"""
WORKS = """
import os
assert os.read(os.open("/dev/zero", os.O_RDONLY), 4) == bytes(4)
assert len(os.read(os.open("/dev/urandom", os.O_RDONLY), 4)) == 4
assert os.write(os.open("/dev/null", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), b"x") == 1
try: os.write(os.open("/dev/full", os.O_WRONLY), b"x")
except OSError as error: print(error.strerror)
"""


class Mount(NamedTuple):
    """A line of mountinfo (proc(5))."""

    device: str
    path: str
    is_read_only: bool


def _mounts(text: str) -> list[Mount]:
    found = [line.split() for line in text.splitlines()]
    return [Mount(fields[2], fields[4], "ro" in fields[5].split(",")) for fields in found]


def _writable_of_the_machine(session: pinfold.Session) -> set[str]:
    """Where a pen has a mount of one of the machine's file systems that may be written."""
    with open("/proc/self/mountinfo") as file:
        of_machine = {mount.device for mount in _mounts(file.read())}
    inside = _mounts(session.run("cat /proc/self/mountinfo").stdout)
    writable = {mount for mount in inside if not mount.is_read_only}
    assert len(inside) > 10
    assert all(mount.device in of_machine or mount.path in SESSION_MOUNTS for mount in writable), writable
    return {mount.path for mount in writable if mount.device in of_machine}


def _is_in(path: str, root: str) -> bool:
    return f"{path}/".startswith(f"{root}/")


def _require_writable(roots: set[str], settings: dict[str, Any]) -> None:
    """These can be written in a pen, and nothing else of the machine."""
    with pinfold.Session([os.getcwd()], settings=settings) as session:
        found = _writable_of_the_machine(session)
    beyond = {path for path in found if not any(_is_in(path, root) for root in roots)}
    assert beyond == set() and roots <= found, (settings, found)


def every_mount_of_the_machine_outside_the_roots_is_read_only() -> None:
    work, granted, looked_at = os.getcwd(), f"{HOME}/granted", f"{HOME}/looked-at"
    for path in (granted, looked_at, f"{work}/.git/hooks", f"{work}/sub"):
        os.makedirs(path)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(f"{HOME}/socket")
        write: dict[str, Any] = {"write": [granted], "read": [looked_at, f"{work}/sub"]}
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({}, {work}),
            ({"sandbox": {"policy": "read-only"}}, set()),
            ({"filesystem": {"tmp": "none"}}, {work}),
            ({"filesystem": {"git_writes": True}}, {work}),
            ({"filesystem": write, "network": {"unix_sockets": [f"{HOME}/socket"]}}, {work, granted}),
        ]
        for settings, roots in cases:
            _require_writable(roots, settings)


def so_it_is_where_a_pen_shares_tmp() -> None:
    """The repositories that other tests have in /tmp would be in it, each with its own mounts."""
    if not pinfold.__file__.startswith("/tmp/"):
        in_own_mounts()
        mounts.mount("own", "/tmp", "tmpfs", 0, "mode=1777")
    _require_writable({os.getcwd(), "/tmp", "/var/tmp"}, {"filesystem": {"tmp": "shared"}})


def no_command_changes_a_device_node_of_the_machine() -> None:
    before = {name: os.stat(f"/dev/{name}") for name in DEVICES if os.path.exists(f"/dev/{name}")}
    with pinfold.Session([os.getcwd()], settings={}) as session:
        # With its own mode: a fence that does not hold leaves the machine as it is.
        assert session.run("chmod --reference=/dev/full /dev/full").exit_code
        told = session.run([PYTHON, "-I", "-c", CHANGE, *before])
        assert told.exit_code == 0 and told.stdout == "", told
    for name, status in before.items():
        after = os.stat(f"/dev/{name}")
        assert (after.st_mode, after.st_uid) == (status.st_mode, status.st_uid)


def devices_on_a_read_only_mount_work() -> None:
    with pinfold.Session([os.getcwd()], settings={}) as session:
        assert session.run([PYTHON, "-I", "-c", WORKS]).stdout == "No space left on device\n"
        line = "echo x >/dev/null; echo y >>/dev/null; echo z | tee /dev/stderr; head -c 8 /dev/zero | wc -c"
        told = session.run(line)
        assert (told.exit_code, told.stdout) == (0, "z\n8\n"), told
        typed = session.start("stty -a > /dev/tty && echo there > /dev/tty", terminal=(24, 80)).wait()
        assert typed.exit_code == 0 and "there" in typed.stdout, typed


PROBES = probes_of(globals())

if __name__ == "__main__":
    run(globals())
