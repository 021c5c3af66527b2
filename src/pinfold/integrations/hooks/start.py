"""A hook's process: bytes in, bytes out, and an exit status that no agent takes for a yes by mistake.

Agents start this file itself, by `python -I -S`, for each tool call: what `site` brings, and the command
line with its argument parser, would cost as much again as the answer. So it finds for itself what `site`
would have found.
"""

import gc
import os
import sys

BLOCKED = 2
LARGEST = 64_000_000
"""Bytes of a payload: some hooks are told whole files."""


def respond(agent: str) -> int:
    """Answers on standard output; whatever happens, with an exit status that is no yes by mistake."""
    try:
        from pinfold.integrations.hooks import answer

        reply = answer(agent, _read(), os.environ)
        _write(1, reply.stdout)
        _write(2, reply.stderr.encode("utf-8", "replace"))
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
    # As in `pinfold.cli`: msgspec looks for it first, and it brings nothing we use.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    import msgspec  # noqa: F401

    del sys.modules["typing_extensions"]


def main() -> None:
    """The program: the agent's name is its one argument."""
    gc.disable()
    _find_packages()
    try:
        _load_msgspec()
        from pinfold.integrations.hooks import AGENTS

        (agent,) = sys.argv[1:]
        code = respond(agent) if agent in AGENTS else _failed(f"there is no agent `{agent}`")
    except BaseException as error:  # noqa: BLE001  (as above)
        code = _failed(f"the hook could not be started: {type(error).__name__}: {error}")
    # Everything is written; taking the interpreter apart would cost 10 ms more.
    os._exit(code)


if __name__ == "__main__":
    main()
