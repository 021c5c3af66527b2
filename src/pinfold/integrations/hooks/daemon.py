"""Hooks answered by a process that is there already: the service, and how a hook reaches it.

A hook that finds no service answers by itself and leaves one behind, which ends when nobody has asked for a
while. What it answers is `answer`, the same function, with the same variables: nothing differs but the time
it takes.

Facts: whoever can connect to the socket could ask; whoever can make it could answer. So it lies in
pinfold's state, which is the user's alone and which no pen sees, and each side asks the kernel who the
other is. Its name holds what the service was started from: another checkout, interpreter or home has a
service of its own. One whose code was replaced by an upgrade answers nobody any more, and ends.

The hook's side is imported at each tool call: it may import nothing that is not built in.
"""

import _imp
import _socket
import os
import sys
from time import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IDLE = 600.0
"""Seconds after which a service that nobody asks is gone."""
PATIENCE = 30.0
"""Seconds that a hook waits for a service before it answers by itself."""
SWITCH = "PINFOLD_HOOK_SERVICE"
"""`0`: no service is asked, and none is left behind."""
SO_PEERCRED = 17
LARGEST = 1 << 27


def is_wanted(environ: "Mapping[str, str]") -> bool:
    """Not where it is switched off, nor inside a pen: who is inside what is asked of a process itself.

    Nor without an absolute home: a socket in the working directory would be within a command's reach. Nor
    where XDG_STATE_HOME names another place than the usual one: a file of the project may have set it.
    """
    home, state = environ.get("HOME", ""), environ.get("XDG_STATE_HOME", "")
    is_moved = os.path.isabs(state) and os.path.normpath(state) != os.path.join(home, ".local", "state")
    is_off = environ.get(SWITCH) == "0" or environ.get("PINFOLD_PEN") or sys.platform != "linux"
    return not is_off and not is_moved and os.path.isabs(home)


def socket_path(environ: "Mapping[str, str]", start: str) -> str:
    home, base = environ["HOME"], environ.get("XDG_STATE_HOME", "")
    state = base if os.path.isabs(base) else os.path.join(home, ".local", "state")
    made = (
        f"{sys.executable} {start} {os.stat(start).st_mtime_ns} {home} {environ.get('XDG_CONFIG_HOME', '')}"
    )
    name = _imp.source_hash(0, made.encode("utf-8", "surrogateescape")).hex()
    return os.path.join(state, "pinfold", "hooks", name)


def ask(path: str, agent: str, data: bytes, environ: "Mapping[str, str]") -> tuple[int, bytes, bytes] | None:
    """Exit status, output and complaint, by the service; None where it has no answer."""
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(PATIENCE)
            _call_with(connection.connect, path)
            if _peer(connection) != os.getuid():
                return None
            passed = [f"{name}={value}" for name, value in environ.items()]
            asked = "\0".join(["pinfold", agent, str(len(passed)), *passed]).encode(
                "utf-8", "surrogateescape"
            )
            connection.sendall(len(asked).to_bytes(4, "big") + len(data).to_bytes(4, "big") + asked + data)
            return _answered(connection)
        finally:
            connection.close()
    except (OSError, ValueError, OverflowError):
        return None


def _answered(connection: _socket.socket) -> tuple[int, bytes, bytes] | None:
    head = _exactly(connection, 12)
    code, out, err = (int.from_bytes(head[at : at + 4], "big") for at in (0, 4, 8))
    return code, _exactly(connection, out), _exactly(connection, err)


def _exactly(connection: _socket.socket, size: int) -> bytes:
    if size > LARGEST:
        raise ValueError(size)
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise OSError("the other side has gone")
        data += piece
    return bytes(data)


def _call_with(do: "Callable[[str], object]", path: str) -> None:
    """Connects or binds to it by a name that is short enough: the kernel takes 107 bytes, and homes may be
    deep."""
    if len(os.fsencode(path)) <= 100:
        do(path)
        return
    directory, name = os.path.split(path)
    held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        do(f"/proc/self/fd/{held}/{name}")
    finally:
        os.close(held)


def _peer(connection: _socket.socket) -> int:
    credentials = connection.getsockopt(_socket.SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def leave_behind(start: str) -> None:
    """Starts a service, which holds on to nothing of ours."""
    # Imported here: an answer that the service gives needs neither.
    from pinfold.isolated import isolated_environment, isolated_python

    nothing = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1, 2)]
    words = isolated_python(start, "--serve")
    os.posix_spawn(words[0], words, isolated_environment(os.environ), file_actions=nothing, setsid=True)


def serve(path: str) -> None:
    """Answers until nobody has asked for a while. The first one who can make the socket serves."""
    os.umask(0o077)
    listening = _listening(path)
    if listening is None:
        return
    from threading import Thread

    mark, began = os.stat(path).st_ino, time()
    last = began
    listening.settimeout(IDLE / 10)
    while time() - last < IDLE and _is_still(path, mark):
        try:
            descriptor, _ = listening._accept()  # type: ignore[attr-defined]  # `socket` would be 5 ms more
        except TimeoutError:
            continue
        if _is_outdated(began):
            break  # the hook hears nothing, answers by itself, and leaves another one behind
        last = time()
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        Thread(target=_serve_one, args=(connection,), daemon=True).start()
    if _is_still(path, mark):
        os.unlink(path)


def _listening(path: str) -> "_socket.socket | None":
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if os.stat(directory).st_uid != os.getuid() or os.stat(directory).st_mode & 0o077:
        return None
    probe = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        _call_with(probe.connect, path)
        return None  # somebody serves
    except OSError:
        pass
    finally:
        probe.close()
    own = f"{path}.{os.getpid()}"
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    _call_with(listening.bind, own)
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
        return any(
            os.stat(file).st_ctime > began for file in (__file__, *(each.__file__ for each in ours)) if file
        )
    except OSError:
        return True


def _serve_one(connection: "_socket.socket") -> None:
    from pinfold.integrations.hooks import answer

    try:
        connection.settimeout(PATIENCE)
        if _peer(connection) != os.getuid():
            return
        head = _exactly(connection, 8)
        asked = _exactly(connection, int.from_bytes(head[:4], "big")).decode("utf-8", "surrogateescape")
        data = _exactly(connection, int.from_bytes(head[4:], "big"))
        _, agent, count, *passed = asked.split("\0")
        environ = dict(each.partition("=")[::2] for each in passed[: int(count)])
        reply = answer(agent, data, environ)
        out, err = reply.stdout, reply.stderr.encode("utf-8", "replace")
        sizes = b"".join(size.to_bytes(4, "big") for size in (reply.exit_code, len(out), len(err)))
        connection.sendall(sizes + out + err)
    except Exception:  # noqa: BLE001  (the hook hears nothing, and answers by itself)
        return
    finally:
        connection.close()
