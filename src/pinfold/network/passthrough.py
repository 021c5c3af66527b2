"""A connection whose bytes pass without a task of its own, since it never has to wait.

Most are like that: TLS whose hello comes whole, and protocols that name no host. Any other (HTTP, a hello or
a line of text that comes in pieces) is handed over to `tunnel`, with what came so far. The INVARIANT is that
module's.
"""

from collections.abc import Callable

from pinfold.network.client_hello import HelloReader
from pinfold.network.connection import GateConnection
from pinfold.network.limits import GateLimits
from pinfold.network.refusal import Malformed, Refusal, RefusalKind
from pinfold.network.relay import Relay, SocketPump
from pinfold.network.sniff import FirstBytes, Protocol
from pinfold.network.tunnel import (
    broken_hello_refusal,
    judge_hello,
    proxy_header_refusal,
    split_start_refusal,
    watch_second_hello,
)


class Passthrough:
    """Preconditions: both sockets are open, and no bytes from the server wait for the client."""

    def __init__(
        self,
        connection: GateConnection,
        limits: GateLimits,
        ended: Callable[["Passthrough"], None],
        hand_over: Callable[["Passthrough", bytes, SocketPump], None],
    ) -> None:
        """Calls either `ended` or `hand_over`, once. `hand_over` gets what the client sent, and the pump that
        moves the server's bytes."""
        self.connection, self._ended, self._hand_over = connection, ended, hand_over
        self._first, self._has_passed = FirstBytes(), False
        self._up, self._down = (
            SocketPump(connection.client, connection.server),
            SocketPump(connection.server, connection.client),
        )
        self._up.inspect = self._inspect
        self._passing = Relay((self._up, self._down), limits, self._end)

    def start(self, first: bytes) -> None:
        """`first` is what the client sent already."""
        self._up.start()
        self._down.start()
        if first and self._inspect(first):
            self._up.push(memoryview(first))

    def break_off(self, why: str) -> None:
        self.connection.reset()
        self._passing.stop()
        self._end(why)

    def _inspect(self, data: bytes) -> bool:
        try:
            may_pass = self._look(data)
        except Exception as error:  # noqa: BLE001  (any failure is a no)
            self._refuse(
                Refusal(
                    RefusalKind.MALFORMED,
                    f"the bytes sent to {self.connection.host} cannot be parsed: {error}",
                )
            )
            return False
        if may_pass is None:
            self._up.stop()
            self._passing.detach()
            self._hand_over(self, data, self._down)
        return bool(may_pass)

    def _look(self, data: bytes) -> bool | None:
        """Whether these bytes may pass; None if that cannot be said at once."""
        protocol = self._first.feed(data)
        self.connection.has_asked_for_tls = self._first.has_asked_for_tls
        if protocol is Protocol.OTHER:
            self._up.inspect = None
            return True
        if protocol is None and not self._first.is_doubtful:
            protocol = self._first.as_it_is
        if protocol is None and not self._first.is_doubtful:
            self._has_passed = not self._first.is_waiting
            return True
        if protocol is Protocol.PROXY:
            return self._refuse(proxy_header_refusal(self.connection))
        if self._has_passed and protocol in (Protocol.HTTP, Protocol.TLS):
            return self._refuse(split_start_refusal(self.connection))
        if protocol is not Protocol.TLS:
            return None
        reader = HelloReader()
        try:
            hello = reader.feed(data)
        except Malformed as error:
            return self._refuse(broken_hello_refusal(self.connection, f"{error}"))
        if hello is None:
            return None
        refusal = judge_hello(hello, self.connection)
        return (
            self._refuse(refusal)
            if refusal
            else watch_second_hello(reader.second(hello), self.connection, self._up, self._refuse)
        )

    def _refuse(self, refusal: Refusal) -> bool:
        self.connection.refuse(refusal)
        self.break_off("")
        return False

    def _end(self, word: str) -> None:
        self.connection.sent += self._up.moved
        self.connection.received += self._down.moved
        self.connection.ended = word
        self._ended(self)
