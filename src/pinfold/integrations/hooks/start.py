"""A hook's process: bytes in, bytes out, and an exit status that no agent takes for a yes by mistake.

Agents start this file itself, by `python -I -S`, for each tool call: what `site` brings, and the command
line with its argument parser, would cost as much again as the answer. So it finds for itself what `site`
would have found.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

BLOCKED = 2
LARGEST = 64_000_000
"""Bytes of a payload: some hooks are told whole files."""


def respond(agent: str, data: bytes | None = None) -> int:
    """Answers on standard output; whatever happens, with an exit status that is no yes by mistake."""
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
    except BaseException as error:  # noqa: BLE001  (an exit status of 1 would let the call pass)
        return _failed(f"a fault of pinfold's own, please report it: {type(error).__name__}: {error}")
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


def _find_packages() -> None:
    """The directory that pinfold is in, and the environment that its interpreter belongs to."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    sys.path.append(source)
    around = os.path.dirname(os.path.dirname(sys.executable))
    if os.path.exists(os.path.join(around, "pyvenv.cfg")):
        sys.prefix = sys.exec_prefix = around
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = os.path.join(sys.prefix, "lib", version, "site-packages")
    if packages != source:
        sys.path.append(packages)


def _load_msgspec() -> None:
    from pinfold.lazy_imports import load_light

    load_light("msgspec")


def main() -> None:
    """The program: the agent's name is its one argument."""
    gc.disable()
    try:
        _find_packages()
        code = _answered(sys.argv[1:])
    except BaseException as error:  # noqa: BLE001  (as above)
        code = _failed(f"the hook could not be started: {type(error).__name__}: {error}")
    # Everything is written; taking the interpreter apart would cost 10 ms more.
    os._exit(code)


def _answered(arguments: list[str]) -> int:
    warm, start = _load_warm(), os.path.abspath(__file__)
    if arguments == ["--serve"]:
        gc.enable()
        os.closerange(3, 1024)  # whatever an agent left open is not ours to hold
        _load_msgspec()
        warm.serve(warm.socket_path(os.environ, start))
        return 0
    (agent,) = arguments
    data = _read()
    is_wanted = warm.is_wanted(os.environ)
    if is_wanted and (told := warm.ask(warm.socket_path(os.environ, start), agent, data, os.environ)):
        _write(1, told[1])
        _write(2, told[2])
        return int(told[0])
    _load_msgspec()
    code = respond(agent, data)
    if is_wanted:
        warm.leave_behind(start)
    return code


def _load_warm() -> "ModuleType":
    """The module beside this one, without the packages around it: they bring more than it needs."""
    from _frozen_importlib_external import SourceFileLoader  # `importlib` itself would be 1 ms more

    name = "pinfold.integrations.hooks.daemon"
    loader = SourceFileLoader(name, os.path.join(os.path.dirname(os.path.abspath(__file__)), "daemon.py"))
    warm = type(sys)(name)
    warm.__file__ = loader.path
    loader.exec_module(warm)
    return warm


if __name__ == "__main__":
    main()
