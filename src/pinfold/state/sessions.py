"""Which sessions are alive: a small file for each, in the state directory.

A file names the process that has the session. A process number is used again after its process has ended. So
the file also says when that process began, and in which boot of the machine. A session whose process is gone
is dead, however it ended, and the next reader removes its file.

Facts (proc(5)): field 22 of /proc/PID/stat is the start in clock ticks after boot; the second field is the
program's name in parentheses, and may have parentheses and blanks itself.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from pinfold.audit.tail_file import storable
from pinfold.model.errors import PinfoldError
from pinfold.model.load_structs import ready
from pinfold.state.directory import ELSEWHERE, state_directory, write_private

BOOT = "/proc/sys/kernel/random/boot_id"


class LiveSession(Struct, frozen=True):
    """A session that has not ended."""

    id: str
    pid: int
    began: str
    """When its process began, in the kernel's clock ticks."""
    boot: str
    roots: tuple[str, ...]
    started: float
    """When the session was opened, in seconds since 1970."""


def register(id: str, roots: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
    """Records that this process has a session; the handle is for `unregister`."""
    directory = _directory(environ)
    path = os.path.join(directory, f"{require_id(id)}.json")
    pid = os.getpid()
    told = tuple(storable(root) for root in roots)
    session = LiveSession(id, pid, _began(pid) or "", _boot(), told, time.time())
    try:
        write_private(path, msgspec.json.encode(session))
    except OSError as error:
        said = f"the session cannot be registered in {directory}, so nothing is run: {error.strerror}"
        raise PinfoldError(f"{said}; {ELSEWHERE}") from None
    return path


def unregister(handle: str) -> None:
    """Removes the record. One that stays names a process that is gone or soon will be."""
    with suppress(OSError):
        os.unlink(handle)


def live_sessions(environ: Mapping[str, str] | None = None) -> list[LiveSession]:
    """The sessions whose processes still run, the oldest first; removes the records of the others."""
    directory = _directory(environ)
    found: list[LiveSession] = []
    for name in _names(directory):
        path = os.path.join(directory, name)
        session = _read(path)
        if session is None:
            continue  # not ours, or of a newer version: left alone
        if session.boot == _boot() and session.began == _began(session.pid):
            found.append(session)
        else:
            unregister(path)
    return sorted(found, key=lambda session: session.started)


def _directory(environ: Mapping[str, str] | None) -> str:
    return os.path.join(state_directory(os.environ if environ is None else environ), "sessions")


def _names(directory: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if name.endswith(".json")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PinfoldError(f"the list of sessions cannot be read: {directory}: {error.strerror}") from None


def require_id(id: str) -> str:
    """The id, if it can be a file name. Raises ValueError if not."""
    if not id or id.startswith(".") or "/" in id or "\0" in id:
        raise ValueError(f"{id!r} cannot name a session")
    return id


def _read(path: str) -> LiveSession | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(1 << 20), type=ready(LiveSession))
    except (OSError, msgspec.DecodeError):
        return None


def _began(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # After the name: the state is field 3 of the whole, the start field 22. A zombie runs nothing.
    return None if fields[0] == b"Z" else fields[19].decode()


def _boot() -> str:
    with suppress(OSError), open(BOOT) as file:
        return file.read().strip()
    return ""
