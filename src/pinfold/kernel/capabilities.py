"""Capabilities: what is left of the superuser's power.

Facts about capabilities (capabilities(7), capset(2)):
- A thread has an effective, permitted and inheritable set, a bounding set and an ambient set. All are per
  thread; a child gets its parent's.
- At exec a process with uid 0 gets everything the bounding set leaves, unless SECBIT_NOROOT is set;
  another uid loses everything that is not ambient. Dropping from the bounding set needs CAP_SETPCAP.
- With no_new_privs a set-user-id program or one with file capabilities gains nothing at exec; but uid 0
  itself still gets what its bounding set leaves.
- Two words of 32 bits, version 0x20080522.
"""

import contextlib
import ctypes
import errno
from typing import NamedTuple

from pinfold.kernel.syscall import failure, prctl, system_call

CAP_DAC_OVERRIDE = 1
CAP_SETPCAP = 8
CAP_NET_BIND_SERVICE = 10
CAP_NET_ADMIN = 12
CAP_SYS_PTRACE = 19
CAP_SYS_ADMIN = 21

_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP = 24
_PR_SET_SECUREBITS = 28
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

# SECBIT_NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, each with its lock; KEEP_CAPS locked off.
SECUREBITS_NO_ROOT = 0b1110_1111


class Sets(NamedTuple):
    """The three sets as bit masks: bit n is capability n."""

    effective: int = 0
    permitted: int = 0
    inheritable: int = 0


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


_Data = ctypes.c_uint32 * 6

# Forty calls in a row, for each pen twice: with its argtypes set, one takes a tenth of the time.
_drop = ctypes.PyDLL(None, use_errno=True).prctl
_drop.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def capget() -> Sets:
    """The sets of this thread."""
    data = _Data()
    system_call("capget", ctypes.byref(_Header(_VERSION_3, 0)), ctypes.byref(data))
    return Sets(*(data[index] | data[index + 3] << 32 for index in range(3)))


def capset(sets: Sets) -> None:
    """Gives this thread these sets."""
    data = _Data(*(mask & 0xFFFFFFFF for mask in sets), *(mask >> 32 for mask in sets))
    system_call("capset", ctypes.byref(_Header(_VERSION_3, 0)), ctypes.byref(data))


def drop_bounding(keep: int = 0) -> None:
    """Takes every capability but those of the mask out of the bounding set, for good."""
    for capability in range(64):
        if keep >> capability & 1:
            continue
        if _drop(_PR_CAPBSET_DROP, capability, 0, 0, 0):
            if ctypes.get_errno() == errno.EINVAL:  # past the last that this kernel knows
                return
            raise failure("prctl(PR_CAPBSET_DROP)")


def clear_ambient() -> None:
    prctl("PR_CAP_AMBIENT", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def set_securebits() -> None:
    """Ends what uid 0 means for capabilities. Needs CAP_SETPCAP."""
    prctl("PR_SET_SECUREBITS", _PR_SET_SECUREBITS, SECUREBITS_NO_ROOT)


def drop_all(keep: int = 0) -> None:
    """Leaves this thread, and all it will ever exec, no capability but those of the mask.

    Preconditions: no other thread. Without CAP_SETPCAP the bounding set stays; then `keep` apart nothing is
    permitted either, and only no_new_privs with a uid other than 0 keeps it that way through an exec.
    """
    if capget().effective >> CAP_SETPCAP & 1:
        drop_bounding(keep)
        set_securebits()
    with contextlib.suppress(OSError):
        clear_ambient()
    kept = capget().permitted & keep
    capset(Sets(kept, kept, 0))
