"""Whether this process is itself inside a sandbox, and whether anything prevents making one.

IS_SANDBOX is only a claim, and any value of it can be set by anyone. It counts together with what the
kernel says of this very process, and only where the kernel refuses a write that the owner of a place may
make anywhere else: a user namespace of one's own (`unshare -Ur`) and many a filter confine no file.

Facts (proc(5), user_namespaces(7), access(2), landlock(7)): `Seccomp: 2` in /proc/self/status means a
filter holds this process; the initial user namespace maps all 2^32 - 1 ids. `NoNewPrivs: 1` alone holds
nothing: many services have it. access(2) knows of read-only mounts and not of Landlock, which an open meets.
An O_TMPFILE that is closed leaves nothing behind.
"""

import errno
import os
import stat
import sys
from collections.abc import Mapping

from pinfold.model.errors import SandboxUnavailable
from pinfold.model.outer_sandbox import with_outer_sandbox

EVERY_ID = 4294967295
NO_FENCE = f"pinfold has no sandbox for {sys.platform} yet"
OUTSIDE = ("/", "/etc", "/usr")
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
LONGEST = 1 << 16
"""More than any file that is looked at here has."""


def is_inside_sandbox(environ: Mapping[str, str]) -> bool:
    """Whether IS_SANDBOX is set and the kernel agrees: it confines us and refuses writes outside."""
    return bool(environ.get("IS_SANDBOX")) and (_is_filtered() or _is_namespaced()) and _is_confined(environ)


def _is_confined(environ: Mapping[str, str]) -> bool:
    """Whether no place outside of the working directory takes a write, though one of them is ours."""
    ours = [place for place in (environ.get("HOME") or "/", *OUTSIDE) if _is_ours(place)]
    return bool(ours) and not any(map(_takes_a_write, ours))


def _is_ours(place: str) -> bool:
    """Whether, by its owner and mode alone, we may write there, and do not work there anyway."""
    try:
        status = os.stat(place)
        works_there = os.path.samestat(status, os.stat("."))
    except OSError:
        return False
    is_writable = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_IWUSR)
    return is_writable and status.st_uid == os.geteuid() and not works_there


def _takes_a_write(place: str) -> bool:
    if not os.access(place, os.W_OK, effective_ids=True):
        return False
    try:
        os.close(os.open(place, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return error.errno not in REFUSED
    return True


def require_platform() -> None:
    """Raises if pinfold has no sandbox for this operating system."""
    if sys.platform != "linux":
        raise SandboxUnavailable(NO_FENCE)


def sandbox_trouble() -> str:
    """Why no sandbox can be made here, as far as the kernel's switches show; empty if they show nothing.

    The first pen is the proof; this is for answers that are wanted before, at no cost.
    """
    if sys.platform != "linux":
        return NO_FENCE
    trouble = ""
    if _lines("/proc/sys/user/max_user_namespaces") == ["0"]:
        trouble = "user namespaces are switched off (user.max_user_namespaces is 0)"
    elif os.geteuid() != 0 and _lines("/proc/sys/kernel/unprivileged_userns_clone") == ["0"]:
        trouble = "user namespaces are root's alone (kernel.unprivileged_userns_clone is 0)"
    return with_outer_sandbox(trouble, os.environ) if trouble else ""


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
