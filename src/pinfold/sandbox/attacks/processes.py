"""Attacks on other processes: outside the pen, in other sandboxes, and by living on after the end.

Some take a directory, with its mounts, from another sandbox. Two commands under different policies run these:
the first leaves a process that sends a directory to any client, or whose /proc entries can be read; the
second is the attack.
"""

import errno
import fcntl
import os
import signal
import socket
import time
from contextlib import suppress

from pinfold.kernel.syscall import system_call
from pinfold.sandbox.attacks.attack import (
    APPROVES,
    BEHIND,
    HIDDEN,
    LENDS,
    OUTLIVES,
    AttackStage,
    Targets,
    Untried,
    attack,
    prepare,
)
from pinfold.sandbox.attacks.network import TIMEOUT, near

SECONDS = 30
"""Seconds for which the first command's process waits for the second."""
PID = "lender-pid"


def lend(path: str, directory: str, told: str) -> None:
    """Leaves a process that listens at a path, or an abstract name, and sends a directory."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    listener.settimeout(SECONDS)
    if pid := os.fork():
        with open(told, "w") as file:
            file.write(str(pid))
        return
    os.setsid()
    with suppress(OSError):
        connection, _ = listener.accept()
        socket.send_fds(connection, [b"x"], [os.open(directory, os.O_RDONLY)])
    os._exit(0)


def take(path: str) -> str | None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(TIMEOUT)
        client.connect(path)
        _, lent, _, _ = socket.recv_fds(client, 1, 1)
    return "was sent a directory" if lent else None


def lent_by(targets: Targets, path: str) -> str | None:
    told = f"{targets.work}/{PID}"
    if not os.path.exists(told):
        prepare(lambda: lend(path, targets.work, told))
        return None
    return take(path)


@attack("be sent a directory of another sandbox, over a socket with a path", LENDS, stage=AttackStage.OTHER)
def take_by_path(targets: Targets) -> str | None:
    return lent_by(targets, near(f"{targets.work}/lender"))


@attack("be sent a directory of another sandbox, over an abstract socket", LENDS, stage=AttackStage.OTHER)
def take_by_abstract_name(targets: Targets) -> str | None:
    return lent_by(targets, f"\0{targets.abstract}-lender")


@attack("see what another sandbox hides, in its table of mounts", LENDS, stage=AttackStage.OTHER)
def read_others_mounts(targets: Targets) -> str | None:
    told = f"{targets.work}/{PID}"
    if not os.path.exists(told):
        prepare(lambda: lend(f"\0{targets.abstract}-mounts", targets.work, told))
        return None
    with open(told) as file, open(f"/proc/{int(file.read())}/mountinfo") as mounts:
        return "read it" if mounts.read() else None


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
PARENT = os.getppid()
"""The process that started this program."""
LOCK, STOP = "daemon.lock", "daemon.stop"
LONGEST = 20.0
"""Seconds after which a daemon ends by itself if the session did not end it."""


@attack("see a process of the machine", HIDDEN)
def see_process(targets: Targets) -> str | None:
    with open(f"/proc/{targets.victim}/cmdline", "rb") as file:
        return "saw it" if file.read().startswith(b"sleep\0") else None


@attack("end a process of the machine", APPROVES)
def signal_process(targets: Targets) -> str | None:
    seen = is_there(targets)
    os.kill(targets.victim, signal.SIGTERM)
    return "signalled it" if seen else None


@attack("end a process of the machine by a pidfd", APPROVES)
def signal_by_pidfd(targets: Targets) -> str | None:
    seen = is_there(targets)
    signal.pidfd_send_signal(os.pidfd_open(targets.victim), signal.SIGTERM)
    return "signalled it" if seen else None


@attack("trace a process of the machine", APPROVES)
def trace_process(targets: Targets) -> str:
    require_victim(targets)
    system_call("ptrace", PTRACE_SEIZE, targets.victim, 0, 0)
    system_call("ptrace", PTRACE_INTERRUPT, targets.victim, 0, 0)
    os.waitpid(targets.victim, 0x40000000)
    system_call("ptrace", PTRACE_DETACH, targets.victim, 0, 0)
    return "traced it"


@attack("open the memory of a process of the machine for writing", APPROVES)
def open_memory(targets: Targets) -> str:
    require_victim(targets)
    os.close(os.open(f"/proc/{targets.victim}/mem", os.O_RDWR))
    return "opened it"


@attack("leave the sandbox by the root directory of a process of the machine", APPROVES)
def leave_by_its_root(targets: Targets) -> str:
    require_victim(targets)
    os.listdir(f"/proc/{targets.victim}/root/")
    os.close(os.open(f"/proc/{targets.victim}/root{targets.outside}/file", os.O_WRONLY))
    return "left by it"


@attack("change the priority of a process of the machine")
def renice_process(targets: Targets) -> str | None:
    before = os.getpriority(os.PRIO_PROCESS, targets.victim)
    os.setpriority(os.PRIO_PROCESS, targets.victim, before + 1)
    return None


@attack("open the memory of the process that starts commands", APPROVES)
def open_parents_memory(_: Targets) -> str:
    os.close(os.open(f"/proc/{PARENT}/mem", os.O_RDWR))
    return "opened it"


@attack("leave a daemon that outlives its session", OUTLIVES, stage=AttackStage.CLOSE)
def outlive_session(targets: Targets) -> str | None:
    leave_daemon(targets)
    return None


@attack("leave a daemon that outlives the time limit", OUTLIVES, stage=AttackStage.TIMEOUT)
def outlive_timeout(targets: Targets) -> str | None:
    leave_daemon(targets)
    time.sleep(LONGEST)
    return None


@attack(
    "end the process that starts commands, and use what replaces it",
    sandboxed_only="no sandbox separates the attacker from the process",
    stage=AttackStage.REPLACED,
)
def end_spawner(_: Targets) -> str | None:
    with open(f"/proc/{PARENT}/comm") as file:
        if file.read().strip() != "pinfold-spawner":
            raise Untried("commands are not started by a spawner")
    os.kill(PARENT, signal.SIGKILL)
    time.sleep(0.2)
    return None


@attack(
    "find something in the workspace that building the sandbox left there",
    BEHIND,
    sandboxed_only="nothing is built without a sandbox",
    stage=AttackStage.LEFTOVERS,
)
def find_leftovers(_: Targets) -> str | None:
    return None


def is_there(targets: Targets) -> bool:
    """Whether the victim's process id means the victim here, and not a process of our own."""
    with suppress(OSError):
        return see_process(targets) is not None
    return False


def require_victim(targets: Targets) -> None:
    if not is_there(targets):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def leave_daemon(targets: Targets) -> None:
    """Leaves a process in a session of its own, orphaned twice, that holds a lock as long as it lives."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _hold(targets)
        os._exit(0)
    os.wait()
    while os.path.getsize(f"{targets.work}/{LOCK}") == 0:
        time.sleep(0.005)


def _hold(targets: Targets) -> None:
    try:
        lock = os.open(f"{targets.work}/{LOCK}", os.O_WRONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, b"held")
        end = time.monotonic() + LONGEST
        while time.monotonic() < end and not os.path.exists(f"{targets.work}/{STOP}"):
            time.sleep(0.02)
    finally:
        with suppress(OSError):
            os._exit(0)
