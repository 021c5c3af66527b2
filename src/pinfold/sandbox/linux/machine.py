"""What this machine can enforce, as a value."""

import os

from pinfold.kernel import landlock, seccomp
from pinfold.sandbox.compat import Machine


def probe_machine() -> Machine:
    """Asks the kernel; changes nothing. Whether namespaces can be had shows when the first is made."""
    return Machine(
        landlock=landlock.abi_version(),
        seccomp=seccomp.has_flags(0),
        superuser=os.geteuid() == 0,
        pid_max=tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 14),
    )
