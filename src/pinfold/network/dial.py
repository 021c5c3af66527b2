"""From an allowed host to a connected socket. The gate looks a name up once, and dials what it checked.

An address that is not on the public network, or is this machine's own, needs a rule that names it, or a host
that says as much itself (`localhost`). The gate never dials an address on `network.deny`, under any name.
"""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from pinfold.model.decision import Verdict
from pinfold.model.hosts import canonical, is_address, special_kind
from pinfold.network.dns_lookup import LookUp, LookUpQueue
from pinfold.network.host_decision import Decide, HostDecision
from pinfold.network.limits import GateLimits
from pinfold.network.proxy_credentials import ECHOED, EchoedCredentialsError, ProxyEcho
from pinfold.network.refusal import Refusal, RefusalKind
from pinfold.network.upstream import TunnelRefusedError, Upstream, UpstreamError, UpstreamProxy, open_tunnel
from pinfold.network.wildcard_budget import WildcardBudget

MOST_ADDRESSES = 6
MOST_NEAR = 1024
HEAD_START = 0.25
"""Seconds before the next address is tried beside the first (RFC 8305, 5)."""
OWN = "local"
REMEDY = "use https, or configure the proxy's error pages not to show requests"
HTTP = 80


class Dialled(NamedTuple):
    sock: socket.socket
    address: str
    early: bytes = b""
    """What the server already sent for the client."""
    via: UpstreamProxy | None = None
    """The proxy it leads to, which takes only requests; None otherwise."""
    is_near: bool = False
    """Whether it was connected at once, as over loopback."""


class Dialer:
    def __init__(
        self,
        decide: Decide,
        look_up: LookUp,
        is_own: Callable[[str], bool],
        limits: GateLimits,
        upstream: Upstream | None = None,
        wildcard_budget: WildcardBudget | None = None,
    ) -> None:
        self._decide, self._look_ups, self._is_own = decide, LookUpQueue(look_up), is_own
        self._limits, self._upstream = limits, upstream
        self._wildcard_budget = wildcard_budget or WildcardBudget()
        self._near: set[str] = set()
        """Addresses that answered at once before."""
        self._has_refused_tunnel = False
        """Whether the proxy has refused CONNECT to port 80."""
        self.has_echoed_credentials = False
        """Whether the proxy has sent its credentials back. Then programs' requests no longer go to it."""

    async def dial(
        self, host: str, port: int, ruling: HostDecision, tag: str, *, is_plain: bool = False
    ) -> Dialled | Refusal:
        """Preconditions: `ruling` allows this canonical host and port. `is_plain`: for HTTP requests."""
        if not self._wildcard_budget.has_room(ruling.rule, host, time.time()):
            many = f"too many different names under `{ruling.rule}` in a short time; lookups can leak data"
            if self._wildcard_budget.trouble:
                return Refusal(RefusalKind.DENIED, self._wildcard_budget.trouble, ruling.rule)
            return Refusal(RefusalKind.DENIED, many, ruling.rule, remedy=f"add `{host}` to `network.allow`")
        if upstream := self._upstream_for(host, port):
            if upstream.trouble:
                return Refusal(RefusalKind.UNREACHABLE, upstream.trouble)
            return await self._dial_upstream(upstream, host, port, tag, is_plain=is_plain)
        addresses = await self._addresses(host, tag)
        if isinstance(addresses, Refusal):
            return addresses
        fine = await self.allowed_addresses(host, addresses, port, ruling, tag)
        return fine if isinstance(fine, Refusal) else await self._connect(host, port, fine)

    def _upstream_for(self, host: str, port: int) -> Upstream | None:
        """The proxy that a host is reached through; None if it is dialled directly."""
        upstream = self._upstream
        return upstream if upstream and not special_kind(host) and upstream.is_used_for(host, port) else None

    async def allowed_addresses(
        self, host: str, addresses: Sequence[str], port: int, ruling: HostDecision, tag: str
    ) -> Sequence[str] | Refusal:
        """Which of a name's addresses may be dialled, or why none may."""
        if self._upstream_for(host, port):
            return addresses
        judging = [self._judge_address(host, address, port, ruling, tag) for address in addresses]
        found = await asyncio.gather(*judging) if len(judging) > 1 else [await judging[0]]
        fine = [address for address, refusal in zip(addresses, found, strict=True) if refusal is None]
        return fine or next((refusal for refusal in found if refusal), _no_address(host))

    def dial_at_once(self, host: str, port: int, ruling: HostDecision) -> Dialled | None:
        """Dials an address that answered at once before; None if it takes longer or may not be dialled."""
        if self._upstream or host not in self._near or self._judge_by(host, host, host, port, ruling):
            return None
        sock: socket.socket | None = None
        try:
            sock = _new_socket(host)
            if _is_connected(sock, host, port):
                return Dialled(sock, host)
        except OSError:
            pass  # `dial` reports why
        if sock:
            sock.close()
        return None

    async def _addresses(self, host: str, tag: str) -> Sequence[str] | Refusal:
        if is_address(host):
            return (host,)
        try:
            async with asyncio.timeout(self._limits.lookup):
                found = await self._look_ups.find(host, tag)
        except (OSError, UnicodeError) as error:
            if isinstance(error, TimeoutError):
                return Refusal(RefusalKind.LATE, f"the DNS lookup of {host} timed out")
            return Refusal(
                RefusalKind.UNKNOWN_NAME,
                f"the DNS lookup of {host} failed: {error.strerror or error}"
                if isinstance(error, OSError)
                else f"the DNS lookup of {host} failed",
            )
        return _interleaved(found)[:MOST_ADDRESSES] or _no_address(host)

    async def _judge_address(
        self, host: str, address: str, port: int, ruling: HostDecision, tag: str
    ) -> Refusal | None:
        """Why an address may not be dialled; None if it may."""
        try:
            spelled = host if address == host else canonical(address)
        except ValueError:
            return Refusal(RefusalKind.DENIED, f"{host} resolves to something that is not an IP address")
        if spelled != host:
            ruling = await self._decide(spelled, port, tag)
        return self._judge_by(host, address, spelled, port, ruling)

    def _judge_by(
        self, host: str, address: str, spelled: str, port: int, ruling: HostDecision
    ) -> Refusal | None:
        """Judges an address by `ruling`, which is about its canonical spelling."""
        leads = host if spelled == host else f"{host} resolves to {spelled}, which"
        if ruling.verdict is Verdict.DENY and ruling.rule:
            return Refusal(
                RefusalKind.DENIED, f"{leads} matches `{ruling.rule}` in `network.deny`", ruling.rule
            )
        if ruling.verdict is Verdict.ALLOW and ruling.rule:
            return None
        kind = special_kind(spelled) or (OWN if self._owns(address) else "")
        if not kind or kind == special_kind(host):
            return None
        return Refusal(
            RefusalKind.DENIED,
            f"{leads} is a {kind} address; it is blocked unless a `network.allow` entry names it",
            remedy=f"add `{_with_port(spelled, port)}` to `network.allow`",
        )

    def _owns(self, address: str) -> bool:
        try:
            return self._is_own(address)
        except OSError:
            return True  # in doubt, yes

    async def _connect(self, host: str, port: int, addresses: Sequence[str]) -> Dialled | Refusal:
        try:
            async with asyncio.timeout(self._limits.dial):
                return self._remember(await connect_first(addresses, port))
        except TimeoutError:
            return Refusal(RefusalKind.LATE, f"{host}:{port} did not answer in time")
        except ConnectionRefusedError:
            return Refusal(RefusalKind.REFUSED_THERE, f"{host}:{port} refuses connections")
        except OSError as error:
            is_ours = error.errno in (errno.EMFILE, errno.ENFILE)
            why = RefusalKind.BUSY if is_ours else RefusalKind.UNREACHABLE
            return Refusal(why, f"connecting to {host}:{port} failed: {error.strerror or error}")

    def _remember(self, dialled: Dialled) -> Dialled:
        if dialled.is_near and len(self._near) < MOST_NEAR:
            self._near.add(dialled.address)
        return dialled

    async def _dial_upstream(
        self, upstream: Upstream, host: str, port: int, tag: str, *, is_plain: bool
    ) -> Dialled | Refusal:
        """Dials through the proxy, which looks the name up itself: its addresses cannot be judged here."""
        address = f"via {upstream.host}:{upstream.port}"
        try:
            async with asyncio.timeout(self._limits.dial):
                known = is_address(upstream.host)
                addresses = (upstream.host,) if known else await self._look_ups.find(upstream.host, tag)
                if not is_plain and not (port == HTTP and self._has_refused_tunnel):
                    try:
                        return await self._tunnel(upstream, addresses, host, port)
                    except TunnelRefusedError:
                        if port != HTTP:
                            raise
                        self._has_refused_tunnel = True
                if self.has_echoed_credentials:
                    return Refusal(RefusalKind.REPEATED, ECHOED, remedy=REMEDY)
                dialled = await connect_first(addresses, upstream.port)
                return Dialled(dialled.sock, address, via=upstream.via)
        except TimeoutError:
            return Refusal(
                RefusalKind.LATE, f"the proxy {upstream.host}:{upstream.port} did not answer in time"
            )
        except (OSError, UpstreamError) as error:
            return Refusal(RefusalKind.UNREACHABLE, f"the proxy {upstream.host}:{upstream.port}: {error}")

    @staticmethod
    async def _tunnel(upstream: Upstream, addresses: Sequence[str], host: str, port: int) -> Dialled:
        dialled = await connect_first(addresses, upstream.port)
        try:
            early = await open_tunnel(dialled.sock, upstream, host, port)
            if upstream.user:
                ProxyEcho(upstream.via.authorization).require_none(early)
        except EchoedCredentialsError:
            dialled.sock.close()
            raise UpstreamError("its answer to CONNECT contains its credentials") from None
        except BaseException:
            dialled.sock.close()
            raise
        return Dialled(dialled.sock, f"via {upstream.host}:{upstream.port}", early)


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _no_address(host: str) -> Refusal:
    return Refusal(RefusalKind.UNKNOWN_NAME, f"{host} has no IP address")


def _interleaved(addresses: Sequence[str]) -> list[str]:
    """The addresses with their families alternating, beginning with the first one's (RFC 8305, 4)."""
    first = [address for address in addresses if (":" in address) == (":" in addresses[0])]
    second = [address for address in addresses if address not in first]
    return [address for address in chain(*zip_longest(first, second)) if address is not None]


async def connect_first(addresses: Sequence[str], port: int) -> Dialled:
    """A connection to the first address that answers. Raises the first one's OSError if none does."""
    if len(addresses) == 1:
        return await _connect(addresses[0], port)
    waiting = list(addresses)
    trying: set[asyncio.Task[Dialled]] = set()
    errors: list[BaseException] = []
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.create_task(_connect(waiting.pop(0), port)))
            done, trying = await asyncio.wait(
                trying, timeout=HEAD_START if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            won = [task.result() for task in done if not task.exception()]
            errors += [error for task in done if (error := task.exception())]
            for spare in won[1:]:
                spare.sock.close()
            if won:
                return won[0]
        raise errors[0] if errors else OSError("no address to connect to")
    finally:
        for task in trying:
            task.cancel()
        for result in await asyncio.gather(*trying, return_exceptions=True):
            if isinstance(result, Dialled):
                result.sock.close()


async def _connect(address: str, port: int) -> Dialled:
    sock = _new_socket(address)
    try:
        is_near = _is_connected(sock, address, port)
        if not is_near:
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return Dialled(sock, address, is_near=is_near)


def _new_socket(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _is_connected(sock: socket.socket, address: str, port: int) -> bool:
    """Begins to connect a non-blocking socket; whether it is connected already. Raises OSError if it failed.

    A fact about Linux: over loopback the other side has answered before connect returns, but only the next
    call sees that. So the first call returns EINPROGRESS, and the second one the result.
    """
    said = sock.connect_ex((address, port))
    if said == errno.EINPROGRESS:
        said = sock.connect_ex((address, port))
    if said and said != errno.EALREADY:
        raise OSError(said, os.strerror(said))
    return not said
