"""Processes, as /proc tells of them; any may end while it is looked at."""

import os
import signal
from typing import NamedTuple

from tests.patience import wait_until


class Status(NamedTuple):
    name: str
    state: str
    parent: int


GONE = Status("", "X", -1)


def status_of(pid: int) -> Status:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            head, _, tail = file.read().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return GONE
    state, parent, *_ = tail.split()
    return Status(head.partition("(")[2], state, int(parent))


def is_alive(pid: int) -> bool:
    return status_of(pid).state not in ("X", "Z")


def kill(pid: int) -> None:
    """And waits for its end."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))


def processes_of(keeper: int) -> list[int]:
    """The keeper and everything below: the session's init, wardens, spawners, and what they started."""
    found = [keeper]
    for pid in found:
        every = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        found += [each for each in every if status_of(each).parent == pid]
    return found


def wardens_of(keeper: int) -> list[int]:
    """Those that live: the keeper may not have collected the others yet."""
    return [pid for pid in processes_of(keeper) if status_of(pid).name == "pinfold-warden" and is_alive(pid)]
