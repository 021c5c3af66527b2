"""A way whose bytes pass without a task of its own: nothing about it has to be waited for.

That is what most are: TLS whose hello comes whole, and protocols that name no host. As soon as it is another
(HTTP, a hello or a line of text that comes in pieces), it is handed over to `tunnel`, with what came so far.
The INVARIANT is that module's.
"""

from collections.abc import Callable

from pinfold.network.client_hello import HelloReader
from pinfold.network.connection import GateConnection
from pinfold.network.limits import GateLimits
from pinfold.network.refusal import Malformed, Refusal, RefusalKind
from pinfold.network.relay import Relay, SocketPump
from pinfold.network.sniff import FirstBytes, Protocol
from pinfold.network.tunnel import broken, in_pieces, judge, says_whose, watch


class Passthrough:
    """Preconditions: both sockets are there, and nothing of the server's waits for the client."""

    def __init__(
        self,
        way: GateConnection,
        limits: GateLimits,
        ended: Callable[["Passthrough"], None],
        hand_over: Callable[["Passthrough", bytes, SocketPump], None],
    ) -> None:
        """Either `ended` is called, once, or `hand_over`: with what the client sent, and what moves the
        server's bytes."""
        self.way, self._ended, self._hand_over = way, ended, hand_over
        self._first, self._has_passed = FirstBytes(), False
        self._up, self._down = SocketPump(way.client, way.server), SocketPump(way.server, way.client)
        self._up.inspect = self._inspect
        self._passing = Relay((self._up, self._down), limits, self._end)

    def start(self, first: bytes) -> None:
        """`first` is what the client sent already."""
        self._up.start()
        self._down.start()
        if first and self._inspect(first):
            self._up.push(memoryview(first))

    def break_off(self, why: str) -> None:
        self.way.reset()
        self._passing.stop()
        self._end(why)

    def _inspect(self, data: bytes) -> bool:
        try:
            may_pass = self._look(data)
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            self._refuse(
                Refusal(RefusalKind.MALFORMED, f"what was sent to {self.way.host} is broken: {error}")
            )
            return False
        if may_pass is None:
            self._up.stop()
            self._passing.let_go()
            self._hand_over(self, data, self._down)
        return bool(may_pass)

    def _look(self, data: bytes) -> bool | None:
        """Whether these bytes may go on; None if that takes more than a look."""
        protocol = self._first.feed(data)
        self.way.has_asked_for_tls = self._first.has_asked_for_tls
        if protocol is Protocol.OTHER:
            self._up.inspect = None
            return True
        if protocol is None and not self._first.is_doubtful:
            protocol = self._first.as_it_is
        if protocol is None and not self._first.is_doubtful:
            self._has_passed = not self._first.is_waiting
            return True
        if protocol is Protocol.PROXY:
            return self._refuse(says_whose(self.way))
        if self._has_passed and protocol in (Protocol.HTTP, Protocol.TLS):
            return self._refuse(in_pieces(self.way))
        if protocol is not Protocol.TLS:
            return None
        reader = HelloReader()
        try:
            hello = reader.feed(data)
        except Malformed as error:
            return self._refuse(broken(self.way, f"{error}"))
        if hello is None:
            return None
        no = judge(hello, self.way)
        return self._refuse(no) if no else watch(reader.second(hello), self.way, self._up, self._refuse)

    def _refuse(self, refusal: Refusal) -> bool:
        self.way.refuse(refusal)
        self.break_off("")
        return False

    def _end(self, word: str) -> None:
        self.way.sent += self._up.moved
        self.way.received += self._down.moved
        self.way.ended = word
        self._ended(self)
