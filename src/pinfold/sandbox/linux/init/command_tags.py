"""The tag that tells which command a process belongs to, and the end of all that carry one.

Facts (getrlimit(2), pid_namespaces(7); measured on Linux 6.18):
- RLIMIT_RTTIME is inherited by every descendant, daemons included, and limits only real-time scheduling,
  which no process of a pen can have. Its hard value can only be lowered, and seccomp refuses a pen's
  processes to change it. So a number that falls with every command marks that command's processes.
- The host sets it on the spawner by prlimit before each command, and one lower after: the spawner itself then
  carries a number of no command.
- A process that forks faster than we look is stopped by RLIMIT_NPROC = 0, set before it is killed.
- uid 0 is not bound by that limit, and 200 bombs of root outran a loop of kills for 5 seconds. It is bound
  by its pid namespace's pid_max (6.14): new pids lie between 300 and that, so with 301 there is hardly one
  to have. uid 0 of the namespace may write it without any capability, but /proc/sys is read-only to commands.
- proc shows a process whose first thread has ended as a zombie, even while other threads run. It also shows
  how many threads the process has.
- A thread whose tracer wants to hear of its end (PTRACE_O_TRACEEXIT) stops before it, killed or not, until
  the tracer lets it go on or has ended itself; further kills are lost on it. A tracer may be another command.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from resource import prlimit

from pinfold.sandbox.linux.protocol.command import FIRST_TAG, MOST_PROCESSES, RLIMIT_RTTIME

RLIMIT_NPROC = 6
PATIENCE = 5.0
TRACERS_PATIENCE = 0.5
"""After which a tracer that still holds an ending thread is ended too: a debugger lets go of it at once."""
SMALLEST = (b"301", b"512", b"1024", b"4096")
"""What pid_max may be at least depends on the number of processors."""
_STATE, _THREADS = 0, 17
"""Where these are in /proc/PID/stat, after the name."""


def kill_tagged(tag: int, pid_max: int | None, most: int = MOST_PROCESSES) -> int:
    """Ends every process that carries a tag; how many were left when patience ended (0, as a rule).

    `pid_max` is that file of this namespace, open for writing, and `most` what it says as a rule.
    """
    began = time.monotonic()
    rounds = 0
    try:
        while holders := _holders(tag):
            rounds += 1
            if rounds == 3 and pid_max is not None:
                bound(pid_max, SMALLEST)
            for pid in holders:
                _end(pid)
            if time.monotonic() > began + TRACERS_PATIENCE:
                _end_tracers(holders)
            if time.monotonic() > began + PATIENCE:
                return len(holders)
            time.sleep(0.0005)
    finally:
        if rounds >= 3 and pid_max is not None:
            bound(pid_max, (str(most).encode(),))
    return 0


def carried() -> dict[int, int]:
    """The tags that living processes carry, and of each the lowest number."""
    found: dict[int, int] = {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError):
            tag = prlimit(pid, RLIMIT_RTTIME)[1]
            if 0 < tag <= FIRST_TAG and tag not in found and _lives(pid):
                found[tag] = pid
    return found


def bound(pid_max: int, values: tuple[bytes, ...]) -> None:
    """The first of these values that the kernel takes."""
    for value in values:
        with contextlib.suppress(OSError):
            os.pwrite(pid_max, value, 0)
            return


def _holders(tag: int) -> list[int]:
    own = os.getpid()
    return [
        pid
        for name in os.listdir("/proc")
        if name.isdigit() and (pid := int(name)) != own and _carries(pid, tag) and _lives(pid)
    ]


def _carries(pid: int, tag: int) -> bool:
    try:
        return prlimit(pid, RLIMIT_RTTIME)[1] == tag
    except OSError:
        return False


def _lives(pid: int) -> bool:
    """Whether it is more than a zombie, which waits for its parent and needs no killing."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[_STATE] not in (b"Z", b"X") or int(fields[_THREADS]) > 1


def _end(pid: int) -> None:
    try:
        prlimit(pid, RLIMIT_NPROC, (0, 0))
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def _end_tracers(pids: list[int]) -> None:
    """Ends the tracers of these processes, and the tracers of those."""
    ended = set(pids)
    while pids:
        tracers = {tracer for pid in pids for tracer in _tracers(pid)} - ended
        for tracer in tracers:
            with contextlib.suppress(OSError):
                os.kill(tracer, signal.SIGKILL)
        ended |= tracers
        pids = list(tracers)


def _tracers(pid: int) -> Iterator[int]:
    """The tracer of each of its threads; 0 is none, or one outside."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/status", "rb") as file:
                told = next(line for line in file if line.startswith(b"TracerPid:"))
                if tracer := int(told.split()[1]):
                    yield tracer
