"""What this machine can enforce, as far as it can be asked without a fork: a host with threads asks this.

Whether namespaces can be had shows when the first session is made; it stops with the kernel's words if not.
`try_machine` tries everything, in children: some ten milliseconds.
"""

import os

from pinfold.kernel import cgroups, landlock, seccomp
from pinfold.model.machine import Layer, Machine

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
