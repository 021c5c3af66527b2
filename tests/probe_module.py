"""Modules of probes: which of their functions are probes, and how one is run in a child of the tests."""

import fcntl
import os
import socket
import struct
import sys
from types import FunctionType
from typing import Any, Protocol

from pinfold.kernel import mounts, namespaces
from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.protocol import rename_lock


class Open(Protocol):
    def close(self) -> None: ...


PYTHON = "/usr/bin/python3"
"""For programs inside a pen, whose own /tmp may hide the one that runs the tests."""
OPEN: list[Open] = []
"""What probes opened, closed after each."""
NO_NAMESPACES = ("unshare", "uid_map", "setgroups")
SIOCSIFFLAGS, UP, RUNNING = 0x8914, 0x1, 0x40
SKIPPED = 77
"""Exit code: the last line printed says why it could not be tried."""
LIVING = "for p in /proc/[0-9]*; do grep -q '^State:.Z' $p/status || cat $p/comm; done 2>/dev/null; true"
"""A line that tells the names of what runs inside, but for what goes meanwhile or waits to be collected."""


def probes_of(found: dict[str, Any], *helpers: str) -> list[str]:
    """The functions of a module that are no helpers: none is left out but by its name."""
    ours = [
        name
        for name, value in found.items()
        if isinstance(value, FunctionType) and value.__module__ == found["__name__"] and name[0] != "_"
    ]
    assert set(helpers) <= set(ours), set(helpers) - set(ours)
    return [name for name in ours if name not in helpers]


def run(found: dict[str, Any]) -> None:
    """Runs the probe that the command line names."""
    try:
        found[sys.argv[1]]()
    except (ConfinementError, PermissionError) as error:
        if not any(word in str(error) for word in NO_NAMESPACES):
            raise
        print(f"this machine has no user namespaces for us: {error}")
        sys.exit(SKIPPED)
    finally:
        for each in OPEN:
            each.close()


def among_themselves() -> None:
    """In a network without the pens of other tests, and with a lock of our own (`rename_lock`).

    Those would wait for our pens, stopped or pretended.
    """
    in_own_mounts(namespaces.CLONE_NEWNET)
    mounts.mount("own", rename_lock.COMMON, "tmpfs")


def in_own_mounts(others: int = 0) -> None:
    """From here on what we mount is there for us alone. `others`: more namespaces to have for ourselves."""
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(namespaces.CLONE_NEWNS | others | (namespaces.CLONE_NEWUSER if uid else 0))
    if uid:
        namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)


def in_own_network() -> None:
    """From here on there is no network but loopback. Skips the probe where that needs more rights."""
    try:
        namespaces.unshare(namespaces.CLONE_NEWNET)
    except OSError:
        print("no network of our own can be made here")
        sys.exit(SKIPPED)
    with socket.socket() as any_:
        fcntl.ioctl(any_, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", UP | RUNNING))
