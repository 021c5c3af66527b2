"""Spawners that a command has stopped while their pen was built: they are continued.

Facts (kill(2), proc_pid_stat(5)):
- To signal a process its uid is enough, whatever powers it has. A spawner has its commands' uid, and is in
  their pid namespace before its pen is ready: those of the session's other pens can stop it (SIGSTOP).
- Who has been stopped is told by /proc/PID/stat to everybody: the name in brackets, then the state.

What this means for us: nobody knows the pid of a spawner that was stopped before its first word, so all that
are called so are continued. A program may call itself the same, and gains that it is continued.
"""

import os
import signal
from contextlib import suppress

BUILDER, SPAWNER = "pinfold-builder", "pinfold-spawner"
"""What a spawner is called at first, and from then on."""


def continue_stopped() -> None:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):  # it has ended, or is somebody else's
                _continue(int(name))


def _continue(pid: int) -> None:
    if not _is_stopped(pid):
        return
    process = os.pidfd_open(pid)
    try:
        if _is_stopped(pid):  # the number was not another's by the time we got hold of it
            signal.pidfd_send_signal(process, signal.SIGCONT)
    finally:
        os.close(process)


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        name, _, rest = file.read(256).partition(b"(")[2].rpartition(b") ")
    return name.decode(errors="replace") in (BUILDER, SPAWNER) and rest[:1] == b"T"
