"""A command against one of another pen of its session that may do more: each function runs in a child of the
tests, as root and as an ordinary user, in a workspace of its own. Its name says what must hold."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import wait_until
from tests.probe_module import probes_of, run
from tests.session.probes.run import opened

import pinfold

OUT = f"{os.environ.get('HOME', '')}/out"
WIDER = """
import os, socket, sys
way = socket.socket(socket.AF_UNIX)
way.bind("/tmp/wider")
way.listen()
held = os.open(sys.argv[1] + "/held", os.O_CREAT | os.O_RDWR)
with open("wider", "w") as file: file.write(str(os.getpid()))
caller, _ = way.accept()
flags = os.O_RDONLY | os.O_DIRECTORY
socket.send_fds(caller, [b"x"], [os.open(sys.argv[1], flags), os.open(".", flags)])
print("heard", caller.recv(4))
"""
BEGIN = """
import ctypes, fcntl, glob, os, socket, sys, termios
libc, out = ctypes.CDLL(None), sys.argv[1]
with open("wider") as file: wider = int(file.read())
def tried(name, act):
    try: got = act()
    except OSError: return
    if got != -1: print("GOT", name, got)
"""
REACH = """
for name in ("root", "cwd", "exe", "fd/0", "fd/4", "ns/mnt"):
    tried(name, lambda: os.readlink(f"/proc/{wider}/{name}"))
tried("cwd", lambda: open(f"/proc/{wider}/cwd/secret").read())
tried("root", lambda: open(f"/proc/{wider}/root{out}/kept", "a"))
for name in ("mem", "environ", "maps", "auxv", "syscall"):
    tried(name, lambda: open(f"/proc/{wider}/{name}", "rb").read(8))
tried("map_files", lambda: os.listdir(f"/proc/{wider}/map_files"))
handle = os.pidfd_open(wider)
for number in range(6): tried("pidfd_getfd", lambda: libc.syscall(438, handle, number, 0))
for request in (16, 0x4206): tried("ptrace", lambda: libc.ptrace(request, wider, 0, 0))
space = ctypes.create_string_buffer(8)
ours, theirs = (ctypes.c_ulong * 2)(ctypes.addressof(space), 8), (ctypes.c_ulong * 2)(0x400000, 8)
for call in (libc.process_vm_readv, libc.process_vm_writev):
    tried("process_vm", lambda: call(wider, ours, 1, theirs, 1, 0))
for path in glob.glob("/dev/pts/[0-9]*"):
    terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
    tried("typed", lambda: fcntl.ioctl(terminal, termios.TIOCSTI, b"x"))
    tried("terminal", lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 1))
print("through")
"""
HANDED = """
way = socket.socket(socket.AF_UNIX)
tried("connected", lambda: way.connect("/tmp/wider"))
tried("handed", lambda: socket.recv_fds(way, 8, 2))
print("through")
"""


@contextmanager
def beside_a_wider_one() -> Iterator[pinfold.Session]:
    """A session whose next command may write less and read less than one that runs."""
    os.makedirs(f"{OUT}/directory")
    os.makedirs(".git/hooks")
    for path in (f"{OUT}/kept", "secret"):
        with open(path, "w") as file:
            file.write("kept\n")
    with opened() as session:
        session.change({"filesystem": {"write": [OUT], "git_writes": True}})
        wider = session.start(["/usr/bin/python3", "-c", WIDER, OUT], terminal=(24, 80), timeout=60)
        wait_until(lambda: os.path.exists("wider") and os.path.getsize("wider") > 0)
        session.change({"filesystem": {"write": [], "git_writes": False, "hide": ["secret"]}})
        yield session
        wider.cancel()
        wider.wait()
    with open(f"{OUT}/kept") as file:
        assert file.read() == "kept\n"
    assert sorted(os.listdir(OUT)) == ["directory", "held", "kept"]


def nobody_reaches_into_a_wider_command() -> None:
    with beside_a_wider_one() as session:
        told = session.run(["/usr/bin/python3", "-c", BEGIN + REACH, OUT])
        assert told.stdout == "through\n", told


def a_wider_command_hands_nothing_over() -> None:
    with beside_a_wider_one() as session:
        told = session.run(["/usr/bin/python3", "-c", BEGIN + HANDED, OUT])
        assert told.stdout == "through\n", told


PROBES = probes_of(globals(), "beside_a_wider_one")

if __name__ == "__main__":
    run(globals())
