"""The resolver of a pen: it answers with placeholder addresses for names, and asks no other resolver.

Facts about its clients (glibc, musl, Go, c-ares): NXDOMAIN ends a lookup at once with "name not known".
REFUSED and SERVFAIL make them try other servers and wait, for seconds. NOERROR without records for AAAA makes
them use the A record. So a denied name does not exist, and an IPv6 address never does.

Clients take an answer only from the address that they asked (127.0.0.53, say), and one socket answers for
all. The kernel reports that address with each datagram, and gets it with the reply (ip(7), ipv6(7)).

The asking command decides nothing: a port may have become another command's. It only says which command a
refusal belongs to, and each command gets only so many answers at once. Datagrams that find no room in the
socket are lost, and clients ask again after 5 seconds. So the resolver takes all datagrams at once, and
queues those of a command that has many already.

What this means for tunnels: no packet leaves for any question asked here. A name goes outside once, when the
gate dials it, and then it was allowed.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pinfold.model.decision import Verdict
from pinfold.model.hosts import canonical, is_address
from pinfold.network import dns
from pinfold.network.fake_ips import FakeAddresses
from pinfold.network.host_decision import ConnectionOutcome, Decide, Record
from pinfold.network.refusal import Malformed

if TYPE_CHECKING:
    from pinfold.network.dns import DnsQuery

TTL = 60
MOST_OF_ONE = 256
"""Questions of one command in progress. All questions of unknown commands together count as one's."""
MOST_WAITING = 4096
"""Questions of all commands that wait until others of the same command are answered."""
TAKEN_AT_ONCE = 512
"""Datagrams that are read before other tasks run."""
MOST_KNOWN = 1024
_LOCALHOST = ("127.0.0.1", "::1")
_REVERSE = ".in-addr.arpa"
_IP_PKTINFO = 8
_ABOUT = 128
Ancillary = tuple[int, int, bytes]
Question = tuple[socket.socket, bytes, tuple[str, int], list[Ancillary]]


def local_addresses(name: str, local: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The addresses that this machine knows for a name; None if it is a name outside."""
    if name == "localhost" or name.endswith(".localhost"):
        return _LOCALHOST
    return local.get(name)


class Resolver:
    def __init__(
        self,
        decide: Decide,
        record: Record,
        fake_addresses: FakeAddresses,
        local: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._decide, self._record, self._fake_addresses, self._local = decide, record, fake_addresses, local
        self._answering: set[asyncio.Task[None]] = set()
        self._questions: Counter[str] = Counter()
        """How many of these belong to each command."""
        self._waiting: dict[str, deque[Question]] = {}
        self._asking: OrderedDict[int, str] = OrderedDict()
        """The command behind each source port, as far as known."""

    def learn(self, port: int, tag: str) -> None:
        """Notes that the command with this tag now asks for names from this port."""
        self._asking[port] = tag
        self._asking.move_to_end(port)
        if len(self._asking) > MOST_KNOWN:
            self._asking.popitem(last=False)

    async def reply(self, data: bytes, now: float, port: int = 0) -> bytes | None:
        """The reply to one datagram from this port; None if it must not be answered."""
        try:
            query = dns.parse_query(data)
        except Malformed:
            return dns.broken(data)
        if not query.is_standard:
            return dns.answer(query, dns.DnsCode.NOT_KNOWN)
        if query.klass != dns.IN:
            return dns.answer(query, dns.DnsCode.REFUSED)
        if query.kind == dns.PTR:
            return self._reverse(query)
        try:
            name = canonical(query.name)
        except ValueError:
            return dns.answer(query, dns.DnsCode.NO_SUCH_NAME)
        if is_address(name):
            return dns.answer(query, dns.DnsCode.NO_SUCH_NAME)
        known = local_addresses(name, self._local)
        if known is not None:
            return _with_addresses(query, known)
        return await self._answer_with_fake(query, name, now, port)

    async def _answer_with_fake(self, query: DnsQuery, name: str, now: float, port: int) -> bytes:
        ruling = await self._decide(name, None, "")
        if ruling.verdict is Verdict.DENY:
            tag = self._asking.get(port, "")
            said, rule = ruling.message, ruling.rule
            told = ConnectionOutcome(
                "resolver", name, 0, Verdict.DENY, said, rule, remedy=ruling.remedy, tag=tag
            )
            self._record(told)
            return dns.answer(query, dns.DnsCode.NO_SUCH_NAME)
        if query.kind != dns.A:
            return dns.answer(query, dns.DnsCode.FINE)
        address = self._fake_addresses.address_of(name, now)
        if address is None:
            return dns.answer(query, dns.DnsCode.FAILED)
        return _with_addresses(query, (address,))

    def _reverse(self, query: DnsQuery) -> bytes:
        numbers = query.name.lower().removesuffix(_REVERSE).split(".")
        name = self._fake_addresses.name_of(".".join(reversed(numbers)))
        if name is None:
            return dns.answer(query, dns.DnsCode.NO_SUCH_NAME)
        return dns.answer(query, dns.DnsCode.FINE, (dns.encode_name(name),), TTL)

    def serve(self, sock: socket.socket) -> None:
        """Answers what comes on a bound datagram socket. Preconditions: the socket does not block."""
        loop = asyncio.get_running_loop()
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)

        def readable() -> None:
            for _ in range(TAKEN_AT_ONCE):
                try:
                    data, about, _, sender = sock.recvmsg(dns.LONGEST + 1, _ABOUT)
                except OSError:
                    return
                tag = self._asking.get(sender[1], "")
                question = sock, data, sender, asked_at(about)
                if self._questions[tag] < MOST_OF_ONE:
                    self._begin(tag, question)
                elif sum(map(len, self._waiting.values())) < MOST_WAITING:
                    self._waiting.setdefault(tag, deque()).append(question)

        loop.add_reader(sock, readable)

    def _begin(self, tag: str, question: Question) -> None:
        self._questions[tag] += 1
        task = asyncio.get_running_loop().create_task(self._answer(*question))
        self._answering.add(task)
        task.add_done_callback(partial(self._answered, tag))

    def _answered(self, tag: str, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._questions[tag] -= 1
        if not self._questions[tag]:
            del self._questions[tag]
        if (waiting := self._waiting.get(tag)) and not task.cancelled():
            question = waiting.popleft()
            if not waiting:
                del self._waiting[tag]
            self._begin(tag, question)

    async def _answer(
        self, sock: socket.socket, data: bytes, sender: tuple[str, int], about: list[Ancillary]
    ) -> None:
        reply = await self.reply(data, asyncio.get_running_loop().time(), sender[1])
        if reply is not None:
            try:
                sock.sendmsg([reply], about, 0, sender)
            except OSError:
                return  # the client is gone or does not read: datagrams get lost


def asked_at(about: list[Ancillary]) -> list[Ancillary]:
    """The ancillary data that makes a reply come from the address that was asked."""
    if not about:
        return []
    level, kind, info = about[0]
    if level == socket.IPPROTO_IPV6:
        return [(level, kind, info[:16] + bytes(4))]
    # in: interface, our address, the header's; out: any interface, ours
    return [(level, kind, bytes(4) + info[4:8] + bytes(4))]


def _with_addresses(query: DnsQuery, addresses: tuple[str, ...]) -> bytes:
    family = {dns.A: socket.AF_INET, dns.AAAA: socket.AF_INET6}.get(query.kind)
    records = [
        socket.inet_pton(family, address)
        for address in addresses
        if family is not None and (":" in address) == (family == socket.AF_INET6)
    ]
    return dns.answer(query, dns.DnsCode.FINE, records, TTL)
