"""Limits how many seccomp filters the commands of a session may install, since the whole machine shares the
memory for compiled filters.

Facts (kernel/seccomp.c, kernel/bpf/core.c; tried on 6.18):
- The compiled filters of all unprivileged programs count against `net.core.bpf_jit_limit`, 264 or 528 MB for
  the whole machine. At that limit no such program can install one: no browser, no sshd, no other sandbox, no
  pen of ours. A process may hold filters of 32,768 instructions, over a megabyte of code.
- A filter lives as long as a task that it binds. Children share their parent's. /proc tells how many filters
  bind each thread, but not which. So the threads of a process count separately only if one of them installed
  a filter for itself.
- The filter that a program asks for lies behind a pointer, so each counts as the largest possible one.

So the first filters of a pen pass uncounted. After that, the warden counts what the session has. The call
then goes back to the kernel, which is safe: this limits a number, and decides nothing by what the pointer
leads to.

Accepted: filters that pass uncounted between two counts, in each pen. A filter that processes share counts
once for each process.
"""

import errno
import os
from collections.abc import Iterator

from pinfold.model.codes import ViolationCode
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.violations import ViolationLog

PROC = "/proc"
"""The pen's own /proc, with the processes of the session."""
UNCOUNTED = 64
MOST = 512
SYNCED = 1
"""SECCOMP_FILTER_FLAG_TSYNC: the filter binds all threads of the process."""
FULL = NameRule(
    "",
    f"the commands of this session have {MOST} seccomp filters already; end some of them first",
    grantable=False,
    code=ViolationCode.TOO_MANY_FILTERS,
)


class FilterBudget:
    def __init__(self, records: ViolationLog) -> None:
        self.records = records
        self.base = _filters_of("self/status") + 1
        """The filters that bind every command: the warden's own, and the pen's."""
        self.left = UNCOUNTED
        self.apart: set[int] = set()
        """Processes in which a thread has filters of its own, by their ids in the session."""
        self.handlers = {"seccomp": self.install, "prctl": self.install_by_prctl}

    def install(self, caller: Caller) -> None:
        self._install(caller, is_synced=bool(caller.arguments[1] & SYNCED))

    def install_by_prctl(self, caller: Caller) -> None:
        self._install(caller, is_synced=False)

    def _install(self, caller: Caller, *, is_synced: bool) -> None:
        process, thread = caller.numbers_inside()
        if process != thread and not is_synced:
            self.apart.add(process)
        if not self.left:
            self.left = min(UNCOUNTED, max(0, MOST - self._count()))
        if not self.left:
            tag, program = caller.identify()
            self.records.add(tag, "seccomp", "", FULL, program, caller.pid)
            return caller.refuse(errno.ENOMEM)
        self.left -= 1
        return caller.resume()

    def _count(self) -> int:
        processes = {int(name) for name in os.listdir(PROC) if name.isdigit()}
        self.apart &= processes
        return sum(map(self._held_by, processes))

    def _held_by(self, process: int) -> int:
        own_fds = [max(0, filters - self.base) for filters in _filters_of_threads(process)]
        return sum(own_fds) if process in self.apart else max(own_fds, default=0)


def _filters_of_threads(process: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"{PROC}/{process}/task")
    except OSError:  # the process has ended
        return
    for thread in threads:
        yield _filters_of(f"{process}/task/{thread}/status")


def _filters_of(status: str) -> int:
    """How many filters bind a thread; 0 once it has ended."""
    try:
        with open(f"{PROC}/{status}", "rb") as file:  # the process's name may be any bytes
            return int(file.read().partition(b"\nSeccomp_filters:")[2].split(None, 1)[0])
    except (OSError, IndexError):
        return 0
