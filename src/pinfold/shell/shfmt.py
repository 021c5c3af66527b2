"""Runs one shfmt process: finds the binary, limits the time and size of its answer, and ends it.

No other module of this package starts a process. This one does not know what a tree means.

Facts about shfmt 3.14 (shfmt-py 4.2), each one tried:
- `-ln bash` on the command line makes it ignore every .editorconfig; from stdin it opens no file of ours.
- It answers with JSON and exit 0, or with `LINE:COL: message` on stderr and exit 1. Never with both.
- Offsets and columns count bytes of the UTF-8 text.
- Deep nesting ends with "exceeded max depth"; 500 nested `"$(` gave 150 MB of answer before that.
- It reads all of stdin before it answers, so a process that waits on stdin has finished its start-up.
- The JSON is indented, and a string in it holds no raw newline: `\n}\n` is at its end and nowhere else.
  Its exit takes as long again as its answer does.

What this means for us: one pipe carries both streams, the exit code tells which it is, and the answer has a
limit in size and time.
"""

import os
import resource
import select
import signal
import sys
import time

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.deadline import BUSY
from pinfold.model.errors import PinfoldError

MAX_ANSWER = 64 * 1024 * 1024
# A text may take this much processor time; the limit by the wall clock is larger, for busy machines.
CPU_SECONDS = 1
TIMEOUT = CPU_SECONDS * BUSY
_CHUNK = 1 << 20
_LAST = b"\n}\n"


class Trouble(Exception):  # noqa: N818 - of the text or the machine, not an error of ours
    """A text has no tree. `offset` counts characters; None if the place is unknown."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class SyntaxTrouble(Trouble):
    """The text is invalid, and would be at any time."""


class ParserTrouble(Trouble):
    """The parser failed at this text now, but may not fail again."""


class TookTooLong(ParserTrouble):
    pass


class NoAnswer(ParserTrouble):
    """The process died before it answered: worth one more try with a new one."""


class Process(Struct, frozen=True):
    pid: int
    stdin: int
    stdout: int
    handle: int = -1
    """A pidfd, or -1. Where the host ignores SIGCHLD, another process may have got the pid by now."""


_binary: list[str] = []


def find_binary() -> str:
    """The shfmt that shfmt-py installed, by the wheel's own RECORD; never one from PATH."""
    if not _binary:
        _binary.append(_look_for_binary())
    return _binary[0]


def _look_for_binary() -> str:
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".") if folder else []
        except OSError:
            continue
        for name in names:
            if name.startswith("shfmt_py-") and name.endswith(".dist-info"):
                found = _recorded_binary(folder, name)
                if found:
                    return found
    raise PinfoldError("the shell parser is missing, so this line cannot be judged; install `shfmt-py` again")


def _recorded_binary(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name, "RECORD"), encoding="utf-8") as record:
            rows = [row.split(",")[0] for row in record]
    except OSError:
        return ""
    for row in rows:
        path = os.path.normpath(os.path.join(os.path.abspath(folder), row))
        if os.path.basename(path) in ("shfmt", "shfmt.exe") and os.access(path, os.X_OK):
            return path
    return ""


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    if min(reader, writer) > 2:
        return reader, writer
    # A host that closed its standard streams: descriptors 0 to 2 would collide with the child's own.
    import fcntl

    moved = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (reader, writer))
    _close(reader, writer)
    return moved[0], moved[1]


def _close(*descriptors: int) -> None:
    for fd in descriptors:
        if fd >= 0:
            os.close(fd)


def start() -> Process:
    """A process that waits for a text. Raises PinfoldError where this machine cannot start one."""
    binary = find_binary()
    opened: list[int] = []
    try:
        opened += _pipe()
        opened += _pipe()
        process = _spawn(binary, *opened)
    except OSError as error:
        _close(*opened)
        why = error.strerror or str(error)
        raise PinfoldError(
            f"the shell parser cannot be started, so this line cannot be judged: {why}; check `{binary}`, "
            "and whether this machine is out of processes, files or memory"
        ) from None
    _limit(process.pid)
    return process


def _spawn(binary: str, child_in: int, stdin: int, stdout: int, child_out: int) -> Process:
    pid = os.posix_spawn(
        binary,
        [binary, "--to-json", "-ln", "bash"],
        {},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, child_in, 0),
            (os.POSIX_SPAWN_DUP2, child_out, 1),
            (os.POSIX_SPAWN_DUP2, child_out, 2),
        ],
        setpgroup=0,  # a Ctrl-C in the host's terminal is not meant for it
        setsigmask=(),
    )
    handle = _handle(pid)
    _close(child_in, child_out)
    return Process(pid, stdin, stdout, handle)


def _handle(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1  # it is gone already, no descriptor is left, or the kernel is older than 5.3


def _limit(pid: int) -> None:
    try:
        resource.prlimit(pid, resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    except OSError:
        return  # it is gone already; asking it will show that


def end(process: Process, *, kill: bool = True) -> int | None:
    """Closes the descriptors and reaps the process; its exit code, or None where other code reaped it."""
    _close(process.stdin, process.stdout)
    try:
        if kill:
            _kill(process)
        return os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
    except (ChildProcessError, ProcessLookupError):
        return None
    finally:
        _close(process.handle)


def _kill(process: Process) -> None:
    if process.handle >= 0:
        signal.pidfd_send_signal(process.handle, signal.SIGKILL)
    elif os.waitpid(process.pid, os.WNOHANG) == (0, 0):  # still ours, so the number is too
        os.kill(process.pid, signal.SIGKILL)


def abandon(process: Process) -> None:
    """Only closes the descriptors: in a forked copy, the process is no child of ours."""
    _close(process.stdin, process.stdout, process.handle)


def ask(process: Process, data: bytes, ended: list[Process]) -> bytes:
    """The JSON for `data`. Adds the process to `ended`; the caller reaps it when there is time."""
    deadline = time.monotonic() + TIMEOUT
    try:
        _write(process.stdin, data, deadline)
        stdin, process = process.stdin, replace(process, stdin=-1)
        os.close(stdin)
        answer = _read(process.stdout, deadline)
    except BaseException:
        end(process)
        raise
    if answer.endswith(_LAST):
        ended.append(process)
        return answer
    code = end(process, kill=False)
    if code == -signal.SIGKILL:
        raise TookTooLong("parsing it takes too long")
    if not answer or (code is not None and code < 0):
        raise NoAnswer("the shell parser died")
    raise trouble_of(answer, data)


def _write(fd: int, data: bytes, deadline: float) -> None:
    os.set_blocking(fd, False)
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            _wait(fd, select.POLLOUT, deadline)
        except BrokenPipeError:
            return


def _read(fd: int, deadline: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        _wait(fd, select.POLLIN, deadline)
        piece = os.read(fd, _CHUNK)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if piece.endswith(_LAST):
            return b"".join(pieces)
        if size > MAX_ANSWER:
            raise SyntaxTrouble("its syntax tree is too large")


def _wait(fd: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(fd, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise TookTooLong("parsing it takes too long")


def trouble_of(answer: bytes, data: bytes) -> SyntaxTrouble:
    """`3:7: message` as trouble with a character offset."""
    message = answer.decode(errors="replace").strip().split("\n")[0].removeprefix("<standard input>:")
    line, _, rest = message.partition(":")
    column, _, words = rest.partition(":")
    if not (line.isdigit() and column.isdigit()):
        return SyntaxTrouble(message or "the shell parser gave no reason")
    before = data.split(b"\n")[: int(line)]
    last = before.pop()[: max(int(column) - 1, 0)]
    offset = len(b"\n".join([*before, last]).decode(errors="replace"))
    return SyntaxTrouble(words.strip(), offset)
