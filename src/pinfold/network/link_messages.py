"""What the gate's process and the session's say to each other, each a datagram of JSON.

Facts about AF_UNIX SOCK_SEQPACKET: messages keep their bounds and their order, may carry descriptors, and an
end of the other side reads as an empty message.

| from | message | answer |
|---|---|---|
| session | `start`: limits, upstream | none |
| session | `face`: `resolver`, `publish:PORT` or a pen's name, and its socket | none |
| session | `withdraw_face`: `publish:PORT`, which leads nowhere from now on | none |
| session | `forget`: rulings that were to stand stand no more | none |
| session | `catch_up`: the tag of a command that has ended | `caught_up`, when all of it is told |
| gate | `open`: host, port, tag, may_ask | `ruling`; if that is ASK and may be asked, another one later |
| gate | `withdraw`: the number of an `open` that no program waits for any more | none |
| gate | `reach`: a port inside that this machine wants | `reached`, and a socket of that network, if it may |
| gate | `record`: outcome | none |
"""

import json
import os
import socket
from typing import Any

from pinfold.model.decision import Verdict
from pinfold.network.host_decision import ConnectionOutcome, HostDecision

LONGEST = 65536
LONGEST_SAID = 1024
"""Characters of a text that quotes others: a fault of HTTP has the whole line in it, an answer any name. Each
is twelve bytes of JSON at most, so that a message fits."""
MOST_DESCRIPTORS = 16
RESOLVER, PUBLISHED = "resolver", "publish:"
"""Faces that are no pen: what hears questions about names, and a listener, whose name goes on with a port."""

Message = dict[str, Any]

_encode = json.JSONEncoder(separators=(",", ":")).encode


def encode(message: Message) -> bytes:
    return _encode(message).encode()


def receive(sock: socket.socket) -> tuple[Message | None, list[int]]:
    """The next message and its descriptors; None at the end. What is no message is an end too."""
    data, descriptors, _, _ = socket.recv_fds(sock, LONGEST, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    try:
        message = json.loads(data) if data else None
    except ValueError:
        message = None
    if not isinstance(message, dict):
        for descriptor in descriptors:
            os.close(descriptor)
        return None, []
    return message, descriptors


def ruling_to(ruling: HostDecision) -> Message:
    return _bounded({**ruling._asdict(), "verdict": str(ruling.verdict)})


def ruling_from(message: Message) -> HostDecision:
    """A message that is not plainly a yes or a question is a no."""
    verdict = message.get("verdict")
    return HostDecision(
        Verdict(verdict) if verdict in set(Verdict) else Verdict.DENY,
        str(message.get("message", "")),
        str(message.get("rule", "")),
        str(message.get("answered", "")),
        message.get("unnamed_tls") is True,
        tuple(message.get("files", ())),
        str(message.get("remedy", "")),
        str(message.get("asked_at", "")),
    )


def outcome_to(outcome: ConnectionOutcome) -> Message:
    return _bounded({**outcome._asdict(), "verdict": str(outcome.verdict)})


def outcome_from(message: Message) -> ConnectionOutcome:
    return ConnectionOutcome(**{**message, "verdict": Verdict(message["verdict"])})


def _bounded(message: Message) -> Message:
    """INVARIANT: no text of others makes a message too long. One that is cut is taken for an end."""
    for name in ("message", "answered", "remedy"):
        message[name] = message[name][:LONGEST_SAID]
    return message
