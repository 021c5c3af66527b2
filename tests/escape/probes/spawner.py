"""Commands of one pen against the spawner of the session's next one, while that is built: each function runs
in a child of the tests, as root and as an ordinary user, in a workspace of its own. Its name says what must
hold."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.patience import wait_until
from tests.probe_module import SKIPPED, probes_of, run
from tests.session.probes.run import opened

import pinfold
from pinfold.kernel.syscall import MACHINE, NUMBERS

ROUNDS = 8
LONGEST = 55.0
"""Seconds after which a command was kept waiting: it is refused within a few, on a busy machine within some
more, and who is not refused waits for as long as a command may take (`timeout`)."""
HUNT = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
def seen():
    # Nobody sees its name, but it has its session's leader outside, until it becomes a command.
    for pid in range(2, 400):
        try:
            if os.getsid(pid) == 0 and pid != os.getppid(): yield pid
        except OSError: continue
def got(pid):
    for name in ("root", "cwd", "exe", "ns/mnt", "ns/user", "ns/pid", "fd/0", "fd/1"):
        try: yield name, os.readlink(f"/proc/{pid}/{name}")
        except OSError: pass
    for name in ("environ", "mem", "maps", "syscall", "auxv"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                if found := file.read(8): yield name, found
        except OSError: pass
    try: handle = os.pidfd_open(pid)
    except OSError: return
    for number in range(32):
        if libc.syscall(438, handle, number, 0) >= 0: yield "pidfd_getfd", number
    for kind in (0x20000, 0x10000000, 0x20000000, 0x40000000):
        if libc.setns(handle, kind) == 0: yield "setns", kind
    os.close(handle)
    if libc.ptrace(0x4206, pid, 0, 0) == 0: yield "ptrace", pid
open("hunting", "w").close()
hunted, stopped = set(), set()
while not os.path.exists("enough"):
    for pid in seen():
        hunted.add(pid)
        try:
            if sys.argv[1] == "look":
                for found in got(pid): print("GOT", *found, flush=True)
            else:
                os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)
                if pid in seen() and sys.argv[1] == "SIGKILL": os.kill(pid, signal.SIGKILL)
        except OSError: pass
    # One that has become its program meanwhile is a command, which may be stopped: that is not tried here.
    for pid in stopped.difference(seen()):
        stopped.discard(pid)
        try: os.kill(pid, signal.SIGCONT)
        except OSError: pass
print("hunted", len(hunted))
"""
FENCED = "grep -cE 'CapEff:.0+$|NoNewPrivs:.1|Seccomp:.2' /proc/self/status; echo x > ../home/out; ls ../home"


@contextmanager
def hunted(how: str) -> Iterator[pinfold.Session]:
    """A session in which somebody hunts spawners; it fails if they got anything."""
    with opened() as session:
        hunter = session.start(["/usr/bin/python3", "-I", "-c", HUNT, how], timeout=80)
        wait_until(lambda: os.path.exists("hunting"))
        yield session
        with open("enough", "w"):
            pass
        told = hunter.wait().stdout
        assert "GOT" not in told, told
        assert "hunted 0" not in told, told


def in_new_pens(session: pinfold.Session, how: str, rounds: int = ROUNDS) -> int:
    """How many commands ran, each in a pen of its own: inside the fence, or not at all, and soon."""
    ran = 0
    for number in range(rounds):
        policy = pinfold.SandboxPolicy(protected=(f"{os.getcwd()}/never-{number}",))
        began = time.monotonic()
        try:
            result = session.run(pinfold.RunCommand(FENCED, policy=policy, timeout=60))
        except pinfold.ConfinementError as error:
            told = str(error)
            assert "nothing was run" in told or "partly completed" in told, told
        else:
            # Until it becomes its program a command is called like its spawner: then it never ran.
            is_dead = how == "SIGKILL" and result.signal == signal.SIGKILL and not result.stdout
            assert result.ran and (is_dead or result.stdout == "3\n"), result
            told = "it ran"
            ran += not is_dead
        took = time.monotonic() - began
        assert took < LONGEST, f"it took {took:.1f} s: {told}"
    return ran


def nobody_looks_into_a_spawner_that_begins() -> None:
    with hunted("look") as session:
        assert in_new_pens(session, "look", 2 * ROUNDS) == 2 * ROUNDS


def a_spawner_that_is_stopped_keeps_nobody_waiting() -> None:
    with hunted("SIGSTOP") as session:
        in_new_pens(session, "SIGSTOP", 3)


def a_spawner_that_is_killed_leaves_no_open_pen() -> None:
    with hunted("SIGKILL") as session:
        in_new_pens(session, "SIGKILL")


SLOW = """
import os, subprocess, sys
subprocess.run([*sys.argv[1:], str(os.getppid())], check=True); print("slowed")
"""
FIRST = min(os.sched_getaffinity(0))
WAYS = ("renice -n 19 -p", "chrt --idle -p 0", f"taskset -cp {FIRST}", "ionice -c 3 -p")
TOLD = "nice; chrt -p $$ | grep policy | cut -d: -f2; nproc; ionice"


def nobody_slows_down_what_comes_later() -> None:
    """Its spawner's niceness and processors are every command's."""
    usual = subprocess.check_output(["bash", "-c", TOLD], text=True)
    with opened() as session:
        for way in WAYS:
            slowed = session.run(["/usr/bin/python3", "-I", "-c", SLOW, *way.split()])
            assert "slowed" in slowed.stdout, slowed
            assert session.run(TOLD).stdout == usual, way


ENDER = """
import os, subprocess, sys
def pace(): return os.getpriority(os.PRIO_PROCESS, 1), os.sched_getscheduler(1), os.sched_getaffinity(1)
def disk(): return subprocess.check_output(["ionice", "-p", "1"])
usual = pace(), disk()
user = str(os.getuid())
for way in (*(f"{way} 1" for way in sys.argv[1:]), f"renice -n 19 -u {user}", f"ionice -c 3 -u {user}"):
    refused = subprocess.run(way.split(), capture_output=True).returncode
    if not refused or (pace(), disk()) != usual: print(way)
"""


GROUPS = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/autogroup", "w") as file: file.write("19")
    except OSError: pass
"""


def nobody_slows_down_the_group_of_who_ends_commands() -> None:
    """Root of a pen may write what the kernel shows of every process that it sees, unless it is mounted."""
    if not os.path.exists("/proc/self/autogroup"):
        print("this kernel has no scheduling groups of its own")
        sys.exit(SKIPPED)
    with opened() as session:
        assert session.run(["/usr/bin/python3", "-I", "-c", GROUPS]).exit_code == 0
        assert session.run("echo 19 > /proc/1/oom_score_adj").exit_code
        pens: Any = session.sandboxes.sandboxed()
        with open(f"/proc/{pens.pid}/autogroup") as file:
            assert file.read().endswith(" nice 0\n")


def nobody_slows_down_who_ends_commands() -> None:
    """Pid 1: with its niceness at 19 and three hundred busy processes a time limit would never come."""
    with opened() as session:
        told = session.run(["/usr/bin/python3", "-I", "-c", ENDER, *WAYS])
        assert (told.stdout, told.exit_code) == ("", 0), told


PACE = """
import os
def refused(change):
    try: change()
    except PermissionError: return True
assert refused(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
assert refused(lambda: os.setpriority(os.PRIO_PROCESS, 0, -1))
"""


def no_command_is_faster_than_who_ends_commands() -> None:
    """Some users may have real-time priorities, or more than the usual one."""
    try:
        for kind, most in ((resource.RLIMIT_RTPRIO, 50), (resource.RLIMIT_NICE, 40)):
            resource.setrlimit(kind, (most, most))
    except (OSError, ValueError):
        print("this user cannot have such a priority")
        sys.exit(SKIPPED)
    with opened() as session:
        told = session.run(["/usr/bin/python3", "-I", "-c", PACE])
        assert told.exit_code == 0, told


SIBLINGS = """
import ctypes, os, signal, sys
libc, clone_parent = ctypes.CDLL(None), 0x8000
for _ in range(1_000):
    made = libc.syscall(int(sys.argv[1]), ctypes.c_long(clone_parent | signal.SIGCHLD), 0, 0, 0, 0)
    if made == 0: os._exit(0)
    if made < 0: break
"""


def what_has_ended_keeps_nobody_from_starting() -> None:
    """A child of the spawner's own, which it knows nothing of, would never be awaited."""
    with opened() as session:
        call = str(NUMBERS[MACHINE]["clone"])
        assert session.run(["/usr/bin/python3", "-I", "-c", SIBLINGS, call]).exit_code == 0
        for _ in range(2):
            assert session.run("(echo ran) | cat").stdout == "ran\n"


ORPHANS = """
import ctypes, os, sys
libc, traceme = ctypes.CDLL(None), 0
for _ in range(700):
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            while os.getppid() != 1: os.sched_yield()
            libc.ptrace(traceme, 0, 0, 0)
        os._exit(0)
    os.close(end)
    os.waitpid(child, 0)
    os.read(ended, 1)
    os.close(ended)
"""


def orphans_that_have_ended_keep_nobody_from_starting() -> None:
    """Whose tracer is pid 1, which awaits nobody, would not vanish."""
    with opened() as session:
        assert session.run(["/usr/bin/python3", "-I", "-c", ORPHANS]).exit_code == 0
        for _ in range(2):
            assert session.run("(echo ran) | cat").stdout == "ran\n"


TRACER = """
import ctypes, os, sys, time
seize = 0x4206
while not (os.path.exists("pid") and os.path.getsize("pid")): time.sleep(0.01)
with open("pid") as file: pid = int(file.read())
print(ctypes.CDLL(None).ptrace(seize, pid, ctypes.c_void_p(0), ctypes.c_void_p(int(sys.argv[1]))), flush=True)
open("traced", "w").close()
time.sleep(1000)
"""
# Without children: a signal of theirs would stop it, for its tracer.
TRACED = "echo $$ > pid; until [ -e traced ]; do :; done; "
TRACE_EXIT = 0x40


@contextmanager
def traced(session: pinfold.Session, options: int, then: str) -> Iterator[pinfold.Result]:
    """How a command ends that another one of its pen traces and never asks about, while that one runs."""
    tracer = session.start(["/usr/bin/python3", "-I", "-c", TRACER, str(options)], timeout=60)
    yield session.run(["/bin/sh", "-c", TRACED + then], timeout=5)
    tracer.cancel()
    assert tracer.wait().stdout == "0\n"


def a_command_that_another_traces_has_ended_when_it_ends() -> None:
    """It is its tracer's to await first: its spawner would wait for that, and all that is yet to start."""
    with opened() as session:
        for then, end in (("exit 7", (7, None)), ("kill -KILL $$", (None, signal.SIGKILL))):
            with traced(session, 0, then) as told:
                assert (told.exit_code, told.signal) == end and not told.timed_out, told
                assert session.run("echo ran", timeout=5).stdout == "ran\n"
            assert session.run("grep -l '^State:.Z' /proc/[0-9]*/status").stdout == ""
            os.unlink("pid")
            os.unlink("traced")


def a_command_whose_end_another_holds_up_ends_with_its_time() -> None:
    with opened() as session, traced(session, TRACE_EXIT, "exec sleep 1000") as told:
        assert told.timed_out and told.signal == signal.SIGKILL, told
        assert session.run("grep -l '(sleep)' /proc/[0-9]*/stat").stdout == ""


PROBES = probes_of(globals(), "hunted", "in_new_pens", "traced")

if __name__ == "__main__":
    run(globals())
