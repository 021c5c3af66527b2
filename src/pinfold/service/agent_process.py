"""What /proc tells of the processes of agents and of clients.

Facts: an agent starts hooks and commands by shells, and a shell may `exec` what it starts. So the agent is
the first process above that is neither a shell nor our interpreter.
"""

import os
import select
from contextlib import suppress

EDITORS = frozenset(["code", "code-insiders", "codium", "electron"])
"""Programs with dialogs of their own. VS Code's hooks are also Copilot CLI's, which is no editor."""
TERMINALS = ("/dev/pts/", "/dev/tty")
PRINTS = frozenset([b"-p", b"--print", b"--prompt"])
"""Arguments of agents that make them answer once, without a dialog."""
BETWEEN = frozenset(["bash", "sh", "dash", "zsh", "fish", "env", "timeout", "nice", "setsid", "stdbuf"])
OURS_TO_RAISE = ("Max core file size", "Max open files")
"""Limits that agents' programs raise for themselves, and their shells inherit; commands have their own."""


def shows_dialogs(pid: int) -> bool:
    """Whether an agent's process is an editor's, or reads a terminal and is not told to print an answer."""
    with suppress(OSError):
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in EDITORS:
            return True
        reads_terminal = os.readlink(f"/proc/{pid}/fd/0").startswith(TERMINALS)
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).split(b"\0")
        return reads_terminal and not PRINTS & {*words}
    return False


def has_ended(handle: int) -> bool:
    """Whether the process of this handle has ended."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def has_terminal(pid: int) -> bool:
    """Whether a process has a controlling terminal."""
    with suppress(OSError, IndexError):
        return stat_fields(pid)[4] != "0"
    return False


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on (proc_pid_stat(5))."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()


def agent_above(pid: int) -> int:
    """The agent that has started a process; 0 if it cannot be told."""
    ours = os.path.realpath("/proc/self/exe")
    with suppress(OSError, ValueError):
        while pid > 1:
            program = os.readlink(f"/proc/{pid}/exe")
            name = os.path.basename(program)
            if program != ours and name not in BETWEEN and not name.startswith("python"):
                return pid
            pid = int(stat_fields(pid)[1])
    return 0


def limits_of(pid: int) -> tuple[str, ...]:
    """What bounds a process's commands besides its rights: limits, priorities and processors."""
    with open(f"/proc/{pid}/limits", encoding="utf-8", errors="replace") as file:
        limits = [line for line in file if not line.startswith(OURS_TO_RAISE)]
    priority = os.getpriority(os.PRIO_PROCESS, pid)
    return (*limits, f"{priority} {os.sched_getscheduler(pid)} {sorted(os.sched_getaffinity(pid))}")
