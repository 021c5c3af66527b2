"""A filter, and the other end of its listener."""

import errno
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pinfold.kernel import fast_calls, process, seccomp, syscall
from pinfold.model.machine import Machine
from tests.kernel.child import USERS, in_child

NUMBER = syscall.NUMBERS[syscall.MACHINE]
MKDIR = "mkdir" if "mkdir" in NUMBER else "mkdirat"
FLAGS = seccomp.FILTER_FLAG_NEW_LISTENER | seccomp.FILTER_FLAG_WAIT_KILLABLE_RECV


@pytest.fixture(autouse=True)
def needs_a_listener(machine: Machine) -> None:
    if not machine.wait_killable.works or not machine.notification.works:
        pytest.skip(f"no listener: {machine.notification.reason or machine.wait_killable.reason}")


def about(call: str, action: int) -> list[tuple[int, int, int, int]]:
    """A filter about one call alone."""
    allow = (0x06, 0, 0, seccomp.RET_ALLOW)
    return [(0x20, 0, 0, 0), (0x15, 0, 1, NUMBER[call]), (0x06, 0, 0, action), allow]


def watched(call: str, act: Callable[[], object], answer: Callable[[int], object]) -> tuple[str, object]:
    """A child whose `call` is notified acts, its parent answers once: what the two of them said."""
    reader, writer = os.pipe()
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        process.set_no_new_privs()
        listener = seccomp.install(seccomp.pack(about(call, seccomp.RET_USER_NOTIF)), FLAGS)
        os.write(writer, f"{listener} ".encode())
        os.read(ready, 1)
        os.close(listener)
        try:
            said = repr(act())
        except OSError as error:
            said = errno.errorcode[error.errno or 0]
        os.write(writer, said.encode())
        os._exit(0)
    listener = fast_calls.copy_descriptor(child, int(os.read(reader, 20)))
    seccomp.set_sync_wake_up(listener)
    os.write(go, b"x")
    os.close(writer)
    assert select.select([listener], [], [], 10)[0]
    result = answer(listener)
    os.close(listener)
    said = os.read(reader, 1000).decode()
    os.waitpid(child, 0)
    return said, result


def mkdir() -> None:
    os.mkdir("/proc/none", 0o750)


def received(listener: int) -> seccomp.Notification:
    notification = seccomp.receive(listener)
    assert notification
    return notification


@USERS
def test_a_call_is_seen_and_refused(uid: int) -> None:
    def answer(listener: int) -> object:
        call = received(listener)
        path = process.read_string(call.pid, call.arguments[0 if MKDIR == "mkdir" else 1])
        assert seccomp.is_valid(listener, call.id)
        assert seccomp.respond(listener, call.id, error=errno.EDQUOT)
        return path, call.number, call.architecture

    said = in_child(lambda: watched(MKDIR, mkdir, answer), uid)
    assert said == (
        "EDQUOT",
        (b"/proc/none", NUMBER[MKDIR], syscall.AUDIT_ARCH[syscall.MACHINE]),
    )


@USERS
def test_a_call_gets_a_value(uid: int) -> None:
    def answer(listener: int) -> object:
        return seccomp.respond(listener, received(listener).id, value=4711)

    assert in_child(lambda: watched("getppid", os.getppid, answer), uid) == ("4711", True)


@USERS
def test_a_call_goes_on(uid: int) -> None:
    def answer(listener: int) -> object:
        return seccomp.resume(listener, received(listener).id)

    assert in_child(lambda: watched("umask", lambda: os.umask(0o22) >= 0, answer), uid) == ("True", True)


def read_nowhere() -> object:
    return os.read(os.open("/nowhere", os.O_RDONLY), 100)


def read_and_close() -> bytes:
    file = os.open("/nowhere", os.O_RDONLY)
    try:
        return os.read(file, 100)
    finally:
        os.close(file)


def test_a_descriptor_is_put_before_the_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("handed over")

    def answer(listener: int) -> object:
        call = received(listener)
        with open(tmp_path / "file") as file:
            number = seccomp.put_descriptor(listener, call.id, file.fileno(), close_on_exec=True)
        assert number is not None and seccomp.is_valid(listener, call.id)
        return seccomp.respond(listener, call.id, value=number)

    assert in_child(lambda: watched("openat", read_nowhere, answer)) == ("b'handed over'", True)


def test_a_signal_does_not_keep_a_descriptor_from_the_caller(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("handed over")
    count = 2000

    def read_all() -> object:
        return {read_and_close() for _ in range(count)}

    def answer(listener: int) -> object:
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        with open(tmp_path / "file") as file:
            for _ in range(count):
                while (call := seccomp.receive(listener)) is None:
                    continue
                os.lseek(file.fileno(), 0, os.SEEK_SET)
                number = seccomp.put_descriptor(listener, call.id, file.fileno(), close_on_exec=True)
                assert number is not None
                seccomp.respond(listener, call.id, value=number)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return True

    assert in_child(lambda: watched("openat", read_all, answer)) == ("{b'handed over'}", True)


def test_a_caller_that_was_killed_waits_for_no_answer() -> None:
    def answer(listener: int) -> object:
        call = received(listener)
        os.kill(call.pid, signal.SIGKILL)
        os.waitid(os.P_PID, call.pid, os.WEXITED | os.WNOWAIT)
        put = seccomp.put_descriptor(listener, call.id, listener, close_on_exec=True)
        return seccomp.is_valid(listener, call.id), put, seccomp.respond(listener, call.id)

    assert in_child(lambda: watched("getppid", os.getppid, answer)) == ("", (False, None, False))


def test_warden_gone_means_enosys() -> None:
    def answer(listener: int) -> object:
        return received(listener).number

    said, _ = in_child(lambda: watched(MKDIR, mkdir, answer))
    assert said == "ENOSYS"


@USERS
def test_an_errno_without_a_listener(uid: int) -> None:
    def action() -> None:
        process.set_no_new_privs()
        seccomp.install(seccomp.pack(about("getsid", seccomp.RET_ERRNO | errno.EDOM)))
        os.getsid(0)

    with pytest.raises(OSError, match="Numerical argument") as caught:
        in_child(action, uid)
    assert caught.value.errno == errno.EDOM


def test_flags_are_known() -> None:
    assert seccomp.has_flags(FLAGS)
    assert not seccomp.has_flags(1 << 30)
