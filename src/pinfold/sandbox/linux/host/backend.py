"""The sandbox on Linux, as the rest of pinfold opens it, and what this machine can enforce.

A command costs the host: pipes, two prlimits that tag the spawner, one message and one short answer. Its
output comes straight from its pipes. The keeper sleeps meanwhile.

A host with threads asks `ask_machine`, which needs no fork. Whether namespaces can be made shows with the
first session, which fails with the kernel's words if not. `try_machine` tries everything, in children: some
ten milliseconds.
"""

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from pinfold.kernel import cgroups, landlock, seccomp
from pinfold.model.machine import Layer, Machine
from pinfold.sandbox.backend import Elevation, Outside, SandboxLayer, Survey
from pinfold.sandbox.linux.host.keeper_client import KeeperClient, take
from pinfold.sandbox.linux.host.session import LinuxSession

PENDING = (SandboxLayer.MEMORY,)
"""What only a delegated cgroup closes: accepted where there is none, and named in every result."""


class LinuxBackend:
    """The keeper starts with the first session, and again if it was killed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.keeper: KeeperClient | None = None
        self.machine = ask_machine()

    def open_session(
        self,
        roots: Sequence[str],
        survey: Survey | None = None,
        outside: Outside | None = None,
        elevation: Elevation | None = None,
        scratch: str = "",
    ) -> LinuxSession:
        with self.lock:
            if self.keeper is None or not self.keeper.is_alive():
                if self.keeper:
                    self.keeper.end()
                self.keeper = take()
            keeper = self.keeper
        return LinuxSession(keeper, self.machine, roots, survey, PENDING, outside, elevation, scratch)

    def block_renames(self) -> AbstractContextManager[None]:
        # Imported here: only file tools want it, and every run of a command would pay for it.
        from pinfold.sandbox.linux.protocol.rename_lock import renames_locked

        return renames_locked()

    def close(self) -> None:
        """Ends every session."""
        with self.lock:
            if self.keeper:
                self.keeper.end()
            self.keeper = None


TRIED_LATER = Layer(True)


def ask_machine() -> Machine:
    uname = os.uname()
    filters = seccomp.has_flags(0)
    listens = seccomp.has_flags(seccomp.FILTER_FLAG_NEW_LISTENER)
    patiently = seccomp.has_flags(seccomp.FILTER_FLAG_NEW_LISTENER | seccomp.FILTER_FLAG_WAIT_KILLABLE_RECV)
    place = cgroups.find()
    return Machine(
        release=uname.release,
        architecture=uname.machine,
        superuser=os.geteuid() == 0,
        landlock=landlock.abi_version(),
        landlock_reason="",
        landlock_errno=0,
        no_new_privs=TRIED_LATER,
        seccomp=Layer(filters, "" if filters else "this kernel filters no system calls"),
        notification=Layer(listens, "" if listens else "no seccomp notification"),
        wait_killable=Layer(patiently, "" if patiently else "no SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"),
        user_namespace=TRIED_LATER,
        mount_namespace=TRIED_LATER,
        pid_namespace=TRIED_LATER,
        net_namespace=TRIED_LATER,
        ipc_namespace=TRIED_LATER,
        uts_namespace=TRIED_LATER,
        cgroup_namespace=TRIED_LATER,
        fresh_proc=TRIED_LATER,
        overlay=TRIED_LATER,
        cgroup=Layer(not place.trouble, place.trouble),
        cgroup_path=place.path,
        yama=-1,
        apparmor_restricts_user_namespaces=False,
    )


def try_machine() -> Machine:
    """What this machine can enforce, by trying it.

    Preconditions: this process has one thread.
    """
    # Imported here: every run of a command would pay for it.
    from pinfold.kernel.probe import probe

    return probe()
