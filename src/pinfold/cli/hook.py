"""`pinfold hook AGENT`: answers an agent's hook, from standard input to standard output."""

import os
import sys
from argparse import ArgumentParser, Namespace

from pinfold.integrations.hooks import AGENTS, answer
from pinfold.integrations.hooks.call import BLOCKED, Reply, blocked

LARGEST = 64_000_000
"""Bytes of a payload: some hooks are told whole files."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("agent", choices=tuple(AGENTS), help="whose hook this is")


def run(args: Namespace) -> int:
    return respond(args.agent)


def respond(agent: str) -> int:
    """Whatever happens, the agent gets an answer that it cannot take for a yes by mistake."""
    try:
        reply = answer(agent, _read(), os.environ)
    except BaseException as error:  # noqa: BLE001  (an exit status of 1 would let the call pass)
        reply = blocked(f"a fault of pinfold's own, please report it: {type(error).__name__}: {error}")
    return _write(reply)


def _read() -> bytes:
    data = bytearray()
    while piece := os.read(0, 1 << 16):
        data += piece
        if len(data) > LARGEST:
            raise ValueError("the payload is too large")
    return bytes(data)


def _write(reply: Reply) -> int:
    try:
        rest = memoryview(reply.stdout)
        while rest:
            rest = rest[os.write(1, rest) :]
        if reply.stderr:
            sys.stderr.write(reply.stderr)
            sys.stderr.flush()
    except OSError:
        return BLOCKED
    return reply.exit_code
