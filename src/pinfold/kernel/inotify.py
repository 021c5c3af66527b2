"""Watching inodes for what happens to them and in them: inotify.

Facts about inotify (inotify(7), fs/attr.c):
- A watch is on the inode, and sees changes by any mount or descriptor.
- The event of a chmod is queued while the inode is locked: a later holder of that lock finds it.
- An event that equals the last one in the queue is not queued again; events about what lies in a watched
  directory carry a name, those about itself none.
- The same inode watched again is one watch. A user has some thousands of them, and 128 queues.
"""

import os
import struct
from typing import NamedTuple

from pinfold.kernel.syscall import Path, path_bytes, system_call

IN_ATTRIB = 0x4
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_ONLYDIR = 0x01000000
_EVENT = struct.Struct("=iIII")


class Event(NamedTuple):
    mask: int
    name: bytes
    """Of what lies in the watched directory; empty if it is about the directory itself."""


def create() -> int:
    """A queue of events, not blocking."""
    return system_call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)


def add(queue: int, directory: Path, mask: int) -> None:
    """Watches a directory."""
    system_call("inotify_add_watch", queue, path_bytes(directory), mask | IN_ONLYDIR, path=directory)


def events(queue: int) -> list[Event]:
    """What has happened since the last question."""
    found: list[Event] = []
    while True:
        try:
            data = os.read(queue, 1 << 16)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            found.append(Event(mask, data[at - length : at].rstrip(b"\0")))
