"""The user's service: it answers agents' hooks, and runs the commands of their conversations.

INVARIANT: it does nothing for a process that it would free of something: it answers a living process of its
user, with its own namespaces, root, rights and label, and with the home that it serves. Any other hears that
this is not the place, and does by itself what it may. What a request says of its sender counts for nothing.

Facts: the kernel keeps who called `connect`, by number, and by handle from Linux 6.5 on. A number may belong
to another process once its own has ended; a handle does not.

A hook that finds no service answers by itself and starts one. The service ends when it holds no conversation,
runs no command, and no process has asked for `IDLE` seconds. If its code was replaced by an upgrade, it takes
nothing more, lets the commands that it runs finish, and ends; the next hook starts another.
"""

import _socket
import os
import sys
from collections.abc import Callable, Mapping
from errno import ENOPROTOOPT
from functools import cache
from threading import BoundedSemaphore, Thread
from time import sleep, time

from msgspec import Struct

from pinfold.service import local_socket as local
from pinfold.service.agent_process import has_ended
from pinfold.service.conversations import Conversations

IDLE = 600.0
LOOK = 30.0
"""Seconds between looks at whether to end."""
SOON = 0.05
ELSEWHERE = b"it is in another sandbox or container, or has other rights"
BUSY = b"the service answers as many requests as it can; try again later"
MOST_CALLS = 1024
"""Requests that are answered at a time; further ones hear that this is not the place."""
LARGEST_FIELDS, LARGEST_DATA = 1 << 23, 1 << 26
"""Bytes: the kernel gives no program as many variables and words; a hook takes no larger payload."""
RIGHTS = _socket.CMSG_SPACE(local.STREAMS * 4)
SO_PEERPIDFD = 77
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
STATUS = ("Uid", "Gid", "Groups", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters")
"""Lines of /proc/PID/status that differ where a process may do less, or more, than another."""


class ServiceCall(Struct, frozen=True):
    """One request of a hook or of a command's client."""

    connection: "_socket.socket"
    pid: int
    words: tuple[str, ...]
    environ: Mapping[str, str]
    data: bytes
    streams: tuple[int, ...]
    """Descriptors that came with it; the service closes them when it has answered."""
    later: list[Callable[[], object]]
    """What is to be done once they are closed: the client's reader waits for that."""


Serve = Callable[[ServiceCall], None]
"""Answers a request on its connection."""


class Daemon:
    def __init__(self, verbs: Mapping[str, Serve], conversations: Conversations) -> None:
        self._verbs, self._conversations = verbs, conversations
        self._room = BoundedSemaphore(MOST_CALLS)
        self._calls: set[_socket.socket] = set()
        """Those that are answered now: a command is one until it ends."""
        self._began = time()
        self._last = self._began

    def serve(self, path: str) -> None:
        """Answers until the service is not needed. The first process that can make the socket serves."""
        os.umask(0o077)
        listening = _listening(path)
        if listening is None:
            return
        mark = os.stat(path).st_ino
        listening.settimeout(LOOK)
        while self._is_wanted() and _is_still(path, mark):
            try:
                descriptor, _ = listening._accept()  # type: ignore[attr-defined]  # `socket` would be 5 ms more
            except TimeoutError:
                continue
            except OSError:
                sleep(SOON)  # no descriptor is free at the moment; one may be soon
                continue
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
            if _is_outdated(self._began):
                connection.close()  # the hook answers by itself, and starts another service
                break
            self._last = time()
            self._begin(connection, path)
        if _is_still(path, mark):
            os.unlink(path)
        listening.close()
        while self._calls:
            sleep(0.2)

    def _is_wanted(self) -> bool:
        return bool(self._conversations or self._calls) or time() - self._last < IDLE

    def _begin(self, connection: "_socket.socket", path: str) -> None:
        """Answers on a thread of its own, if there is room for one."""
        if self._room.acquire(blocking=False):
            self._calls.add(connection)
            try:
                Thread(
                    target=self._serve_one, args=(connection, path), daemon=True, name="pinfold-call"
                ).start()
                return
            except RuntimeError:
                self._calls.discard(connection)
                self._room.release()
        try:
            local.send_reply(connection, local.NOT_HERE, err=BUSY)
        except OSError as error:
            _complain(error)
        connection.close()

    def _serve_one(self, connection: "_socket.socket", path: str) -> None:
        descriptors: tuple[int, ...] = ()
        later: list[Callable[[], object]] = []
        try:
            connection.settimeout(local.PATIENCE)
            pid, user = local.peer_of(connection)
            if user != os.getuid():
                return
            head, descriptors = _with_descriptors(connection)
            if not head:
                return  # another service looked whether this one is there
            sizes = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
            if sizes[0] > LARGEST_FIELDS or sizes[1] > LARGEST_DATA:
                raise ValueError(sizes)
            fields = local.exactly(connection, sizes[0]).decode("utf-8", "surrogateescape")
            data = local.exactly(connection, sizes[1])
            connection.settimeout(None)
            verb, count, *rest = fields.split("\0")
            environ = dict(each.partition("=")[::2] for each in rest[: int(count)])
            if not is_of_this_place(connection) or not _is_served(environ, path):
                local.send_reply(connection, local.NOT_HERE, err=ELSEWHERE)
                return
            call = ServiceCall(connection, pid, tuple(rest[int(count) :]), environ, data, descriptors, later)
            self._verbs[verb](call)
        except Exception as error:  # noqa: BLE001  (the other side hears nothing, and does what is safe)
            _complain(error)
        finally:
            self._last = time()
            for each in descriptors:
                os.close(each)
            connection.close()
            try:
                for do in later:
                    do()
            finally:
                self._calls.discard(connection)
                self._room.release()


def _with_descriptors(connection: "_socket.socket") -> tuple[bytes, tuple[int, ...]]:
    """The sizes of a request, and the descriptors that came with its first byte."""
    head, controls, _, _ = connection.recvmsg(8, RIGHTS, _socket.MSG_CMSG_CLOEXEC)
    found: list[int] = []
    for _, _, rights in controls:
        found += [int.from_bytes(rights[at : at + 4], sys.byteorder) for at in range(0, len(rights), 4)]
    if not head:
        return b"", ()
    try:
        return head + local.exactly(connection, 8 - len(head)), tuple(found)
    except BaseException:
        for each in found:
            os.close(each)
        raise


def _is_served(environ: Mapping[str, str], path: str) -> bool:
    """Whether a process with these variables comes here of itself: its home's settings are in force here."""
    return local.is_wanted(environ) and local.socket_path(environ) == path


def is_of_this_place(connection: "_socket.socket") -> bool:
    """Whether the other side lives, and sees and may do what this process does: else it is in a sandbox of
    another program, and would leave it by what is done for it here."""
    pid, _ = local.peer_of(connection)
    try:
        handle = _handle_of(connection, pid)
    except OSError:
        return False
    try:
        is_here = _place_of(str(pid)) == _own_place()
        return is_here and not has_ended(handle)  # so the number was its own
    except OSError:
        return False
    finally:
        os.close(handle)


def _handle_of(connection: "_socket.socket", pid: int) -> int:
    try:
        found = connection.getsockopt(_socket.SOL_SOCKET, SO_PEERPIDFD, 4)
    except OSError as error:
        if error.errno != ENOPROTOOPT:
            raise
        return os.pidfd_open(pid)
    return int.from_bytes(found, sys.byteorder)


def _place_of(process: str) -> tuple[object, ...]:
    """What decides on what a process sees and may do. Raises OSError if it is closed to us."""
    at = f"/proc/{process}"
    with open(f"{at}/status", encoding="utf-8", errors="replace") as file:
        lines = dict(line.partition(":")[::2] for line in file)
    namespaces = [os.readlink(f"{at}/ns/{each}") for each in NAMESPACES if os.path.lexists(f"{at}/ns/{each}")]
    return (
        *_root(at),
        *namespaces,
        *(lines.get(each, "").split() for each in STATUS),
        _label(at),
    )


def _root(process: str) -> tuple[str, int, int]:
    """A process's root directory: its mount, of which the same directory may have several, and itself."""
    held = os.open(f"{process}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{held}", encoding="ascii") as file:
            mount = next(line for line in file if line.startswith("mnt_id"))
        found = os.fstat(held)
        return mount, found.st_dev, found.st_ino
    finally:
        os.close(held)


@cache
def _own_place() -> tuple[object, ...]:
    return _place_of("self")


def _label(process: str) -> str:
    """What a security module calls the process; empty if there is none."""
    try:
        with open(f"{process}/attr/current", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _complain(error: Exception) -> None:
    """Tells where the service was started by hand; else standard error is /dev/null."""
    print(f"pinfold: a request failed: {type(error).__name__}: {error!s:.80}", file=sys.stderr, flush=True)


def _listening(path: str) -> "_socket.socket | None":
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if os.stat(directory).st_uid != os.getuid() or os.stat(directory).st_mode & 0o077:
        return None
    probe = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        local.call_with(probe.connect, path)
        return None  # another process serves
    except OSError:
        pass
    finally:
        probe.close()
    own = f"{path}.{os.getpid()}"
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    local.call_with(listening.bind, own)
    listening.listen(64)
    os.rename(own, path)  # in one step: of two at once the later one stays, and the other sees it
    return listening


def _is_still(path: str, mark: int) -> bool:
    try:
        return os.stat(path).st_ino == mark
    except OSError:
        return False


def _is_outdated(began: float) -> bool:
    """Whether a file of ours that was loaded has been replaced since; what was not is loaded as it is now."""
    ours = (module for name, module in [*sys.modules.items()] if name.partition(".")[0] == "pinfold")
    try:
        return any(os.stat(file).st_ctime > began for file in (each.__file__ for each in ours) if file)
    except OSError:
        return True
