"""What the gate's process and the session's say to each other, each a datagram of JSON.

Facts about AF_UNIX SOCK_SEQPACKET: messages keep their bounds and their order, may carry descriptors, and an
end of the other side reads as an empty message.

Facts about texts: a path may have bytes that are no UTF-8 (lone surrogates). Python's JSON escapes them,
msgspec's refuses them; so msgspec checks the types, and `json` writes the text.

A message with a `number` belongs to the request or the answer of that number.
"""

import json
import os
import socket
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from pinfold.model.load_structs import ready
from pinfold.network.host_decision import ConnectionOutcome, HostDecision
from pinfold.network.limits import GateLimits
from pinfold.network.upstream import Upstream

LONGEST = 65536
LONGEST_SAID = 1024
"""Characters of a text that quotes others: a fault of HTTP has the whole line in it, an answer any name. Each
is twelve bytes of JSON at most, so that a message fits."""
MOST_DESCRIPTORS = 16
RESOLVER, PUBLISHED = "resolver", "publish:"
"""Faces that are no pen: what hears questions about names, and a listener, whose name goes on with a port."""


class StartGate(Struct, frozen=True, tag=True):
    """From the session, once, before all else."""

    limits: GateLimits
    upstream: Upstream | None
    names: str
    """The file in which a user's gates count the names below wildcards; empty for none."""


class AddFace(Struct, frozen=True, tag=True):
    """From the session, with the face's socket."""

    face: str
    """`RESOLVER`, `PUBLISHED` and a port, or a pen's name."""


class WithdrawPort(Struct, frozen=True, tag=True):
    """From the session: a published port leads nowhere from now on."""

    port: int


class ForgetDecisions(Struct, frozen=True, tag=True):
    """From the session: the gate drops the decisions that it remembers."""


class CatchUp(Struct, frozen=True, tag=True):
    """From the session: a command has ended. The answer is `CaughtUp`."""

    number: int
    tag_of_command: str


class CaughtUp(Struct, frozen=True, tag=True):
    """From the gate, once all connections of the command are recorded."""

    number: int


class OpenHost(Struct, frozen=True, tag=True):
    """From the gate: may a command reach this host? The answer is `HostDecided`. If that is ASK and the
    request says `may_ask`, another one follows after any time."""

    number: int
    host: str
    port: int | None
    tag_of_command: str
    may_ask: bool


class WithdrawQuestion(Struct, frozen=True, tag=True):
    """From the gate: no connection waits any more for the answer of this number."""

    number: int


class HostDecided(Struct, frozen=True, tag=True):
    """From the session."""

    number: int
    decision: HostDecision


class ReachPort(Struct, frozen=True, tag=True):
    """From the gate: a client of this machine wants a port inside. The answer is `PortReached`."""

    number: int
    port: int


class PortReached(Struct, frozen=True, tag=True):
    """From the session, with a socket of its network, if the client may connect."""

    number: int


class RecordConnection(Struct, frozen=True, tag=True):
    """From the gate."""

    outcome: ConnectionOutcome


FromSession = StartGate | AddFace | WithdrawPort | ForgetDecisions | CatchUp | HostDecided | PortReached
FromGate = OpenHost | WithdrawQuestion | ReachPort | RecordConnection | CaughtUp

_T = TypeVar("_T")
_encode = json.JSONEncoder(separators=(",", ":")).encode


def encode(message: FromSession | FromGate) -> bytes:
    return _encode(msgspec.to_builtins(message)).encode()


def from_session(sock: socket.socket) -> tuple[FromSession | None, list[int]]:
    """The session's next message and its descriptors; None at the end. What is no message is an end too."""
    return _receive(sock, cast("type[FromSession]", FromSession))


def from_gate(sock: socket.socket) -> FromGate | None:
    """The gate's next message; None at the end. What is no message is an end too."""
    message, descriptors = _receive(sock, cast("type[FromGate]", FromGate))
    for descriptor in descriptors:
        os.close(descriptor)
    return message


def _receive(sock: socket.socket, kind: type[_T]) -> tuple[_T | None, list[int]]:
    data, descriptors, _, _ = socket.recv_fds(sock, LONGEST, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    try:
        return msgspec.convert(json.loads(data), ready(kind)) if data else None, descriptors
    except (ValueError, RecursionError):  # msgspec's ValidationError is a ValueError
        for descriptor in descriptors:
            os.close(descriptor)
        return None, []


def bounded_decision(decision: HostDecision) -> HostDecision:
    """INVARIANT: no text of others makes a message too long. One that is cut is taken for an end."""
    return decision._replace(
        message=decision.message[:LONGEST_SAID],
        answered=decision.answered[:LONGEST_SAID],
        remedy=decision.remedy[:LONGEST_SAID],
    )


def bounded_outcome(outcome: ConnectionOutcome) -> ConnectionOutcome:
    return outcome._replace(
        message=outcome.message[:LONGEST_SAID],
        answered=outcome.answered[:LONGEST_SAID],
        remedy=outcome.remedy[:LONGEST_SAID],
    )
