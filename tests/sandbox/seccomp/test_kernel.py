"""The profile on the real kernel: a child installs it, and each closed call fails with the errno of its rule.

Every call has arguments that the kernel itself would reject otherwise. So nothing happens if a rule is
missing, and the errno shows what denied the call.
"""

import ctypes
import errno
import fcntl
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pinfold.kernel import process, seccomp, syscall
from pinfold.kernel.syscall import system_call
from pinfold.sandbox.seccomp import profile as english
from pinfold.sandbox.seccomp.profile import UnixSockets, WardenMode, profile
from tests.kernel.child import USERS, DiedError, errno_of, in_child

HERE = syscall.MACHINE
HIGH = 1 << 32
TFO = 0x20000000
Act = Callable[[], object]

pytestmark = [
    pytest.mark.skipif(HERE not in syscall.NUMBERS, reason=f"no system call table for {HERE}"),
    pytest.mark.skipif(not seccomp.has_flags(0), reason="this kernel filters no system calls"),
]


def confine(unix: UnixSockets = UnixSockets.STREAMS) -> None:
    process.set_no_new_privs()
    seccomp.install(seccomp.pack(profile(HERE, WardenMode.ABSENT, unix)))


def confined(action: Act, uid: int | None = None, unix: UnixSockets = UnixSockets.STREAMS) -> int:
    """The errno an action fails with under the profile."""

    def inside() -> int:
        confine(unix)
        return errno_of(action)

    return in_child(inside, uid)


PERM = (
    *english.NAMESPACE_CALLS,
    *english.MOUNTING,
    *english.KERNEL_PROGRAMS,
    *english.BY_HANDLE,
    *english.MACHINE,
)
MISSING = (*english.HIDES_CLONE_FLAGS, *english.IO_URING, *english.KEYRINGS, *english.OBSOLETE)
CLOSED = [(name, errno.EPERM) for name in PERM] + [(name, errno.ENOSYS) for name in MISSING]


@USERS
def test_every_closed_call_is_closed(uid: int) -> None:
    def inside() -> dict[str, int]:
        confine()
        # -1 everywhere: a bad descriptor, a bad pointer, a bad flag.
        return {
            name: errno_of(lambda name=name: system_call(name, *[-1] * 6))  # type: ignore[misc]
            for name, _ in CLOSED
            if name in syscall.NUMBERS[HERE]
        }

    wanted = {name: code for name, code in CLOSED if name in syscall.NUMBERS[HERE]}
    assert in_child(inside, uid) == wanted


BY_ARGUMENT: list[tuple[str, Act, int]] = [
    ("a thread's flags are fine", lambda: system_call("unshare", 0x400), 0),
    ("user namespace", lambda: system_call("unshare", 0x10000000), errno.EPERM),
    (
        "user namespace by clone",
        lambda: system_call("clone", 0x10000011, 0, 0, 0, 0),
        errno.EPERM,
    ),
    ("time namespace", lambda: system_call("unshare", 0x80), errno.EPERM),
    ("typing into a terminal", lambda: system_call("ioctl", -1, 0x5412, 0), errno.EPERM),
    ("the same, with a bit set above", lambda: system_call("ioctl", -1, HIGH | 0x5412, 0), errno.EPERM),
    ("any other ioctl", lambda: system_call("ioctl", -1, 0x5413, 0), errno.EBADF),
    ("a subvolume", lambda: system_call("ioctl", -1, 0x5000940E, 0), errno.EPERM),
    ("AF_VSOCK", lambda: socket.socket(40, 1), errno.EAFNOSUPPORT),
    ("AF_VSOCK, with a bit set above", lambda: system_call("socket", HIGH | 40, 1, 0), errno.EAFNOSUPPORT),
    ("AF_PACKET", lambda: socket.socket(17, 3), errno.EAFNOSUPPORT),
    ("AF_ALG", lambda: socket.socket(38, 5), errno.EAFNOSUPPORT),
    ("netlink audit", lambda: socket.socket(16, 3, 9), errno.EPROTONOSUPPORT),
    ("netlink route", lambda: socket.socket(16, 3, 0), 0),
    ("TCP", lambda: socket.socket(2, 1), 0),
    ("UDP", lambda: socket.socket(2, 2), 0),
    ("raw IP", lambda: socket.socket(2, 3, 1), errno.EPERM),
    ("Multipath TCP", lambda: socket.socket(2, 1, 262), errno.EPROTONOSUPPORT),
    ("INET of the type seqpacket", lambda: socket.socket(2, 5), errno.ESOCKTNOSUPPORT),
    ("INET of the type of DCCP", lambda: socket.socket(2, 6), errno.ESOCKTNOSUPPORT),
    ("TCP by a datagram", lambda: socket.socket(2, 2, 6), errno.EPROTONOSUPPORT),
    ("UDP-Lite", lambda: socket.socket(2, 2, 136), errno.EPROTONOSUPPORT),
    ("DCCP by a pair", lambda: socket.socketpair(2, 6), errno.ESOCKTNOSUPPORT),
    ("a bridge", lambda: fcntl.ioctl(socket.socket(2, 2), 0x8940, bytes(24)), errno.EPERM),
    ("a VLAN", lambda: fcntl.ioctl(socket.socket(2, 2), 0x8982, bytes(24)), errno.EPERM),
    ("TLS by the kernel", lambda: socket.socket(2, 1).setsockopt(6, 31, b"tls"), errno.ENOPROTOOPT),
    ("TCP's ordinary options", lambda: socket.socket(2, 1).setsockopt(6, 1, 1), 0),
    ("a unix stream", lambda: socket.socket(1, 1), 0),
    ("a unix datagram", lambda: socket.socket(1, 2), errno.EPROTONOSUPPORT),
    ("a unix datagram in disguise", lambda: socket.socket(1, 3), errno.EPROTONOSUPPORT),
    ("a pair", socket.socketpair, 0),
    ("a pair of datagrams", lambda: socket.socketpair(1, 2), errno.EPROTONOSUPPORT),
    (
        "sending is connecting",
        lambda: socket.socket(2, 1).sendto(b"", TFO, ("127.0.0.1", 9)),
        errno.EOPNOTSUPP,
    ),
    ("READ_IMPLIES_EXEC", lambda: system_call("personality", 0x400000), errno.EPERM),
    ("no randomisation", lambda: system_call("personality", 0x40000), 0),
    ("changing the tag", lambda: system_call("setrlimit", resource.RLIMIT_RTTIME, bytes(16)), errno.EPERM),
    (
        "changing another's",
        lambda: resource.prlimit(os.getppid(), resource.RLIMIT_RTTIME, (1, 1)),
        errno.EPERM,
    ),
    ("asking for the tag", lambda: resource.getrlimit(resource.RLIMIT_RTTIME), 0),
    ("asking for another's", lambda: resource.prlimit(0, resource.RLIMIT_RTTIME), 0),
    ("another limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)), 0),
    ("cores for the machine's crash handler", lambda: cores_after((0, 0)), 0),
    ("cores, and what they were", lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)), errno.EPERM),
    ("a call of tomorrow", lambda: ctypes.CDLL(None, use_errno=True).syscall(9999) + _raise(), errno.ENOSYS),
]


def cores_after(wanted: tuple[int, int]) -> None:
    """The call succeeds, and changes nothing."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, wanted)
    assert resource.getrlimit(resource.RLIMIT_CORE) == before != wanted


def _raise() -> int:
    raise OSError(ctypes.get_errno(), "syscall")


@USERS
@pytest.mark.parametrize(("name", "action", "expected"), BY_ARGUMENT, ids=[row[0] for row in BY_ARGUMENT])
def test_calls_closed_by_their_arguments(uid: int, name: str, action: Act, expected: int) -> None:
    assert confined(action, uid) == expected


@USERS
def test_unix_sockets_where_no_warden_judges(uid: int) -> None:
    assert confined(lambda: socket.socket(1, 1), uid, UnixSockets.PAIRS) == errno.EAFNOSUPPORT
    assert confined(socket.socketpair, uid, UnixSockets.PAIRS) == 0


def test_x32_is_no_way_around() -> None:
    def action() -> None:
        ctypes.CDLL(None, use_errno=True).syscall(syscall.X32_BIT | 165, None, None, None, 0, None)
        _raise()

    if HERE != "x86_64":
        pytest.skip("x32 is x86_64's")
    assert confined(action) == errno.ENOSYS


def test_calls_of_another_architecture_kill_the_process() -> None:
    """int 0x80: the i386 numbers, where 20 is getpid and 21 mount."""
    if HERE != "x86_64":
        pytest.skip("the machine code is x86_64's")
    import mmap

    def action() -> int:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20; int 0x80; ret
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        confine()
        return int(call())

    with pytest.raises(DiedError, match="SIGSYS"):
        in_child(action)


@USERS
def test_the_filter_is_inherited_by_programs(uid: int) -> None:
    def action() -> int:
        confine()
        child = os.posix_spawn(
            "/bin/sh", ["sh", "-c", "unshare -U true 2>/dev/null"], {"PATH": "/usr/bin:/bin"}
        )
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert in_child(action, uid) != 0


@pytest.mark.skipif(not shutil.which("git") or not shutil.which("cc"), reason="git or cc is not installed")
def test_ordinary_work_goes_on(tmp_path: Path) -> None:
    script = f"""
        set -e
        cd {tmp_path}
        git init -q . && git -c user.email=a@b -c user.name=a commit -q --allow-empty -m x
        echo 'int main(void){{return 0;}}' > a.c && cc a.c -o a && ./a
        {sys.executable} -c 'import threading as t, multiprocessing as m
t = t.Thread(target=print); t.start(); t.join()
p = m.Process(target=print); p.start(); p.join(); assert p.exitcode == 0'
        (sleep 0.01 & wait) ; ls -la | sort > listing
    """

    def action() -> tuple[int, str]:
        confine()
        done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert in_child(action) == (0, "")


NOTIFIED: list[tuple[str, Act]] = [
    ("openat", lambda: os.open("/proc/none", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
    ("openat", lambda: os.open("/proc/none", os.O_CREAT)),
    ("mkdir", lambda: os.mkdir("/proc/none")),
    ("mkdirat", lambda: os.mkdir("none", dir_fd=0)),
    ("symlinkat", lambda: os.symlink("a", "none", dir_fd=0)),
    ("linkat", lambda: os.link("a", "none", src_dir_fd=0, dst_dir_fd=0)),
    ("renameat", lambda: os.rename("a", "b", src_dir_fd=0)),
    ("mknodat", lambda: os.mkfifo("a", dir_fd=0)),
    ("connect", lambda: socket.socket(2, 1).connect(("127.0.0.1", 9))),
    ("bind", lambda: socket.socket(2, 1).bind(("127.0.0.1", 0))),
]


@USERS
def test_without_a_listener_the_wardens_calls_fail(uid: int) -> None:
    """warden_death_closes: the calls that need the warden fail, and reading goes on."""
    flags = seccomp.FILTER_FLAG_NEW_LISTENER | seccomp.FILTER_FLAG_WAIT_KILLABLE_RECV
    if not seccomp.has_flags(flags):
        pytest.skip("this kernel has no WAIT_KILLABLE_RECV")

    def inside() -> list[int]:
        process.set_no_new_privs()
        os.close(seccomp.install(seccomp.pack(profile(HERE, WardenMode.PRESENT, UnixSockets.STREAMS)), flags))
        os.close(os.open("/etc/passwd", os.O_RDONLY))
        return [errno_of(act) for _, act in NOTIFIED]

    assert in_child(inside, uid) == [errno.ENOSYS] * len(NOTIFIED)


def test_a_fatal_signal_ends_a_call_that_waits() -> None:
    def action() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(1)
        process.set_no_new_privs()
        flags = seccomp.FILTER_FLAG_NEW_LISTENER | seccomp.FILTER_FLAG_WAIT_KILLABLE_RECV
        if not seccomp.has_flags(flags):
            os.kill(os.getpid(), signal.SIGALRM)
        seccomp.install(seccomp.pack(profile(HERE, WardenMode.PRESENT, UnixSockets.STREAMS)), flags)
        os.mkdir("/proc/none")

    with pytest.raises(DiedError, match="SIGALRM"):
        in_child(action)


def test_terminal_keys_cannot_be_typed() -> None:
    def action() -> int:
        _, slave = os.openpty()
        confine()
        return errno_of(lambda: fcntl.ioctl(slave, 0x5412, struct.pack("c", b"x")))

    assert in_child(action) == errno.EPERM
