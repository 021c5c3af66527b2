"""Watching an inode for changes of its attributes: inotify, as far as it is needed.

Facts about inotify (inotify(7), fs/attr.c):
- A watch is on the inode, whatever mount or descriptor it is changed by.
- The event of a chmod is queued while the inode is locked: whoever has held that lock afterwards finds it.
- An event that equals the last one in the queue is not queued again; events about what lies in a watched
  directory carry a name, those about itself none.
"""

import os
import struct

from pinfold.kernel.calls import Path, path_bytes, system_call

IN_ATTRIB = 0x4
IN_ONLYDIR = 0x01000000
_EVENT = struct.Struct("=iIII")


def watch_attributes(directory: Path) -> int:
    """A descriptor, not blocking, from which `has_changed` reads."""
    watch = system_call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        system_call("inotify_add_watch", watch, path_bytes(directory), IN_ATTRIB | IN_ONLYDIR, path=directory)
    except OSError:
        os.close(watch)
        raise
    return watch


def has_changed(watch: int) -> bool:
    """Whether the attributes of the directory itself were changed since the last question."""
    found = False
    while True:
        try:
            data = os.read(watch, 4096)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            _, _, _, length = _EVENT.unpack_from(data, at)
            found |= not length
            at += _EVENT.size + length
