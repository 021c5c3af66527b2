"""What every backend keeps to; run in a child for each, as root and as an ordinary user."""

import os
import signal
import sys
import threading
import time
from typing import Any

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Exited, Output, Stream
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox import backend as shell
from pinfold.sandbox.backend import Backend, RunningCommand, SandboxSession, StartRequest
from pinfold.sandbox.linux.host.backend import LinuxBackend
from pinfold.sandbox.unsandboxed import UnsandboxedBackend
from tests.patience import wait_until

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)
BACKENDS: dict[str, type[Backend]] = {
    "linux": LinuxBackend,
    "none": UnsandboxedBackend,
}


def keeps_the_contract(name: str) -> None:
    backend: Backend = BACKENDS[name]()
    session = backend.open_session([os.getcwd()])
    for check in (
        results,
        odd_commands,
        the_shell_is_bash,
        events,
        what_ended_by_itself,
        repeats,
        limits,
        terminals,
        what_the_host_ignores,
        nobody_waits,
        concurrency,
    ):
        check(session)
    with backend.block_renames():
        assert session.run(request("true")).exit_code == 0  # what moves nothing goes on
    assert session.is_alive()
    session.close()
    assert not session.is_alive()
    session.close()
    backend.close()
    backend.close()


def request(command: str | tuple[str, ...], **more: object) -> StartRequest:
    return StartRequest(command, POLICY, os.getcwd(), **more)  # type: ignore[arg-type]


def results(session: SandboxSession) -> None:
    result = session.run(request("echo out; echo err >&2; exit 3"))
    assert (result.exit_code, result.signal, result.stdout, result.stderr) == (3, None, b"out\n", b"err\n")
    assert session.run(request(("echo", "a b", "$HOME"))).stdout == b"a b $HOME\n"
    assert session.run(request("cat", stdin=b"in")).stdout == b"in"
    assert session.run(request("cat")).stdout == b""
    assert session.run(request("kill -9 $$")).signal == 9
    assert session.run(request(("no-such-program",))).exit_code == 127
    assert session.run(request(("/etc/passwd",))).exit_code == 126
    assert os.fsdecode(session.run(request("pwd -P")).stdout).strip() == os.path.realpath(os.getcwd())
    for where in ("/nowhere", "/etc/passwd", "/a\0b"):
        _is_not_run(session, StartRequest("true", POLICY, where))
    _is_not_run(session, request(()))


def _is_not_run(session: SandboxSession, impossible: StartRequest) -> None:
    try:
        session.run(impossible)
    except ConfinementError as error:
        assert str(error) and "\n" not in str(error)
    else:
        raise AssertionError(f"{impossible} ran")


def odd_commands(session: SandboxSession) -> None:
    """What cannot be executed ends like a command that could not, and leaves nothing open."""
    with open("no-program", "w") as file:
        file.write("echo no first line says who runs this\n")
    os.chmod("no-program", 0o755)
    session.run(request("true"))
    before = len(os.listdir("/proc/self/fd"))
    for odd in (
        request(("./no-program",)),
        request(("echo", "a\0b")),
        request(("echo",), variables={"A": "a\0b"}),
        request(("echo",), variables={"A": 1}, stdin=b"fed"),
        request(("echo", "x" * (1 << 20))),
    ):
        result = session.run(odd)
        assert result.exit_code == 126 and result.stderr, result
    assert len(os.listdir("/proc/self/fd")) == before
    os.unlink("no-program")


def the_shell_is_bash(session: SandboxSession) -> None:
    """Lines are judged as bash reads them."""
    assert session.run(request(r"echo $'a\'; touch pwned #'")).stdout == b"a'; touch pwned #\n"
    assert not os.path.exists("pwned")
    was, shell.SHELL = shell.SHELL, None
    _is_not_run(session, request("echo"))
    assert session.run(request(("echo",))).exit_code == 0
    shell.SHELL = was


def events(session: SandboxSession) -> None:
    found = list(session.start(request("echo one")).events())
    assert found == [Output(Stream.STDOUT, b"one\n"), Exited(0, None)]
    command = session.start(request("sleep 1000"))
    threading.Timer(0.05, command.cancel).start()
    end = command.wait()
    assert end.cancelled and end.signal == 9 and not end.timed_out


def what_ended_by_itself(session: SandboxSession) -> None:
    """It is told so, though it was cancelled, or its time was up, before anybody looked."""
    for line, end in (("exit 3", Exited(3, None)), ("kill -15 $$", Exited(None, 15))):
        cancelled, late = _ended_unseen(session, line), _ended_unseen(session, line, timeout=0.1)
        cancelled.cancel()
        wait_until(late._is_late)
        session.tend(1000)
        assert [*cancelled.events(), *late.events()] == [end, end]


def _ended_unseen(session: SandboxSession, line: str, **more: object) -> Any:
    command: Any = session.start(request(line, **more))
    wait_until(lambda: command.status in dict(command.poll.poll(0)))
    return command


def repeats(session: SandboxSession) -> None:
    """A command can be asked for its end as often as one likes, and nobody else's descriptor pays for it."""
    command = session.start(request("echo one; exit 3"))
    end = command.wait()
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(10)]
    assert command.wait() == end and end.stdout == b"one\n"
    _refuses_to_be_followed(command)
    followed = session.start(request("echo one; exit 3"))
    assert list(followed.events())[-1] == Exited(3, None)
    others += [os.open("/dev/null", os.O_RDONLY) for _ in range(10)]
    assert followed.wait().exit_code == 3 and followed.wait().stdout == b""
    _refuses_to_be_followed(followed)
    left = session.start(request("echo one; sleep 1000"))
    following = left.events()
    next(following)
    _refuses_to_be_followed(left)
    following.close()  # type: ignore[attr-defined]  # they are generators
    assert left.wait().cancelled
    for other in others:
        os.close(other)


def _refuses_to_be_followed(command: RunningCommand) -> None:
    try:
        next(command.events())
    except ConfinementError as error:
        assert "once" in str(error)
    else:
        raise AssertionError("a command was followed twice")


def limits(session: SandboxSession) -> None:
    late = session.run(request("echo before; sleep 1000", timeout=2))
    assert late.timed_out and late.signal == 9 and late.exit_code is None and late.stdout == b"before\n"
    long = session.run(request("head -c 1000000 /dev/zero", output=10))
    assert long.truncated and len(long.stdout) == 10 and long.exit_code == 0
    assert not session.run(request("echo 123456789", output=10)).truncated


def terminals(session: SandboxSession) -> None:
    """Its size, its keys and its Ctrl-C are those of any terminal."""
    before = len(os.listdir("/proc/self/fd"))
    line = "stty size; read word < /dev/tty; stty size; echo got $word; sleep 1000"
    command = session.start(request(line, terminal=(30, 100)))
    seen = b""
    keys = [(b"30 100", b"word\n"), (b"got word", b"\x03")]
    for event in command.events():
        if isinstance(event, Output):
            seen += event.data
            if keys and keys[0][0] in seen:
                command.resize(40, 120)
                command.write(keys.pop(0)[1])
    assert b"40 120\r\n" in seen and command.wait().signal == 2, (seen, command.wait())
    missing = session.run(request(("no-such-program",), terminal=(30, 100)))
    assert missing.exit_code == 127 and missing.stderr.endswith(b"\r\n")
    for ended in (command, session.start(request("true"))):
        try:
            ended.write(b"x")
        except ConfinementError as error:
            assert "no terminal" in str(error)
        else:
            raise AssertionError("somebody typed where nobody reads")
        ended.wait()
    assert len(os.listdir("/proc/self/fd")) == before


def what_the_host_ignores(session: SandboxSession) -> None:
    """A host that a script started with `&` ignores Ctrl-C; its commands do not, in a terminal or without."""
    ignored = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGHUP)}
    try:
        for terminal in (None, (30, 100)):
            for each in ignored:
                ended = session.run(request(("bash", "-c", f"kill -{each} $$"), terminal=terminal))
                assert ended.signal == each, ended
    finally:
        for each, handler in ignored.items():
            signal.signal(each, handler)


def nobody_waits(session: SandboxSession) -> None:
    """Time runs for commands that nobody follows, and for those that somebody follows slowly."""
    waits = "until test -e go; do sleep 0.02; done"
    unattended = session.start(request(f"{waits}; echo > too-late", timeout=1))
    slowly = session.start(request(f"echo on; {waits}; echo > too-late", timeout=2))
    following = slowly.events()
    assert next(following) == Output(Stream.STDOUT, b"on\n")
    unlimited = session.start(request(f"{waits}; echo > in-time"))
    time.sleep(2.1)
    session.tend(1000)
    with open("go", "w"):
        pass
    wait_until(lambda: os.path.exists("in-time"))
    assert not os.path.exists("too-late")
    assert unattended.wait().timed_out and list(following)[-1] == Exited(None, 9, timed_out=True)
    end = unlimited.wait()
    assert end.exit_code == 0 and not end.timed_out
    session.tend(1000)
    for name in ("go", "in-time"):
        os.unlink(name)


def concurrency(session: SandboxSession) -> None:
    found: dict[int, bytes] = {}

    def work(number: int) -> None:
        found[number] = session.run(request(f"echo {number}")).stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\n".encode() for number in range(20)}


if __name__ == "__main__":
    keeps_the_contract(sys.argv[1])
