"""The user's service: it answers agents' hooks, and runs the commands of their conversations.

A hook that finds no service answers by itself and starts one. The service ends when it has held no
conversation and no process has asked for `IDLE` seconds. If its code was replaced by an upgrade, it takes
nothing more, lets the commands that it runs finish, and ends; the next hook starts another.
"""

import _socket
import os
import sys
from collections.abc import Callable, Mapping
from threading import Thread
from time import sleep, time

from msgspec import Struct

from pinfold.service import local_socket as local
from pinfold.service.conversations import Conversations

IDLE = 600.0
LOOK = 30.0
"""Seconds between looks at whether to end."""
RIGHTS = _socket.CMSG_SPACE(local.STREAMS * 4)


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
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
            if _is_outdated(self._began):
                connection.close()  # the hook answers by itself, and starts another service
                break
            self._last = time()
            Thread(target=self._serve_one, args=(connection,), daemon=True, name="pinfold-call").start()
        if _is_still(path, mark):
            os.unlink(path)
        listening.close()
        while self._conversations.are_running:
            sleep(0.2)

    def _is_wanted(self) -> bool:
        return bool(self._conversations) or time() - self._last < IDLE

    def _serve_one(self, connection: "_socket.socket") -> None:
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
            fields = local.exactly(connection, int.from_bytes(head[:4], "big")).decode(
                "utf-8", "surrogateescape"
            )
            data = local.exactly(connection, int.from_bytes(head[4:], "big"))
            connection.settimeout(None)
            verb, count, *rest = fields.split("\0")
            environ = dict(each.partition("=")[::2] for each in rest[: int(count)])
            call = ServiceCall(connection, pid, tuple(rest[int(count) :]), environ, data, descriptors, later)
            self._verbs[verb](call)
        except Exception as error:  # noqa: BLE001  (the other side hears nothing, and does what is safe)
            _complain(error)
        finally:
            self._last = time()
            for each in descriptors:
                os.close(each)
            connection.close()
            for do in later:
                do()


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


def _complain(error: Exception) -> None:
    """Tells where the service was started by hand; else standard error is /dev/null."""
    print(f"pinfold: a request failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


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
