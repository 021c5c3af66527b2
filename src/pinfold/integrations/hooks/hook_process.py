"""A hook's process: bytes in, bytes out, and an exit code that no agent takes for a yes by mistake.

The service answers, if there is one; else this process does, and starts one. Both call the same function with
the same variables, so nothing differs but the time that it takes.

It is loaded at each tool call: what the service's answer does not need is imported later.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import NoReturn

BLOCKED = 2
LARGEST = 64_000_000
"""Bytes of a payload: some agents send whole files."""


def main(arguments: list[str], local: "ModuleType", isolated: "ModuleType") -> "NoReturn":
    """The program. Its one argument is the agent's name."""
    gc.disable()
    try:
        code = _answered(arguments, local, isolated)
    except BaseException as error:  # noqa: BLE001  (an exit code of 1 would let the call pass)
        code = _failed(f"the hook could not be started: {type(error).__name__}: {error}")
    # Everything is written; shutting the interpreter down would cost 10 ms more.
    os._exit(code)


def _answered(arguments: list[str], local: "ModuleType", isolated: "ModuleType") -> int:
    (agent,) = arguments
    data = _read()
    is_wanted = local.is_wanted(os.environ)
    reply = ask_service(agent, data, os.environ, local) if is_wanted else None
    if reply and reply[0] != local.NOT_HERE:
        _write(1, reply[1])
        _write(2, reply[2])
        return reply[0]
    for directory in isolated.package_directories():
        sys.path.append(directory)
    from pinfold.lazy_imports import load_light

    load_light("msgspec")
    code = respond(agent, data)
    if is_wanted and reply is None:
        start_service()
    return code


def ask_service(
    agent: str, data: bytes, environ: "Mapping[str, str]", local: "ModuleType"
) -> "tuple[int, bytes, bytes] | None":
    """Exit code, output and complaint, by the service; None if it has no answer."""
    try:
        connection = local.connect(local.socket_path(environ))
        if connection is None:
            return None
        try:
            connection.settimeout(local.PATIENCE)
            local.send(connection, "hook", [agent], environ, data)
            reply: tuple[int, bytes, bytes] = local.receive_reply(connection)
            return reply
        finally:
            connection.close()
    except (OSError, ValueError, OverflowError):
        return None


def start_service() -> None:
    """Starts the service, which keeps nothing of this process open."""
    from pinfold.isolated import isolated_environment, own_command

    nothing = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1, 2)]
    words = own_command("serve", "--agents")
    os.posix_spawn(words[0], words, isolated_environment(os.environ), file_actions=nothing, setsid=True)


def respond(agent: str, data: bytes | None = None) -> int:
    """Answers on standard output; whatever happens, with an exit code that is no yes by mistake."""
    try:
        from pinfold.integrations.hooks import AGENTS, answer

        if agent not in AGENTS:
            return _failed(f"there is no agent `{agent}`")
        reply = answer(agent, _read() if data is None else data, os.environ)
        _write(1, reply.stdout)
        _write(2, reply.stderr.encode("utf-8", "replace"))
    except OSError as error:
        if error.filename is not None:
            return _failed(f"{error.filename}: {error.strerror}")
        return _failed(f"standard input or output cannot be used: {error.strerror}")
    except KeyboardInterrupt:
        return _failed("it was interrupted")
    except BaseException as error:  # noqa: BLE001  (an exit code of 1 would let the call pass)
        return _failed(f"internal error in pinfold; please report it: {type(error).__name__}: {error}")
    return reply.exit_code


def _failed(message: str) -> int:
    try:
        _write(2, f"pinfold: {message}\n".encode("utf-8", "replace"))
    except OSError:
        return BLOCKED  # which says it
    return BLOCKED


def _read() -> bytes:
    data = bytearray()
    while piece := os.read(0, 1 << 16):
        data += piece
        if len(data) > LARGEST:
            raise ValueError("the payload is too large")
    return bytes(data)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
