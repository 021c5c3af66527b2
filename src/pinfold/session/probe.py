"""Whether this process is itself inside somebody's fence, and whether anything speaks against making one.

IS_SANDBOX is only a claim, and any value of it can be set by anyone. It counts together with what the
kernel says of this very process.

Facts (proc(5), user_namespaces(7)): `Seccomp: 2` in /proc/self/status means a filter holds this
process; the initial user namespace maps all 2^32 - 1 ids. `NoNewPrivs: 1` alone holds nothing: many
services have it.
"""

import os
import sys
from collections.abc import Mapping

from pinfold.model.errors import SandboxUnavailable

EVERY_ID = 4294967295
NO_FENCE = f"there is no fence for {sys.platform} yet"
LONGEST = 1 << 16
"""More than any file that is looked at here has."""


def is_inside_fence(environ: Mapping[str, str]) -> bool:
    """Whether IS_SANDBOX is set and the kernel agrees."""
    return bool(environ.get("IS_SANDBOX")) and (_is_filtered() or _is_namespaced())


def require_platform() -> None:
    """Raises where nobody has made a fence for the system that this is."""
    if sys.platform != "linux":
        raise SandboxUnavailable(NO_FENCE)


def fence_trouble() -> str:
    """Why no fence can be made here, as far as a look at the kernel's switches tells; empty if nothing does.

    The first pen is the proof; this is for answers that are wanted before, at no cost.
    """
    if sys.platform != "linux":
        return NO_FENCE
    if _lines("/proc/sys/user/max_user_namespaces") == ["0"]:
        return "user namespaces are switched off (user.max_user_namespaces is 0)"
    if os.geteuid() != 0 and _lines("/proc/sys/kernel/unprivileged_userns_clone") == ["0"]:
        return "user namespaces are root's alone (kernel.unprivileged_userns_clone is 0)"
    return ""


def _is_filtered() -> bool:
    status = dict(line.split(":\t", 1) for line in _lines("/proc/self/status") if ":\t" in line)
    return status.get("Seccomp") == "2"


def _is_namespaced() -> bool:
    mapped = [line.split() for line in _lines("/proc/self/uid_map")]
    return bool(mapped) and sum(int(fields[2]) for fields in mapped) < EVERY_ID


def _lines(path: str) -> list[str]:
    try:
        # A fifth of what an open of Python's costs: this is asked for each command.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, LONGEST).decode("ascii", "replace").splitlines()
        finally:
            os.close(descriptor)
    except OSError:
        return []
