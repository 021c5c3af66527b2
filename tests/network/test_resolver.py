"""The resolver: stand-ins for names, and nobody outside is asked."""

import asyncio
import socket
import struct

import pytest

from pinfold.network import dns
from pinfold.network.fake_ips import FakeAddresses
from pinfold.network.host_decision import ConnectionOutcome, HostDecision
from pinfold.network.resolver import MOST_OF_ONE, Resolver
from tests.network.gate_world import World, run
from tests.network.test_dns import query
from tests.patience import PATIENCE

FIRST = bytes((198, 18, 1, 0))


def name(text: str) -> bytes:
    return dns.encode_name(text)


def resolver(*allow: str, access: str = "rules", records: list[ConnectionOutcome] | None = None) -> Resolver:
    world = World(*allow, access=access, deny=["evil.test"])
    local = {"box.test": ("10.1.2.3",)}
    return Resolver(world.decide, (records if records is not None else []).append, FakeAddresses(), local)


ANSWERS = [
    # settings, question, kind: code, values
    (("a.test",), "rules", "a.test", dns.A, dns.DnsCode.FINE, [FIRST]),
    (("a.test",), "rules", "A.Test", dns.A, dns.DnsCode.FINE, [FIRST]),
    (("a.test",), "rules", "a.test", dns.AAAA, dns.DnsCode.FINE, []),
    (("a.test",), "rules", "a.test", 16, dns.DnsCode.FINE, []),  # TXT
    (("a.test",), "rules", "a.test", 65, dns.DnsCode.FINE, []),  # HTTPS, which would carry ECH keys
    (("a.test:22",), "rules", "a.test", dns.A, dns.DnsCode.FINE, [FIRST]),
    (("a.test",), "rules", "b.test", dns.A, dns.DnsCode.NO_SUCH_NAME, []),
    (("a.test",), "rules", "secret.a.test", dns.A, dns.DnsCode.NO_SUCH_NAME, []),
    (("*.a.test",), "rules", "x.a.test", dns.A, dns.DnsCode.FINE, [FIRST]),
    ((), "ask", "b.test", dns.A, dns.DnsCode.FINE, [FIRST]),
    ((), "ask", "evil.test", dns.A, dns.DnsCode.NO_SUCH_NAME, []),
    ((), "none", "b.test", dns.A, dns.DnsCode.NO_SUCH_NAME, []),
    # what this machine knows by itself
    ((), "rules", "localhost", dns.A, dns.DnsCode.FINE, [bytes((127, 0, 0, 1))]),
    ((), "rules", "localhost", dns.AAAA, dns.DnsCode.FINE, [bytes(15) + b"\1"]),
    ((), "rules", "box.test", dns.A, dns.DnsCode.FINE, [bytes((10, 1, 2, 3))]),
    # no name at all
    ((), "all", "1.2.3.4", dns.A, dns.DnsCode.NO_SUCH_NAME, []),
    ((), "all", "-a.test", dns.A, dns.DnsCode.NO_SUCH_NAME, []),
]


@pytest.mark.parametrize(("allow", "access", "asked", "kind", "code", "values"), ANSWERS)
def test_answers(
    allow: tuple[str, ...], access: str, asked: str, kind: int, code: dns.DnsCode, values: list[bytes]
) -> None:
    async def test() -> None:
        question = query(name(asked), kind)
        said = await resolver(*allow, access=access).reply(question, 0)
        assert said == dns.answer(dns.parse_query(question), code, values, 60)

    run(test())


def test_a_denied_name_is_recorded() -> None:
    async def test() -> None:
        records: list[ConnectionOutcome] = []
        await resolver(access="ask", records=records).reply(query(name("evil.test")), 0)
        assert [(record.face, record.host, record.rule) for record in records] == [
            ("resolver", "evil.test", "evil.test")
        ]

    run(test())


def test_other_questions() -> None:
    async def test() -> None:
        asked = resolver("a.test")
        chaos = await asked.reply(query(name("version.bind"), 16, klass=3), 0)
        assert chaos is not None and chaos[3] & 15 == dns.DnsCode.REFUSED
        update = await asked.reply(query(name("a.test"), flags=5 << 11), 0)
        assert update is not None and update[3] & 15 == dns.DnsCode.NOT_KNOWN
        assert await asked.reply(b"\0", 0) is None
        await asked.reply(query(name("a.test")), 0)
        back = await asked.reply(query(name("0.1.18.198.in-addr.arpa"), dns.PTR), 0)
        assert back is not None and back.endswith(name("a.test"))
        nobody = await asked.reply(query(name("8.8.8.8.in-addr.arpa"), dns.PTR), 0)
        assert nobody is not None and nobody[3] & 15 == dns.DnsCode.NO_SUCH_NAME

    run(test())


def test_on_a_socket() -> None:
    async def test() -> None:
        async with World("a.test").running() as world:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind(("127.0.0.1", 0))
            where = sock.getsockname()
            world.gate.serve_resolver(sock)
            loop = asyncio.get_running_loop()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.setblocking(False)
                client.connect(where)
                for _ in range(50):
                    client.send(b"garbage")
                    client.send(struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1")
                client.send(query(name("a.test")))
                async with asyncio.timeout(PATIENCE):
                    while not (said := await loop.sock_recv(client, 4096)).endswith(FIRST):
                        assert said[3] & 15 == dns.DnsCode.MALFORMED
            assert world.looked_up == []

    run(test())


@pytest.mark.slow
def test_who_asks_much_holds_up_nobody_else() -> None:
    asked: list[str] = []

    async def test() -> None:
        world = World("a.test")
        decide = world.decide

        async def slow(host: str, port: int | None, tag: str) -> HostDecision:
            asked.append(host)
            await asyncio.sleep(0 if host == "a.test" else PATIENCE)
            return await decide(host, port, tag)

        world.decide = slow  # type: ignore[method-assign]
        async with world.running():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind(("127.0.0.1", 0))
            where = sock.getsockname()
            world.gate.serve_resolver(sock)
            loop = asyncio.get_running_loop()
            with (
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as many,
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
            ):
                for number, client in enumerate((many, one)):
                    client.setblocking(False)
                    client.connect(where)
                    world.gate.resolver.learn(client.getsockname()[1], f"pen.{number}")
                for number in range(2 * MOST_OF_ONE):
                    many.send(query(name(f"{number}.test")))
                    await asyncio.sleep(0)  # so that there is room for it
                one.send(query(name("a.test")))
                async with asyncio.timeout(PATIENCE):
                    assert (await loop.sock_recv(one, 4096)).endswith(FIRST)
            assert len(asked) == MOST_OF_ONE + 1

    run(test())


def test_who_asks_much_is_answered_all_of_it() -> None:
    async def test() -> None:
        world = World("a.test")
        decide, going = world.decide, asyncio.Event()

        async def slow(host: str, port: int | None, tag: str) -> HostDecision:
            await going.wait()
            return await decide(host, port, tag)

        world.decide = slow  # type: ignore[method-assign]
        async with world.running():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind(("127.0.0.1", 0))
            world.gate.serve_resolver(sock)
            loop = asyncio.get_running_loop()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as many:
                many.setblocking(False)
                many.connect(sock.getsockname())
                count = MOST_OF_ONE + 50
                for _ in range(count):
                    many.send(query(name("a.test")))
                    await asyncio.sleep(0)  # so that there is room for it
                many.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
                going.set()
                async with asyncio.timeout(PATIENCE):
                    for _ in range(count):
                        assert (await loop.sock_recv(many, 4096)).endswith(FIRST)

    run(test())


def test_rules_that_fail_are_a_no() -> None:
    async def test() -> None:
        world = World("a.test")

        async def broken(host: str, port: int | None, tag: str) -> HostDecision:
            raise RuntimeError("no settings")

        world.decide = broken  # type: ignore[method-assign]
        async with world.running():
            said = await world.gate.resolver.reply(query(name("a.test")), 0)
            assert said is not None and said[3] & 15 == dns.DnsCode.NO_SUCH_NAME

    run(test())
