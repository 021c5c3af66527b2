"""Requests of one client, and the responses to them: what a proxy does between two connections. Sans-io.

Bytes of either side go in, commands come out. h11 reads and writes the messages, and `http_heads` judges what
h11 would let pass. What the layer sends was framed by h11 itself. So a message that the two sides of a proxy
could read in two ways does not reach the server.

If the server is a proxy itself (`UpstreamProxy`), each request goes to it with its whole target, in our
spelling. Nothing else goes there: no other method than the client's own, no change to another protocol.

A client that knows its proxy has one request for each connection: the response says `Connection: close`. So
no client ever sends a second host on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pinfold.network.http_heads import (
    LONGEST_HEAD,
    HeadReader,
    HttpTarget,
    interpret,
    refusal_page,
    request_headers,
    response_headers,
    upstream_headers,
)
from pinfold.network.proxy_credentials import ECHOED, EchoedCredentialsError, ProxyEcho
from pinfold.network.refusal import Malformed, RefusalKind
from pinfold.network.upstream import UpstreamProxy

if TYPE_CHECKING:
    import h11


class Open(NamedTuple):
    """The client wants this host. The caller answers with `opened` or `refuse`."""

    target: HttpTarget
    is_tunnel: bool
    """Whether by CONNECT: nothing after it belongs to this layer. `rest` is what the client sent already."""
    rest: bytes = b""
    is_upgrade: bool = False
    """Whether the connection may change to another protocol."""


class ToServer(NamedTuple):
    data: bytes


class ToClient(NamedTuple):
    data: bytes


class Switched(NamedTuple):
    """The server changed to another protocol (a web socket, say): all bytes pass unread from now on."""


class Close(NamedTuple):
    """Both connections are over; `message` is the reason, if any."""

    message: str = ""
    why: RefusalKind = RefusalKind.MALFORMED


HttpCommand = Open | ToServer | ToClient | Switched | Close


class HttpLayer:
    """One client's connection, and the server's once it is open."""

    def __init__(self, within: HttpTarget | None = None, via: UpstreamProxy | None = None) -> None:
        """`within` is the host of the tunnel that the requests came through; None at the proxy's own face.
        `via` is the proxy that the server is, if it is one."""
        import h11

        self._h11 = h11
        self._within = within
        self._set_upstream(via)
        self._wanted = within
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._server = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        self._head = HeadReader()
        self._rest = b""
        self._is_held = False
        self._is_last = not within
        """Whether the request is the last on its connection."""
        self._request: h11.Request | None = None
        self._commands: list[HttpCommand] = []
        self._is_over = False
        self._is_switched = False

    def _set_upstream(self, via: UpstreamProxy | None) -> None:
        """Sets the proxy that the server is, and the search for its credentials in responses."""
        self._via = via
        self._echo = ProxyEcho(via.authorization) if via and via.authorization else None

    @property
    def wants_client(self) -> bool:
        """Whether the layer can use the client's next bytes now; else they may wait."""
        if self._is_over or self._is_held:
            return False
        if self._is_switched or self._client.their_state is self._h11.SEND_BODY:
            return True
        return self._request is None and self._client.their_state is self._h11.IDLE

    @property
    def is_answering(self) -> bool:
        """Whether the client already got a part of a response, so that no other one can be sent."""
        return self._client.our_state not in (self._h11.IDLE, self._h11.SEND_RESPONSE)

    def from_client(self, data: bytes) -> list[HttpCommand]:
        """Takes bytes from the client; empty data is the end."""
        if self._is_switched:
            return [ToServer(data)] if data else []
        if self._is_over or self._client.trailing_data[1]:
            return []
        self._guarded(lambda: self._read_client(data), RefusalKind.MALFORMED)
        return self._take_commands()

    def _guarded(self, step: Callable[[], None], why: RefusalKind) -> None:
        """Reads one side's bytes; an error in them is reported as that side's."""
        try:
            step()
        except (Malformed, self._h11.RemoteProtocolError) as error:
            said = f"{error}" if why is RefusalKind.MALFORMED else "the server's answer is not HTTP"
            # The error text quotes what the server sent.
            self._refuse(why, said if self._echo or why is RefusalKind.MALFORMED else f"{said}: {error}")
        except EchoedCredentialsError:
            self._refuse(RefusalKind.REPEATED, ECHOED)
        except self._h11.LocalProtocolError:  # the other side has already finished
            self._close()

    def _read_client(self, data: bytes) -> None:
        if self._request is not None:
            self._client.receive_data(data)
            if not self._is_held:
                self._read_body()
            return
        found = self._head.feed(data)
        if found is None:
            if not data and self._head.is_begun:
                raise Malformed("the request ends before the end of its head")
            if not data:
                self._close()
            return
        head, rest = found
        self._client.receive_data(head)
        event = self._client.next_event()
        if not isinstance(event, self._h11.Request):
            raise Malformed("not an HTTP request")
        self._take_request(event, rest)

    def _take_request(self, request: h11.Request, rest: bytes) -> None:
        meant = interpret(request, self._within)
        if meant.is_tunnel:
            self._request, self._is_held = request, True
            self._commands.append(Open(meant.target, True, rest))
            return
        self._wanted = meant.target
        self._is_last = self._is_last or meant.has_body
        headers = request_headers(request, meant, is_last=self._is_last)
        self._request = self._h11.Request(
            method=request.method, target=meant.path.encode("latin-1"), headers=headers
        )
        if rest:
            self._client.receive_data(rest)
        if self._within:
            self._pass_on()
        else:
            self._is_held = True
            self._commands.append(Open(meant.target, False, is_upgrade=meant.is_upgrade))

    def opened(self, via: UpstreamProxy | None = None) -> list[HttpCommand]:
        """The connection to the server or proxy is open: sends it the request that it was opened for."""
        self._is_held = False
        self._set_upstream(via)
        self._guarded(self._pass_on, RefusalKind.MALFORMED)
        return self._take_commands()

    def _pass_on(self) -> None:
        if self._request is not None:
            self._send_server(
                self._with_full_target(self._request, self._via) if self._via else self._request
            )
            self._read_body()

    def _with_full_target(self, request: h11.Request, via: UpstreamProxy) -> h11.Request:
        """A request as a proxy expects it (RFC 9112, 3.2.2)."""
        if self._wanted is None:
            raise Malformed("the request names no host")
        path = b"" if request.target == b"*" else request.target
        target = b"http://" + self._wanted.authority.encode() + path
        headers = upstream_headers(request, via, is_last=self._is_last)
        return self._h11.Request(method=request.method, target=target, headers=headers)

    def _read_body(self) -> None:
        while True:
            event = self._client.next_event()
            if isinstance(event, self._h11.Data):
                self._send_server(event)
            elif isinstance(event, self._h11.EndOfMessage):
                self._send_server(self._h11.EndOfMessage())  # trailers stay behind
            elif isinstance(event, self._h11.ConnectionClosed):
                self._close()
                return
            else:
                return

    def _send_server(self, event: h11.Event) -> None:
        data = self._server.send(event)
        if data:
            self._commands.append(ToServer(data))

    def from_server(self, data: bytes) -> list[HttpCommand]:
        """Takes bytes from the server; empty data is the end."""
        if self._is_switched:
            return [ToClient(data)] if data else []
        if self._is_over or self._server.trailing_data[1]:
            return []
        self._server.receive_data(data)
        self._guarded(self._read_answer, RefusalKind.UNREACHABLE)
        rest, self._rest = self._rest, b""
        return self.from_client(rest) if rest and not self._is_over else self._take_commands()

    def _read_answer(self) -> None:
        while not self._is_over:
            event = self._server.next_event()
            if isinstance(event, self._h11.InformationalResponse):
                self._send_client(event)
                if event.status_code == 101:
                    self._switch()
                    return
            elif isinstance(event, self._h11.Response) and self._via and event.status_code == 407:
                self._refuse(
                    RefusalKind.UNREACHABLE, "this machine's proxy rejected the configured credentials"
                )
            elif isinstance(event, self._h11.Response):
                self._send_client(self._answer(event))
            elif isinstance(event, self._h11.Data):
                self._send_client(self._checked(event))
            elif isinstance(event, self._h11.EndOfMessage):
                if self._echo and (rest := self._echo.rest()):
                    self._send_client(self._h11.Data(data=rest))
                self._send_client(self._h11.EndOfMessage())
                self._next()
            elif isinstance(event, self._h11.ConnectionClosed):
                self._close()
            else:
                return

    def _answer(self, response: h11.Response) -> h11.Response:
        headers = response_headers(response, is_of_proxy=self._via is not None, is_last=self._is_last)
        return self._h11.Response(status_code=response.status_code, headers=headers, reason=response.reason)

    def _checked(self, data: h11.Data) -> h11.Data:
        return self._h11.Data(data=self._echo.feed(bytes(data.data))) if self._echo else data

    def _send_client(self, event: h11.Event) -> None:
        if self._echo and isinstance(event, (self._h11.Response, self._h11.InformationalResponse)):
            self._echo.require_none(event.reason, *(part for header in event.headers for part in header))
        data = self._client.send(event)
        if data:
            self._commands.append(ToClient(data))

    def _switch(self) -> None:
        self._is_switched = True
        if self._client.trailing_data[0]:
            self._commands.append(ToServer(self._client.trailing_data[0]))
        if self._server.trailing_data[0]:
            self._commands.append(ToClient(self._server.trailing_data[0]))
        self._commands.append(Switched())

    def _next(self) -> None:
        """After a response: prepares for the next request, if both sides are ready for one."""
        done = {self._h11.DONE}
        if set(self._client.states.values()) != done or set(self._server.states.values()) != done:
            self._close()
            return
        self._rest = self._client.trailing_data[0]
        self._client = self._h11.Connection(self._h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._server.start_next_cycle()
        self._request = None

    def refuse(self, why: RefusalKind, message: str) -> list[HttpCommand]:
        """Tells the client why the request is refused, unless a response is already on its way."""
        self._refuse(why, message)
        return self._take_commands()

    def _refuse(self, why: RefusalKind, message: str) -> None:
        if not self.is_answering and not self._is_over:
            self._commands.append(ToClient(refusal_page(why, message)))
        self._close(message, why)

    def _close(self, message: str = "", why: RefusalKind = RefusalKind.MALFORMED) -> None:
        self._is_over = True
        self._commands.append(Close(message, why))

    def _take_commands(self) -> list[HttpCommand]:
        commands, self._commands = self._commands, []
        return commands
