"""The gate on loopback: who gets through, who does not, and what each is told."""

import asyncio
import socket
import struct
from contextlib import suppress

import pytest

from pinfold.kernel.socket_info import memory_of
from pinfold.model.decision import Verdict
from pinfold.network.host_decision import HostDecision
from pinfold.network.limits import Buffers, GateLimits
from pinfold.network.relay import INSPECTED, SocketPump
from pinfold.network.upstream import Upstream
from pinfold.network.wildcard_budget import AT_ONCE
from tests.network.gate_world import (
    LOOPBACK,
    TAG,
    Client,
    World,
    answer_http,
    echo,
    listening,
    run,
    server,
    until,
)
from tests.network.tls_hellos import made_hello, real_hello, server_name
from tests.patience import PATIENCE

HERE = ("127.0.0.1",)
NAMES = {"a.test": HERE, "b.test": HERE, "evil.test": HERE}
YES = HostDecision(Verdict.ALLOW, "a person said so")


def test_no_name_no_packet() -> None:
    """A name that is not allowed is not looked up, by whatever face it comes."""

    async def test() -> None:
        async with World("a.test", names=NAMES).running() as world:
            client = await world.connect()
            await client.say(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
            said = await client.hear_all()
            assert said.startswith(b"HTTP/1.1 403 ") and b"add `evil.test:443` to `network.allow`" in said

            client = await world.connect()
            await client.say(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
            said = await client.hear_all()
            assert said.startswith(b"HTTP/1.1 403 ") and b"evil.test" in said.partition(b"\r\n\r\n")[2]

            client = await world.connect()
            await client.say(b"\5\1\0\5\1\0\3\x09evil.test\1\xbb")
            assert await client.hear_all() == b"\5\0\5\2\0\1" + bytes(6)

            client = await world.connect()
            await client.say(b"\4\1\1\xbb\0\0\0\1me\0evil.test\0")
            assert await client.hear_all() == b"\0\x5b" + bytes(6)

            way = await world.gate.open("evil.test", 443, "tag")
            assert way.refusal is not None
            assert world.looked_up == []
            faces = [(record.face, record.host, record.verdict) for record in await world.recorded(5)]
            assert sorted(faces) == [
                (face, "evil.test", "deny") for face in ("carried", "connect", "http", "socks", "socks")
            ]

    run(test())


HOSTS = [
    # the corpus: host as it is written, whether it may pass with `allow = [allowed.test, *.ok.test]`
    ("allowed.test", True),
    ("ALLOWED.test.", True),
    ("a.ok.test", True),
    ("allowed.test.evil.test", False),
    ("notallowed.test", False),
    ("ok.test", False),
    ("bad.ok.test.", False),
    ("BAD.ok.test", False),
    ("0177.0.0.1", False),
    ("0x7f.0.1", False),
    ("2130706433", False),
    ("0.0.0.0", False),
    ("[::]", False),
    ("[::1]", False),
    ("[::ffff:127.0.0.1]", False),
    ("[::ffff:7f00:1]", False),
    ("[2002:7f00:0001::]", False),
    ("localhost", False),
    ("LOCALHOST.", False),
    ("foo.localhost", False),
    ("localhost.localdomain", False),
    *((address, False) for address in ("10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1",
      "169.254.169.254", "198.18.0.1", "240.0.0.1", "[fc00::1]", "[fe80::1]", "[ff02::1]",
      "100.100.100.200", "168.63.129.16")),
]  # fmt: skip


@pytest.mark.parametrize(("host", "passes"), HOSTS)
def test_hosts_of_the_corpus(host: str, passes: bool) -> None:
    async def test() -> None:
        world = World("allowed.test", "*.ok.test", deny=["bad.ok.test"], names={})
        async with world.running():
            client = await world.connect()
            await client.say(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode().replace(b"1.1", b"1.0"))
            status = (await client.hear_all()).split()[1]
            assert status == (b"502" if passes else b"403" if "198.18" not in host else b"400")
            assert bool(world.looked_up) is passes

    run(test())


def test_what_is_asked_for_is_what_is_reached() -> None:
    async def test() -> None:
        async with server(echo) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            assert b" 200 " in await client.tunnel("a.test", port)
            await client.say(b"\0ping")
            assert await client.hear(5) == b"\0ping"
            client.close()
            (record,) = await world.recorded()
            assert record[:4] == ("connect", "a.test", port, "allow")
            assert (record.rule, record.address, record.sent, record.received) == (
                "a.test",
                "127.0.0.1",
                5,
                5,
            )
            assert world.looked_up == ["a.test"]

    run(test())


@pytest.mark.parametrize("start", [b"\5\1\0", b"\5\2\0\2\1\5tag-1\1x"])
def test_socks(start: bytes) -> None:
    async def test() -> None:
        async with server(echo) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            await client.say(start + b"\5\1\0\3\x06a.test" + port.to_bytes(2, "big") + b"\0early")
            said = await client.hear((4 if len(start) > 3 else 2) + 10 + 6)
            assert said.endswith(b"\5\0\0\1" + bytes(6) + b"\0early")
            client.close()
            (record,) = await world.recorded()
            assert record.tag == TAG, "whose it is, no client says"

    run(test())


def test_a_plain_request() -> None:
    async def test() -> None:
        async with server(answer_http) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            target = f"a.test:{port}".encode()
            await client.say(
                b"POST http://%b/x HTTP/1.1\r\nHost: %b\r\nProxy-Authorization: Basic dGFnOng=\r\n"
                b"Content-Length: 4\r\n\r\nbody" % (target, target)
            )
            said = await client.hear_all()
            assert (
                said.startswith(b"HTTP/1.1 200 ")
                and b"POST /x HTTP/1.1\r\n" in said
                and said.endswith(b"body")
            )
            assert b"Proxy-Authorization" not in said
            (record,) = await world.recorded()
            assert (record.face, record.tag, record.verdict) == ("http", TAG, "allow")

    run(test())


LEADS_TO = [
    # where an allowed name leads, what else is allowed, and whether it is dialled
    (["127.0.0.1"], [], [], False),
    (["127.0.0.1"], [LOOPBACK], [], True),
    (["127.0.0.1"], ["127.0.0.1:1"], [], False),
    (["::ffff:127.0.0.1"], [], [], False),
    (["169.254.169.254", "fd00:ec2::254"], [], [], False),
    (["10.0.0.1"], ["*"], [], False),
    (["0.0.0.0"], ["0.0.0.0/0"], [], False),
    # one of two is fine, and is the one that is used
    (["10.0.0.1", "127.0.0.1"], [LOOPBACK], [], True),
    # an address on the deny list, whatever name leads there
    (["127.0.0.1"], [LOOPBACK], ["127.0.0.1"], False),
    ([], [LOOPBACK], [], False),
]


@pytest.mark.parametrize(("addresses", "allow", "deny", "is_dialled"), LEADS_TO)
def test_where_a_name_leads(
    addresses: list[str], allow: list[str], deny: list[str], is_dialled: bool
) -> None:
    async def test() -> None:
        world = World("a.test", *allow, deny=deny, names={"a.test": addresses})
        async with server(echo) as port, world.running():
            way = await world.gate.open("a.test", port, "")
            assert (way.refusal is None) is is_dialled
            assert way.refusal is None or way.refusal.rule == "".join(deny)
            if way.refusal is None:
                assert way.address == "127.0.0.1"
                world.gate.drop(way)
            assert len(world.records) == 1

    run(test())


def test_the_machines_own_address_needs_a_rule() -> None:
    async def test() -> None:
        world = World(access="all", names={"me.test": ["8.8.8.8"]}, own=["8.8.8.8"])
        async with world.running():
            for host in ("me.test", "8.8.8.8"):
                way = await world.gate.open(host, 22, "")
                assert way.refusal is not None and "local address" in way.refusal.message

    run(test())


def test_localhost_is_reached_by_a_rule_that_says_localhost() -> None:
    async def test() -> None:
        world = World("localhost", names={"localhost": ["127.0.0.1"]})
        async with server(echo) as port, world.running():
            way = await world.gate.open("localhost", port, "")
            assert way.refusal is None
            world.gate.drop(way)
            assert (await world.gate.open("127.0.0.1", port, "")).refusal is not None

    run(test())


def test_the_second_address_is_tried_when_the_first_is_dead() -> None:
    async def test() -> None:
        world = World("a.test", LOOPBACK, names={"a.test": ["127.0.0.2", "127.0.0.1"]})
        async with server(echo) as port, world.running():
            way = await world.gate.open("a.test", port, "")
            assert way.address == "127.0.0.1"
            world.gate.drop(way)
            nowhere = await world.gate.open("a.test", 1, "")
            assert nowhere.refusal is not None and nowhere.refusal.why.status.startswith("502")

    run(test())


def test_names_below_a_wildcard_are_no_tunnel() -> None:
    async def test() -> None:
        world = World("*.ok.test")
        async with world.running():
            for number in range(AT_ONCE + 40):
                client = await world.connect()
                said = await client.tunnel(f"{number:x}.{'c2VjcmV0' * 7}.ok.test", 443)
                assert number >= AT_ONCE or b" 502 " in said, (number, said)
                client.close()
            # one more every two seconds, as long as this has taken
            assert AT_ONCE <= len(world.looked_up) < AT_ONCE + 40 and b" 403 " in said
            assert "too many" in world.records[-1].message

    run(test())


# Names must agree

FOR_TLS, FOR_KERBEROS = b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30"
"""PostgreSQL's clients ask so, and wait for the answer."""
FIRST_WORDS = [
    # through a tunnel to a.test, whether the server gets them
    (real_hello("a.test"), True),
    (real_hello("A.TEST"), True),
    (real_hello("evil.test"), False),
    (real_hello(None), False),
    (made_hello((0, server_name(b"a.test")), (0xFE0D, bytes(100))), False),
    (made_hello((0, server_name(b"a.test")), (0, server_name(b"evil.test"))), False),
    (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", True),
    (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", False),
    (b"GET http://evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", False),
    (b"get / http/1.1\nhost: evil.test\n\n", False),
    (b"\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", False),
    (b"GET / HTTP/1." + b"0" * 80 + b"1\r\nHost: evil.test\r\n\r\n", False),
    (b"GET /\xa0HTTP/1.1\r\nHost: evil.test\r\n\r\n", False),
    (b"GET http://evil.test/\r\n\r\n", False),
    (b"get / HTTP/1.0\0x\r\nHost: evil.test\r\n\r\n", False),
    (b"get / x\r\nHost: evil.test\r\n\r\n", False),
    (b"GET http://evil.test/ HTTP/1.1", False),  # the end of the connection ends its line
    (b"get http://evil.test/ HTTP/1.0", False),
    (b"GET /\1http://evil.test", False),
    (b"\x15\3\1\0\2\1\x5a" + real_hello("evil.test"), False),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", False),
    (b"SSH-2.0-OpenSSH_9.2\r\n", True),
    (FOR_TLS, True),
    (FOR_TLS + real_hello("a.test"), False),  # whoever does not wait for the answer
    (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n" + real_hello("evil.test"), False),
    (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", False),
    (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0" + real_hello("evil.test"), False),
    (b"no line at all", True),
]


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize(("data", "passes"), FIRST_WORDS)
def test_names_must_agree(data: bytes, passes: bool, is_slow: bool) -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while piece := await reader.read(65536):
            heard.extend(piece)

    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(pause=0.02, idle=2.0))
        # Where its slowness is all that is wrong with it, it is slow for a busy machine too.
        pause = 0.5 if passes and b"HTTP/" in data else 0.04
        async with server(listen) as port, world.running():
            client = await world.connect()
            await client.tunnel("a.test", port)
            with suppress(ConnectionError):
                for piece in (data[:3], data[3:-1], data[-1:]) if is_slow else (data,):
                    await client.say(piece)
                    if is_slow:
                        await asyncio.sleep(pause)
                client.writer.write_eof()
            (record,) = await world.recorded()
            if passes and not (is_slow and b"HTTP/" in data):
                assert bytes(heard).lower() == data.lower()
                assert record.verdict == "allow"
            else:
                assert record.verdict == "deny" and record.message
                assert b"evil" not in heard and b"\n" not in heard.lstrip()

    run(test())


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("name", ["a.test", "evil.test"])
def test_a_second_hello_must_agree_too(name: str, is_slow: bool) -> None:
    """A server may ask for one, and takes the name that is in that."""
    first, second = real_hello("a.test"), b"\x14\3\3\0\1\1" + real_hello(name)

    async def test() -> None:
        async with server(echo) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            await client.tunnel("a.test", port)
            for piece in (first[:3], first[3:]) if is_slow else (first,):
                await client.say(piece)
                await asyncio.sleep(0.04)
            assert await client.hear(len(first)) == first
            await client.say(second[:9])
            assert await client.hear(9) == second[:9]
            await client.say(second[9:])
            if name == "a.test":
                assert await client.hear(len(second) - 9) == second[9:]
                client.close()
            else:
                with suppress(ConnectionError):
                    assert not await client.hear_all()
            (record,) = await world.recorded()
            assert record.verdict == ("allow" if name == "a.test" else "deny"), record

    run(test())


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize(
    ("words", "passes"),
    [
        # to a.test, each answered by a byte; whether the server gets the last of them
        ((FOR_TLS, real_hello("a.test")), True),
        ((FOR_TLS, real_hello("evil.test")), False),
        ((FOR_KERBEROS, FOR_TLS, real_hello("a.test")), True),
        ((FOR_KERBEROS, FOR_TLS, real_hello("evil.test")), False),
        ((FOR_TLS, made_hello((0, server_name(b"a.test")), (0xFE0D, bytes(100)))), False),
        ((FOR_TLS, real_hello(None)), True),  # libpq before 14
        ((FOR_TLS, b"\0\0\0\x11\0\3\0\0user\0me\0\0"), True),  # the server said that it knows no TLS
    ],
)
def test_names_must_agree_where_postgresql_begins_tls(
    words: tuple[bytes, ...], passes: bool, is_slow: bool
) -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for word in words:
                heard.extend(await reader.readexactly(len(word)))
                writer.write(b"S")

    async def test() -> None:
        # Long pauses: a request that is held until it is over would be late.
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(pause=60.0))
        async with server(listen) as port, world.running():
            client = await world.connect()
            await client.tunnel("a.test", port)
            for number, word in enumerate(words):
                with suppress(ConnectionError):
                    for piece in (word[:1], word[1:3], word[3:]) if is_slow else (word,):
                        await client.say(piece)
                        await asyncio.sleep(0.02 if is_slow else 0)
                    if passes or number + 1 < len(words):
                        assert await client.hear(1) == b"S"
                    else:
                        assert not await client.hear_all()
            client.close()
            (record,) = await world.recorded()
            assert record.verdict == ("allow" if passes else "deny"), record
            assert bytes(heard) == b"".join(words if passes else words[:-1])

    run(test())


def test_an_address_needs_no_server_name() -> None:
    async def test() -> None:
        async with server(echo) as port, World(LOOPBACK).running() as world:
            client = await world.connect()
            await client.tunnel("127.0.0.1", port)
            hello = real_hello(None)
            await client.say(hello)
            assert await client.hear(len(hello)) == hello
            client.close()

    run(test())


def test_a_server_that_speaks_first_is_heard() -> None:
    async def banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        await writer.drain()
        writer.write(await reader.readexactly(4))
        await writer.drain()
        await reader.read()

    async def test() -> None:
        async with server(banner) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            await client.tunnel("a.test", port)
            assert await client.hear(14) == b"SSH-2.0-test\r\n"
            await client.say(b"SSH\n")
            assert await client.hear(4) == b"SSH\n"
            client.close()

    run(test())


def test_a_server_that_breaks_off_ends_a_client_that_waits() -> None:
    async def rude(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )

    async def test() -> None:
        async with server(rude) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            await client.tunnel("a.test", port)
            assert await client.hear_all() == b""
            await world.recorded()

    run(test())


def test_a_half_closed_client_still_gets_its_answer() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        writer.write(data[::-1])
        await writer.drain()

    async def test() -> None:
        async with server(late) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            await client.tunnel("a.test", port)
            await client.say(b"\0" + b"x" * 200_000)
            client.writer.write_eof()
            assert await client.hear_all() == b"x" * 200_000 + b"\0"

    run(test())


# Asking


def test_an_undecided_host_waits_for_its_answer() -> None:
    async def test() -> None:
        world = World(LOOPBACK, access="ask", names=NAMES)
        go = asyncio.Event()

        async def answer(host: str, _: int) -> HostDecision:
            await go.wait()
            return YES if host == "a.test" else HostDecision(Verdict.DENY, f"nobody wants {host}")

        world.answer = answer
        async with server(echo) as port, world.running():
            clients = [await world.connect() for _ in range(6)]
            hosts = ["a.test"] * 3 + ["b.test"] * 3
            waiting = [
                asyncio.create_task(client.tunnel(host, port))
                for client, host in zip(clients, hosts, strict=True)
            ]
            await until(lambda: len(world.asked) == 6)
            assert not any(task.done() for task in waiting)
            assert sorted(world.asked) == [(host, port, TAG) for host in hosts]
            assert world.looked_up == []
            go.set()
            said = await asyncio.gather(*waiting)
            assert [head.split()[1] for head in said] == [b"200"] * 3 + [b"403"] * 3
            assert b"nobody wants b.test" in await clients[-1].hear_all()
            assert len(world.asked) == 6
            for client in clients:
                client.close()

    run(test())


def test_nobody_to_ask_means_no() -> None:
    async def test() -> None:
        world = World(access="ask", names=NAMES, limits=GateLimits(answer=0.1))

        async def late(host: str, port: int) -> HostDecision:
            await asyncio.sleep(5)
            return YES

        async def unsure(host: str, port: int) -> HostDecision:
            return HostDecision(Verdict.ASK)

        async with world.running():
            for way_to_answer in (world.answer, late, unsure):
                world.answer = way_to_answer
                client = await world.connect()
                assert b" 403 " in await client.tunnel("a.test", 443)
            assert world.looked_up == []

    run(test())


def test_another_port_is_another_question() -> None:
    async def test() -> None:
        world = World(LOOPBACK, access="ask", names=NAMES)

        async def answer(_: str, port: int) -> HostDecision:
            await asyncio.sleep(0.05)
            return YES if port != 22 else HostDecision(Verdict.DENY, "not this port")

        world.answer = answer
        async with server(echo) as port, world.running():
            one, other = await asyncio.gather(
                world.gate.open("a.test", port, ""), world.gate.open("a.test", 22, "")
            )
            assert one.refusal is None and other.refusal is not None
            assert world.asked == [("a.test", port, ""), ("a.test", 22, "")]
            world.gate.drop(one)

    run(test())


def test_a_question_nobody_waits_for_is_withdrawn() -> None:
    async def test() -> None:
        world = World(access="ask", names=NAMES)
        withdrawn = asyncio.Event()

        async def answer(host: str, port: int) -> HostDecision:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                withdrawn.set()
                raise
            return YES

        world.answer = answer
        async with world.running():
            client = await world.connect()
            await client.say(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
            await until(lambda: world.asked)
            client.writer.transport.abort()
            async with asyncio.timeout(PATIENCE):
                await withdrawn.wait()
            (record,) = await world.recorded()
            assert record.verdict == "deny"

    run(test())


def test_rules_that_fail_are_a_no() -> None:
    async def test() -> None:
        world = World("a.test", names=NAMES)

        async def broken(host: str, port: int | None, tag: str) -> HostDecision:
            raise RuntimeError("no settings")

        world.decide = broken  # type: ignore[method-assign]
        async with world.running():
            client = await world.connect()
            assert b" 403 " in await client.tunnel("a.test", 443)
            assert b"no settings" in await client.hear_all()
            assert world.looked_up == []

    run(test())


def test_nobody_is_asked_about_a_name_that_is_known_to_lead_where_nothing_may() -> None:
    async def test() -> None:
        local = {
            "near.test": ("10.1.2.3",),
            "mixed.test": ("10.1.2.3", "10.9.9.9"),
            "fine.test": ("10.9.9.9",),
        }
        world = World("10.9.9.9", access="ask", names=local, local=local, limits=GateLimits(dial=0.05))
        async with world.running():
            for name, asked in (("near.test", 0), ("mixed.test", 1), ("fine.test", 2), ("far.test", 3)):
                client = await world.connect()
                said = await client.tunnel(name, 443)
                assert b" 403 " in said and len(world.asked) == asked, (name, said, world.asked)
        assert "10.1.2.3" in world.records[0].message and world.looked_up == []

    run(test())


# The proxy of the company


def test_upstream() -> None:
    async def corporate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in head
        if head.startswith(b"CONNECT closed.test:443 "):
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        assert head.startswith(b"CONNECT a.test:443 ")
        writer.write(b"HTTP/1.1 200 fine\r\n\r\nearly")
        await echo(reader, writer)

    async def test() -> None:
        async with server(corporate) as port:
            world = World("a.test", "closed.test", upstream=Upstream("127.0.0.1", port, "me", "secret"))
            async with world.running():
                client = await world.connect()
                await client.tunnel("a.test", 443)
                assert await client.hear(5) == b"early"
                await client.say(b"\0x")
                assert await client.hear(2) == b"\0x"
                client.close()
                client = await world.connect()
                assert b" 502 " in await client.tunnel("closed.test", 443)
                client = await world.connect()
                assert b" 403 " in await client.tunnel("evil.test", 443)
                assert world.looked_up == []

    run(test())


def test_upstream_that_knows_no_tunnel_but_to_443() -> None:
    """Plain HTTP goes on all the same, whoever says it how; nothing else does, and nothing but requests."""
    heads: list[bytes] = []

    async def corporate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            heads.append(head)
            if head.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                return
            body = head.split()[1]
            writer.write(b"HTTP/1.1 200 fine\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    get = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"

    async def test() -> None:
        async with server(corporate) as port:
            world = World("a.test", upstream=Upstream("127.0.0.1", port, "me", "secret"))
            async with world.running():
                client = await world.connect()
                await client.say(b"GET http://a.test:81/y HTTP/1.1\r\nHost: a.test:81\r\n\r\n")
                assert (await client.hear_all()).endswith(b"\r\n\r\nhttp://a.test:81/y")
                assert [head.split()[0] for head in heads] == [b"GET"], "CONNECT was tried"
                for _ in range(2):  # a tunnel is tried once
                    client = await world.connect()
                    assert b" 200 " in await client.tunnel("a.test", 80)
                    for _ in range(2):
                        await client.say(get)
                        assert b" 200 fine" in await client.hear_head()
                        assert await client.hear(15) == b"http://a.test/x"
                    client.close()
                assert [head.split()[0] for head in heads] == [b"GET", b"CONNECT"] + [b"GET"] * 4
                assert all(b"Basic bWU6c2VjcmV0\r\n" in head for head in heads)
                heads.clear()
                for raw in (b"\0raw", b"SSH-2.0-x\r\n\r\n", b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n",
                            b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"):  # fmt: skip
                    client = await world.connect()
                    await client.tunnel("a.test", 80)
                    await client.say(raw + b"\r\n\r\n")
                    assert b" 400 " in await client.hear_all()
                client = await world.connect()
                assert b" 502 " in await client.tunnel("a.test", 22)
                assert [head.split()[:2] for head in heads] == [[b"CONNECT", b"a.test:22"]]

    run(test())


def test_no_proxy_tells_its_password() -> None:
    """One that sends requests back gets no more of them, of whichever connection; tunnels go on."""
    heads: list[bytes] = []

    async def corporate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        if head.startswith(b"CONNECT a.test:443 "):
            writer.write(b"HTTP/1.1 200 fine\r\n\r\n")
            await echo(reader, writer)
        elif head.startswith(b"CONNECT b.test:443 "):
            writer.write(b"HTTP/1.1 200 fine\r\n\r\n" + head)
        else:
            status = b"HTTP/1.1 502 " + head.partition(b"Basic ")[2].partition(b"\r")[0]
            writer.write(b"%s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(head), head))

    async def test() -> None:
        async with server(corporate) as port:
            world = World("a.test", "b.test", upstream=Upstream("127.0.0.1", port, "me", "secret"))
            async with world.running():
                for asked in range(2):
                    client = await world.connect()
                    await client.say(b"GET http://a.test/y HTTP/1.1\r\nHost: a.test\r\n\r\n")
                    said = await client.hear_all()
                    assert b" 502 " in said and b"credentials" in said and b"bWU6c2VjcmV0" not in said
                    await world.recorded(asked + 1)
                assert len(heads) == 1
                for host, way in (("c.test", b" 403 "), ("b.test", b" 502 "), ("a.test", b" 200 ")):
                    client = await world.connect()
                    said = await client.tunnel(host, 443)
                    assert way in said and b"bWU6c2VjcmV0" not in said
                client = await world.connect()
                said = await client.tunnel("a.test", 22)
                assert b" 502 " in said and b"bWU6c2VjcmV0" not in said
                client.close()
                assert not any("bWU6c2VjcmV0" in record.message for record in await world.recorded(5))

    run(test())


# Too much, too slow, too little


def test_a_client_that_says_nothing_is_let_go() -> None:
    async def test() -> None:
        world = World(limits=GateLimits(greeting=0.1))
        async with world.running():
            for start in (b"", b"GET http://a.te", b"\5", b"\5\1\0\5"):
                client = await world.connect()
                await client.say(start)
                await client.hear_all()

    run(test())


def test_a_slow_hello_is_let_go() -> None:
    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(greeting=1.0))
        async with server(echo) as port, world.running():
            client = await world.connect()
            await client.tunnel("a.test", port)
            await client.say(real_hello("a.test")[:-1])
            with pytest.raises(ConnectionResetError):
                await client.hear_all()
            (record,) = await world.recorded()
            assert record.verdict == "deny"

    run(test())


def test_idle_connections_end() -> None:
    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(idle=1.0))
        async with server(echo) as port, server(answer_http) as http, world.running():
            silent, opaque, plain = [await world.connect() for _ in range(3)]
            await silent.tunnel("a.test", port)
            await opaque.tunnel("a.test", port)
            await opaque.say(b"\0\n")
            await plain.tunnel("a.test", http)
            await plain.say(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
            for client in (silent, opaque, plain):
                await client.hear_all()
            assert all("seconds" in record.message for record in await world.recorded(3))

    run(test())


def test_little_is_inspected_at_once() -> None:
    """Records of a byte each, behind a hello, would keep all other connections waiting."""

    async def scenario() -> None:
        (program, source), (sink, there) = socket.socketpair(), socket.socketpair()
        pieces: list[int] = []
        with program, source, sink, there:
            pump = SocketPump(source, sink)

            def inspect(data: bytes) -> bool:
                pieces.append(len(data))
                return True

            pump.inspect = inspect
            source.setblocking(False)
            program.sendall(b"\x15\x03\x03\0\1x" * 8000)
            pump.start()
            await until(lambda: sum(pieces) == 48_000)
            pump.stop()
        assert max(pieces) <= INSPECTED

    run(scenario())


def test_programs_outside_leave_commands_connections() -> None:
    """Every user of the machine may connect to a published port: they get what one command would get."""

    async def scenario() -> None:
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(connections=8))
        async with world.running(), server(echo) as port:
            listener = listening()

            async def reach(_: int) -> socket.socket:
                return socket.socket()

            world.gate.serve_published(listener, port, reach)
            served = 0
            for _ in range(8):
                with suppress(OSError):
                    reader, writer = await asyncio.open_connection(*listener.getsockname())
                    world.clients.append(Client(reader, writer))
                    await world.clients[-1].say(b"x")
                    served += await reader.read(1) == b"x"
            assert served == 6
            client = await world.connect()
            assert (await client.tunnel("a.test", port)).startswith(b"HTTP/1.1 200 ")

    run(scenario())


def test_ways_that_nobody_takes_count_too() -> None:
    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(connections=2))
        async with server(echo) as port, world.running():
            first, second = [await world.gate.open("a.test", port, "") for _ in range(2)]
            assert (await world.gate.open("a.test", port, "")).refusal is not None
            world.gate.drop(first)
            third = await world.gate.open("a.test", port, "")
            assert third.refusal is None
            for way in (second, third):
                world.gate.drop(way)

    run(test())


def test_what_waits_in_the_gate_is_ended_when_memory_is_short() -> None:
    """Here little is taken for all that there is: to take all in truth would stop other tests."""

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(1 << 16))
            await writer.drain()

    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES)
        world.tags = iter(("7.1", "7.2"))
        async with server(flood) as flooding, server(echo) as port, world.running():
            heavy = await world.connect()
            await heavy.tunnel("a.test", flooding)
            light = await world.connect()
            await light.tunnel("a.test", port)
            (way,) = world.gate._by_command["7.1"]
            await until(lambda: sum(map(memory_of, way.sockets)) > 1 << 18)
            world.gate.buffers = Buffers(lambda: True, lambda: 1 << 18)
            (told,) = await world.recorded()
            assert (told.tag, told.why) == ("7.1", "busy") and "TCP buffers" in told.message
            await light.say(b"\0ping")
            assert await light.hear(5) == b"\0ping"
            await until(lambda: "7.1" not in world.gate._by_command)

    run(test())


def test_an_answer_before_the_end_of_the_request_arrives() -> None:
    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async def test() -> None:
        async with server(hasty) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            client = await world.connect()
            target = f"a.test:{port}".encode()
            await client.say(
                b"POST http://%b/ HTTP/1.1\r\nHost: %b\r\nContent-Length: 9000000\r\n\r\n" % (target, target)
            )
            assert b" 413 " in await client.hear_head()

    run(test())


def test_too_many_connections_are_turned_away_and_others_live() -> None:
    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(connections=3))
        world.tags = iter(("7.1", "7.2", "7.3", "7.4"))
        async with server(echo) as port, world.running():
            client = await world.connect()
            await client.tunnel("a.test", port)
            others = [await world.connect() for _ in range(2)]
            said = await (await world.connect()).hear_all()
            assert said.startswith(b"HTTP/1.1 503 ") and b"already has 3 connections" in said
            assert [record.why for record in await world.recorded()] == ["busy"]
            assert (await world.gate.open("a.test", port, "")).refusal is not None
            await client.say(b"\0ping")
            assert await client.hear(5) == b"\0ping"
            for other in (client, *others):
                other.close()

    run(test())


def test_a_client_that_does_not_read_holds_little() -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    async def test() -> None:
        from pinfold.network import relay

        async with server(flood) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            clients = [await world.connect() for _ in range(20)]
            for client in clients:
                client.reader._limit = 1024  # type: ignore[attr-defined]
                await client.tunnel("a.test", port)
            await asyncio.sleep(0.5)
            assert relay._kept <= relay.MOST_KEPT + 20 * relay.FAST
            for client in clients:
                client.writer.transport.abort()
            await world.recorded(20)
            assert relay._kept == 0

    run(test())


@pytest.mark.parametrize("data", [b"\x16\3\1\2\0\1", b"\0" * 100_000, b"\xff\n\n", b"a" * 200_000])
def test_garbage_at_the_proxys_face(data: bytes) -> None:
    async def test() -> None:
        async with World(limits=GateLimits(greeting=0.5)).running() as world:
            client = await world.connect()
            try:
                await client.say(data)
                said = await client.hear_all()
            except ConnectionError:
                return
            assert not said or said.startswith(b"HTTP/1.1 400 ")

    run(test())


def test_closing_the_gate_breaks_everything_off() -> None:
    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES)
        async with server(echo) as port:
            async with world.running():
                client = await world.connect()
                await client.tunnel("a.test", port)
            with pytest.raises(ConnectionResetError):
                await client.hear_all()
            with pytest.raises(ConnectionRefusedError):
                await world.connect()
            assert [record.message for record in world.records] == ["the session has ended"]

    run(test())


# Carried connections


def test_a_carried_connection_goes_to_the_name_its_address_stands_for() -> None:
    async def test() -> None:
        async with server(echo) as port, World("a.test", LOOPBACK, names=NAMES).running() as world:
            address = world.gate.fake_addresses.address_of("a.test", 0)
            assert address is not None
            way = await world.gate.open(address, port, "tag")
            assert (way.host, way.refusal) == ("a.test", None)
            ours, theirs = socket.socketpair()
            world.gate.join(way, theirs)
            reader, writer = await asyncio.open_connection(sock=ours)
            writer.write(b"\0ping")
            assert await reader.readexactly(5) == b"\0ping"
            writer.close()
            (record,) = await world.recorded()
            assert (record.face, record.host, record.tag) == ("carried", "a.test", "tag")
            unknown = await world.gate.open("198.19.0.1", port, "")
            assert unknown.refusal is not None

    run(test())


@pytest.mark.parametrize("request_", [b"\0x", b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"])
def test_who_is_gone_leaves_no_connection_to_a_server_that_keeps_it(request_: bytes) -> None:
    """A command that ended would have it for an hour, and the next ones none."""
    over = asyncio.Event()

    async def keep(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await over.wait()

    async def test() -> None:
        world = World("a.test", LOOPBACK, names=NAMES, limits=GateLimits(gone=0.5))
        async with server(keep) as port, world.running():
            request = request_.replace(b"a.test", b"a.test:%d" % port)
            there, gone = await world.connect(), await world.connect()
            for client in (there, gone):
                await client.tunnel("a.test", port)
                await client.say(request)
                client.writer.write_eof()
            sock = gone.writer.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 1)  # the kernel forgets it soon
            gone.close()
            await world.recorded()
            assert len(world.records) == 1 and not there.reader.at_eof()
            over.set()

    run(test())
