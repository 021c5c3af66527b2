"""Landlock: what a process and its children may still do with files, ports and each other.

Facts about Landlock (Documentation/userspace-api/landlock.rst, include/uapi/linux/landlock.h):
- A ruleset **handles** rights; a handled right is refused wherever no rule grants it. A rule grants to a
  whole hierarchy; a right granted at a directory cannot be taken back below it within one ruleset.
- Rulesets stack (16 at most): each layer must agree. What was open before stays open.
- Each ABI adds rights; handling one the kernel does not know is EINVAL. Below 2, REFER is always refused.
- A rule on a file may grant only FILE rights, or it is EINVAL. A rule with no right at all is ENOMSG.
- A path rule takes an O_PATH descriptor and holds the inode, not the name.
- Chdir, stat, chmod, chown, utimes, xattrs, flock and access are no rights of Landlock (yet).
- TCP rights do not cover Multipath TCP.
- The version is asked with a flag of landlock_create_ruleset: ENOSYS is a kernel without, EOPNOTSUPP one
  where it is switched off at boot. securityfs need not be mounted.
"""

import ctypes
import os
import stat
from typing import NamedTuple

from pinfold.kernel.syscall import system_call

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
RESOLVE_UNIX = 1 << 16

BIND_TCP = 1 << 0
CONNECT_TCP = 1 << 1
BIND_UDP = 1 << 2
CONNECT_SEND_UDP = 1 << 3

SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0
SCOPE_SIGNAL = 1 << 1

READ = EXECUTE | READ_FILE | READ_DIR
MAKE = MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM
"""The making of names; REFER, which moves them between directories, is apart since it came with ABI 2."""
REMOVE = REMOVE_DIR | REMOVE_FILE
FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX
"""What a rule on something other than a directory may grant."""

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1


class Abi(NamedTuple):
    """What one version of the interface can handle."""

    files: int
    ports: int = 0
    scopes: int = 0


_FILES_1 = READ | WRITE_FILE | REMOVE | MAKE
_FILES_2 = _FILES_1 | REFER
_FILES_3 = _FILES_2 | TRUNCATE
_FILES_5 = _FILES_3 | IOCTL_DEV
_FILES_9 = _FILES_5 | RESOLVE_UNIX
_TCP = BIND_TCP | CONNECT_TCP
_UDP = BIND_UDP | CONNECT_SEND_UDP
_SCOPES = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL

ABIS = (
    Abi(0),
    Abi(_FILES_1),  # 5.13
    Abi(_FILES_2),  # 5.19: REFER
    Abi(_FILES_3),  # 6.2: TRUNCATE
    Abi(_FILES_3, _TCP),  # 6.7: TCP
    Abi(_FILES_5, _TCP),  # 6.10: IOCTL_DEV
    Abi(_FILES_5, _TCP, _SCOPES),  # 6.12: scopes
    Abi(_FILES_5, _TCP, _SCOPES),  # 6.15: flags of landlock_restrict_self for audit, no right
    Abi(_FILES_5, _TCP, _SCOPES),  # 7.0: TSYNC, another such flag
    Abi(_FILES_9, _TCP, _SCOPES),  # 7.1: RESOLVE_UNIX
    Abi(_FILES_9, _TCP | _UDP, _SCOPES),  # 7.2: UDP
)


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def abi_version() -> int:
    """The newest ABI this kernel speaks; 0 if Landlock is not there, is switched off or is refused to us."""
    try:
        return system_call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def known(version: int) -> Abi:
    """What of an ABI this module can use: a newer kernel's is taken for the newest listed."""
    return ABIS[min(version, len(ABIS) - 1)]


def create_ruleset(files: int = 0, ports: int = 0, scopes: int = 0) -> int:
    """A descriptor of a ruleset that handles these rights; what is not granted later is refused."""
    attributes = _RulesetAttributes(files, ports, scopes)
    return system_call("landlock_create_ruleset", ctypes.byref(attributes), ctypes.sizeof(attributes), 0)


def allow_beneath(ruleset: int, descriptor: int, access: int) -> None:
    """Grants rights to what the descriptor holds, and to everything below it if it is a directory."""
    rule = _PathBeneath(access, descriptor)
    system_call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)


def allow_path(ruleset: int, path: str | bytes, access: int) -> None:
    """`allow_beneath` by path; of the rights, a file gets those that a file can have."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= FILE
        if access:
            allow_beneath(ruleset, descriptor, access)
    finally:
        os.close(descriptor)


def restrict_self(ruleset: int) -> None:
    """Puts this thread, and what it starts from now on, under the ruleset for good; no other thread.

    Preconditions: no_new_privs, or CAP_SYS_ADMIN in our user namespace.
    """
    system_call("landlock_restrict_self", ruleset, 0)
