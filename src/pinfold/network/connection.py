"""A connection through the gate: which command wants it, where it leads, and how it ended."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from pinfold.model.decision import Verdict
from pinfold.model.errors import InternalError
from pinfold.network.host_decision import ConnectionOutcome, HostDecision
from pinfold.network.refusal import Refusal
from pinfold.network.upstream import UpstreamProxy

_RESET = struct.pack("ii", 1, 0)


class GateConnection:
    """One client's connection to one host. Its two sockets live as long as it does."""

    def __init__(self, face: str, client: socket.socket | None = None, tag: str = "") -> None:
        self.face, self.host, self.port, self.tag = face, "", 0, tag
        self._client = client
        self._server: socket.socket | None = None
        self.address = ""
        self.early = b""
        self.via: UpstreamProxy | None = None
        """The proxy that the server is, which gets whole targets; None if the server is the host itself."""
        self.ruling = HostDecision(Verdict.DENY, "no decision was made")
        self.refusal: Refusal | None = None
        self.ended = ""
        self.is_left = False
        """Whether the program went away before it learned the result."""
        self.has_asked_for_tls = False
        """Whether the program asked its server for TLS, in another protocol (PostgreSQL)."""
        self.is_joined = False
        """Whether the program's connect has succeeded. The warden does not see later refusals."""
        self.is_reported = False
        """Whether it was recorded."""
        self.report: Callable[[GateConnection], None] = lambda _: None
        """Records the outcome."""
        self.sent = self.received = 0
        self._start = monotonic()

    @property
    def client(self) -> socket.socket:
        return _present(self._client)

    @client.setter
    def client(self, sock: socket.socket) -> None:
        self._client = sock

    @property
    def server(self) -> socket.socket:
        return _present(self._server)

    @server.setter
    def server(self, sock: socket.socket) -> None:
        self._server = sock

    def set_server(
        self, sock: socket.socket, address: str, early: bytes = b"", via: UpstreamProxy | None = None
    ) -> None:
        self.server, self.address, self.early, self.via = sock, address, early, via

    def refuse(self, refusal: Refusal) -> None:
        """Refuses what passes, and records that before the program sees it: the program may end then."""
        self.refusal = refusal
        self.report(self)

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The open ones of the two."""
        return tuple(sock for sock in (self._client, self._server) if sock is not None)

    @property
    def has_client(self) -> bool:
        return self._client is not None

    @property
    def outcome(self) -> ConnectionOutcome:
        refusal = self.refusal
        return ConnectionOutcome(
            face=self.face,
            host=self.host,
            port=self.port,
            verdict=Verdict.DENY if refusal else self.ruling.verdict,
            message=refusal.message if refusal else self.ended or self.ruling.message,
            rule=refusal.rule if refusal else self.ruling.rule,
            answered=refusal.answered if refusal else "",
            asked_at=refusal.asked_at if refusal else "",
            remedy=refusal.remedy if refusal else "" if self.ended else self.ruling.remedy,
            is_left=self.is_left,
            is_late=self.is_joined,
            why=refusal.why.code if refusal else "",
            tag=self.tag,
            address=self.address,
            sent=self.sent,
            received=self.received,
            seconds=round(monotonic() - self._start, 3),
        )

    def reset(self) -> None:
        """Makes closing send a reset instead of an end, so that both sides see that the connection broke."""
        for sock in self.sockets:
            set_option(sock, socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def break_off(self) -> None:
        """Ends it while bytes pass: the pumps find both sides closed."""
        self.reset()
        for sock in self.sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


def _present(sock: socket.socket | None) -> socket.socket:
    if sock is None:
        raise InternalError("a connection was used before it was made")
    return sock


def set_option(sock: socket.socket, level: int, option: int, value: Any) -> None:
    """Sets an option, or ignores it if the socket does not have it: only TCP has TCP_NODELAY."""
    try:
        sock.setsockopt(level, option, value)
    except OSError:
        return


def pen_of(tag: str) -> str:
    """The pen in a tag `PEN.COMMAND`. All commands of a pen may reach the same hosts."""
    return tag.partition(".")[0]
