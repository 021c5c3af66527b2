"""Requests through a proxy: bytes in, commands out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.network.http_heads import LONGEST_HEAD, MOST_HEADERS, HttpTarget, refusal_page
from pinfold.network.http_layer import Close, HttpCommand, HttpLayer, Open, Switched, ToClient, ToServer
from pinfold.network.refusal import RefusalKind
from pinfold.network.upstream import UpstreamProxy
from tests.network.byte_pieces import PLACES, cut

HOST = HttpTarget("a.example", 80)
GET = b"GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\n\r\n"
INNER = b"GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def merged(commands: list[HttpCommand]) -> list[HttpCommand]:
    """Bytes for the same side, one after the other, are the same as all at once."""
    found: list[HttpCommand] = []
    for command in commands:
        if isinstance(command, ToServer) and found and isinstance(found[-1], ToServer):
            found[-1] = ToServer(found[-1].data + command.data)
        elif isinstance(command, ToClient) and found and isinstance(found[-1], ToClient):
            found[-1] = ToClient(found[-1].data + command.data)
        else:
            found.append(command)
    return found


def fed(layer: HttpLayer, data: bytes, places: list[int] | None = None) -> list[HttpCommand]:
    return merged([command for piece in cut(data, places or []) for command in layer.from_client(piece)])


TARGETS = [
    (GET, Open(HOST, False)),
    (GET.replace(b"a.example", b"A.Example."), Open(HOST, False)),
    (
        b"GET http://a.example:8080 HTTP/1.1\r\nHost: a.example:8080\r\n\r\n",
        Open(HttpTarget("a.example", 8080), False),
    ),
    (b"GET http://[::1]:8/ HTTP/1.1\r\nHost: [0::1]:8\r\n\r\n", Open(HttpTarget("::1", 8), False)),
    (b"GET http://127.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", Open(HttpTarget("127.0.0.1", 80), False)),
    (b"GET http://a.example/ HTTP/1.0\r\n\r\n", Open(HOST, False)),
    (
        GET.replace(b"\r\n\r\n", b"\r\nProxy-Authorization: Basic dGFnLTE6eA==\r\n\r\n"),
        Open(HOST, False),
    ),
    (
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n\x16\3",
        Open(HttpTarget("a.example", 443), True, b"\x16\3"),
    ),
    (b"CONNECT [::1]:22 HTTP/1.0\r\n\r\n", Open(HttpTarget("::1", 22), True)),
]


@pytest.mark.parametrize(("data", "wanted"), TARGETS)
def test_targets(data: bytes, wanted: Open) -> None:
    assert HttpLayer().from_client(data) == [wanted]


REFUSED = [
    # the host in two ways
    b"GET http://a.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET http://a.example:8080/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n",
    b"CONNECT a.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    b"GET http://me:secret@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET http://evil.example#@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET http://evil.example\\@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    # no host at all
    b"GET http://a.example/ HTTP/1.1\r\n\r\n",
    b"GET http:///evil.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET http:evil.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET //evil.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET file:///etc/passwd HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    # hosts that are none
    b"CONNECT evil.test\0.ok.test:443 HTTP/1.1\r\n\r\n",
    b"CONNECT evil.test%00.ok.test:443 HTTP/1.1\r\n\r\n",
    b"CONNECT  a.example :443 HTTP/1.1\r\n\r\n",
    b"CONNECT evil.test\t.ok.test:443 HTTP/1.1\r\n\r\n",
    b"CONNECT evil.test\\.ok.test:443 HTTP/1.1\r\n\r\n",
    b"CONNECT bad.ok.test..:443 HTTP/1.1\r\n\r\n",
    b"CONNECT ::1:443 HTTP/1.1\r\n\r\n",
    b"CONNECT [fe80::1%25eth0]:80 HTTP/1.1\r\n\r\n",
    b"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"CONNECT a.example:0 HTTP/1.1\r\nHost: a.example:0\r\n\r\n",
    b"CONNECT a.example:99999 HTTP/1.1\r\nHost: a.example:99999\r\n\r\n",
    "CONNECT \uff11\uff12\uff17.0.0.1:80 HTTP/1.1\r\n\r\n".encode(),
    b"CONNECT " + b"a" * 64 + b".ok.test:443 HTTP/1.1\r\n\r\n",
    # what two readers could read in two ways
    b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding:chunked\r\n\r\n",
    b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
    b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nContent-Length: 3\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\nHost: a.example\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\n evil\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n folded\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: y\x85Host: b.example\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: y\x1eHost: b.example\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: y\x0bz\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: \r b\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost : a.example\r\n\r\n",
    b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer_Encoding: chunked\r\n\r\n",
    b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent.Length: 5\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: identity\r\n\r\n",
    # lines of requests that only some servers read
    b"GET http://a.example/\r\n",
    b"GET /\r\n",
    b"GET http://a.example/ RTSP/1.0\r\n",
    b"GET http://a.example/ HTTP/1.10\r\n",
    b"GET http://a.example/ HTTP/2.0\r\n",
    b"GET  http://a.example/ HTTP/1.1\r\n",
    b"GET http://a.example/ http/1.1\r\n",
    b"\r\nGET http://a.example/ HTTP/1.1\r\n",
    b" GET http://a.example/ HTTP/1.1\r\n",
    # garbage
    b"\r\n\r\n",
    b"hello\r\n\r\n",
    b"\x16\3\1\0\1\1\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: " + b"a" * LONGEST_HEAD + b"\r\n\r\n",
    b"a" * (LONGEST_HEAD + 1),
    # what takes the gate long to read
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n" + b"a:b\r\n" * MOST_HEADERS + b"\r\n",
]  # fmt: skip


@pytest.mark.parametrize("data", REFUSED)
@given(places=PLACES)
def test_refused_in_any_pieces(data: bytes, places: list[int]) -> None:
    answer, end = fed(HttpLayer(), data, places)
    assert isinstance(answer, ToClient) and answer.data.startswith(b"HTTP/1.1 400 ")
    assert isinstance(end, Close) and end.message and end.why is RefusalKind.MALFORMED


@given(PLACES, PLACES)
def test_one_request_for_each_connection_to_a_proxy(places: list[int], others: list[int]) -> None:
    layer = HttpLayer()
    assert fed(layer, GET + GET.replace(b"a.example", b"evil.example"), places)[0] == Open(HOST, False)
    assert layer.opened() == [
        ToServer(b"GET /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
    ]
    said = merged([command for piece in cut(ANSWER, others) for command in layer.from_server(piece)])
    assert said == [
        ToClient(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"),
        Close(),
    ]
    assert not layer.wants_client
    assert layer.from_client(GET) == []


@pytest.mark.parametrize(
    "offered",
    (b"h2c", b"websocket, h2c", b"H2C,websocket", b"websocket\r\nUpgrade: h2c", b"TLS/1.0", b"x, HTTP/2.0"),
)
def test_what_is_between_client_and_proxy_stays_there(offered: bytes) -> None:
    layer = HttpLayer()
    head = GET[:-2] + b"Proxy-Authorization: Basic dGFnOng=\r\nProxy-Connection: keep-alive\r\n"
    layer.from_client(
        head
        + b"Upgrade: "
        + offered
        + b"\r\nHTTP2-Settings: x\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n"
    )
    (sent,) = layer.opened()
    assert sent == ToServer(b"GET /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")


@given(PLACES)
def test_bodies_are_framed_anew(places: list[int]) -> None:
    layer = HttpLayer()
    head = b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert layer.from_client(head) == [Open(HOST, False)]
    assert not layer.wants_client
    (start,) = layer.opened()
    assert layer.wants_client
    sent = fed(layer, b"3;x=y\r\nabc\r\n0\r\nHost: evil.example\r\n\r\n", places)
    (data,) = sent
    assert isinstance(start, ToServer) and isinstance(data, ToServer)
    assert start.data.endswith(b"\r\n\r\n") and data.data.endswith(b"0\r\n\r\n")
    assert b"evil" not in data.data


def test_requests_through_a_tunnel_go_on_with_the_same_host() -> None:
    layer = HttpLayer(HOST)
    assert layer.from_client(INNER) == [ToServer(INNER)]
    assert not layer.wants_client
    assert merged(layer.from_server(ANSWER)) == [ToClient(ANSWER)]
    assert layer.wants_client
    assert layer.from_client(INNER) == [ToServer(INNER)]
    assert merged(layer.from_server(ANSWER)) == [ToClient(ANSWER)]
    answer, end = layer.from_client(INNER.replace(b"a.example", b"evil.example"))
    assert isinstance(answer, ToClient) and answer.data.startswith(b"HTTP/1.1 400 ")
    assert isinstance(end, Close)


@given(PLACES)
def test_a_request_behind_another_waits_and_is_judged_too(places: list[int]) -> None:
    layer = HttpLayer(HOST)
    evil = INNER.replace(b"a.example", b"evil.example")
    assert fed(layer, INNER + evil, places) == [ToServer(INNER)]
    refused, end = layer.from_server(ANSWER)[-2:]
    assert isinstance(refused, ToClient) and refused.data.startswith(b"HTTP/1.1 400 ")
    assert isinstance(end, Close)


@pytest.mark.parametrize(
    "data",
    [
        INNER.replace(b"a.example", b"evil.example"),
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"CONNECT a.example:80 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a.example:81\r\n\r\n",
        b"GET /x HTTP/1.1\r\n\r\n",
    ],
)
def test_another_host_within_a_tunnel(data: bytes) -> None:
    _, end = HttpLayer(HOST).from_client(data)
    assert isinstance(end, Close) and end.message


def test_a_web_socket() -> None:
    layer = HttpLayer()
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    # What the server is to drop is not the client's to say.
    layer.from_client(GET[:-2] + upgrade.replace(b"n: U", b"n: keep-alive, Host, U"))
    (sent,) = layer.opened()
    assert isinstance(sent, ToServer) and sent.data.endswith(upgrade)
    assert not layer.wants_client
    yes = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert layer.from_server(yes + b"early") == [ToClient(yes), ToClient(b"early"), Switched()]
    assert layer.from_client(b"raw") == [ToServer(b"raw")]
    assert layer.from_server(b"raw") == [ToClient(b"raw")]


def test_an_upgrade_that_is_not_granted_opens_nothing() -> None:
    layer = HttpLayer(HOST)
    evil = INNER.replace(b"a.example", b"evil.example")
    layer.from_client(INNER[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + evil)
    *_, end = layer.from_server(ANSWER)
    assert isinstance(end, Close) and end.message


ANSWERS = [
    # answers of servers, and whether the client gets a whole one
    (b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 "),
    (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"HTTP/1.1 200 "),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", b"HTTP/1.1 200 "),
    (b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 502 "),
    (b"", b"HTTP/1.1 502 "),
    (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", b"HTTP/1.1 502 "),
]


@pytest.mark.parametrize(("data", "start"), ANSWERS)
def test_answers(data: bytes, start: bytes) -> None:
    layer = HttpLayer()
    layer.from_client(GET)
    layer.opened()
    commands = (
        merged([*layer.from_server(data), *layer.from_server(b"")])
        if data
        else merged(layer.from_server(b""))
    )
    assert isinstance(commands[0], ToClient) and commands[0].data.startswith(start)
    assert isinstance(commands[-1], Close)


def test_the_reason_is_in_the_answer() -> None:
    page = refusal_page(
        RefusalKind.DENIED, "a.example is not in `network.allow`; add `a.example` to `network.allow`"
    )
    assert page.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert page.endswith(
        b"\r\n\r\npinfold: a.example is not in `network.allow`; add `a.example` to `network.allow`\n"
    )


BODIES = [
    (b"Content-Length: 2\r\n\r\n", b"hi"),
    (b"Content-Length: 2\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"hi"),
    (b"Content-Length: 2\r\nConnection: keep-alive\r\n\r\n", b"hi"),
    (b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\nhi\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n\r\n", b"0\r\n\r\n"),
]


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE", b"POST", b"REPORT"])
@pytest.mark.parametrize(("headers", "body"), BODIES)
@pytest.mark.parametrize("via", [None, UpstreamProxy()])
def test_no_body_becomes_a_request(
    method: bytes, headers: bytes, body: bytes, via: UpstreamProxy | None
) -> None:
    """A server that leaves a body unread is told that nothing follows, and nothing does."""
    layer = HttpLayer(HOST, via)
    head = INNER[:-2].replace(b"GET", method) + headers
    (first, *_) = layer.from_client(head + body + INNER)
    assert isinstance(first, ToServer)
    lines = first.data.lower().partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert [line for line in lines if line.startswith(b"connection:")] == [b"connection: close"]
    answer = ANSWER if method != b"HEAD" else ANSWER[:-2]
    said = layer.from_server(answer)
    assert isinstance(said[-1], Close) and not any(isinstance(command, ToServer) for command in said)
    assert not layer.wants_client and layer.from_client(INNER) == []


def test_a_body_of_nothing_ends_no_connection() -> None:
    layer = HttpLayer(HOST)
    layer.from_client(INNER[:-2] + b"Content-Length: 0\r\n\r\n")
    layer.from_server(ANSWER)
    assert layer.from_client(INNER) == [ToServer(INNER)]


PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([
        GET, INNER, ANSWER, b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"Host: a.example\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    ]),
)  # fmt: skip


@given(st.booleans(), st.lists(st.tuples(st.sampled_from("cso"), PIECES), max_size=12))
def test_garbage_is_answered_or_closed(is_tunnel: bool, script: list[tuple[str, bytes]]) -> None:
    layer = HttpLayer(HOST if is_tunnel else None)
    is_asked, is_opened = False, is_tunnel
    for side, data in script:
        if side == "c":
            is_asked = any(isinstance(command, Open) for command in layer.from_client(data)) or is_asked
        elif side == "s" and is_opened:
            layer.from_server(data)
        elif side == "o" and is_asked and not is_opened:
            layer.opened()
            is_opened = True


# A proxy as the server

VIA = UpstreamProxy(b"Basic bWU6c2VjcmV0")
BY_PROXY = [
    (INNER, b"GET http://a.example/x HTTP/1.1\r\n"),
    (INNER.replace(b"/x", b"//evil.example/"), b"GET http://a.example//evil.example/ HTTP/1.1\r\n"),
    (INNER.replace(b"GET /x", b"OPTIONS *"), b"OPTIONS http://a.example HTTP/1.1\r\n"),
    (INNER.replace(b"/x", b"http://A.example./x"), b"GET http://a.example/x HTTP/1.1\r\n"),
]


@pytest.mark.parametrize(("data", "line"), BY_PROXY)
def test_a_proxy_hears_the_whole_target(data: bytes, line: bytes) -> None:
    (said,) = HttpLayer(HOST, VIA).from_client(data)
    assert isinstance(said, ToServer) and said.data.startswith(line)
    assert said.data.count(b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n") == 1


def test_a_proxy_hears_of_us_and_not_of_the_client() -> None:
    layer = HttpLayer()
    more = b"Upgrade: websocket\r\nConnection: Upgrade\r\nProxy-Authorization: Basic dGFnLTE6eA==\r\n\r\n"
    assert layer.from_client(GET[:-2] + more) == [Open(HOST, False, is_upgrade=True)]
    (said,) = layer.opened(VIA)
    assert isinstance(said, ToServer)
    lines = said.data.split(b"\r\n")
    assert lines[0] == b"GET http://a.example/x?y HTTP/1.1"
    assert {line.partition(b":")[0] for line in lines[1:] if line} == {
        b"Host", b"Accept-Encoding", b"Connection", b"Proxy-Authorization"
    }  # fmt: skip
    assert b"Connection: close" in lines and b"dGFnLTE6eA" not in said.data
    page = b"HTTP/1.1 200 OK\r\nProxy-Connection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"
    told = merged(layer.from_server(page))
    assert isinstance(told[0], ToClient) and b"proxy-connection" not in told[0].data.lower()


def test_what_a_proxy_wants_of_us_is_not_the_clients_to_give() -> None:
    layer = HttpLayer(HOST, VIA)
    layer.from_client(INNER)
    said = layer.from_server(
        b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
    )
    assert isinstance(said[0], ToClient) and b" 502 " in said[0].data and b"realm" not in said[0].data
    assert isinstance(said[-1], Close)


@pytest.mark.parametrize(
    "data",
    [
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
        b"CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
        INNER.replace(b"/x", b"http://evil.example/x"),
        INNER.replace(b"/x", b"https://a.example/x"),
        INNER.replace(b"Host: a.example", b"Host: evil.example"),
        b"PRI * HTTP/2.0\r\nHost: a.example\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\0\r\n\r\n",
        b"\5\1\0\r\n\r\n",
    ],
)
def test_a_proxy_gets_nothing_else(data: bytes) -> None:
    for start in (b"", INNER):
        layer = HttpLayer(HOST, VIA)
        if start:
            layer.from_client(start)
        said = layer.from_client(data) + (layer.from_server(ANSWER) if start else [])
        assert not any(isinstance(command, ToServer) for command in said), said
        assert isinstance(said[-1], Close)


# What a proxy could send back

SECRET = b"bWU6c2VjcmV0"
ECHOES = [
    b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
    b"HTTP/1.0 500 Bad (%d)\r\n\r\n%s",
    b"HTTP/1.1 302 Found\r\nX-Length: %d\r\nLocation: http://a.example/?%s\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 400 Bad %d %s\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 103 Early\r\nLink: %d %s\r\n\r\n" + ANSWER,
    b"HTTP/1.1 400 Bad\r\n%d no header: %s\r\n\r\n",
    b"garbage %d %s\r\n\r\n",
]
SPELT = [
    SECRET,
    b"Proxy-Authorization: Basic " + SECRET + b"=\r\n",
    b"<pre>Basic " + SECRET,
    b"me:secret",
    b"%0D%0AProxy-Authorization%3A%20Basic%20" + SECRET + b"%3D",
    b"me%3Asecret",
    b"me%3asecret",
]


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("spelt", SPELT)
@given(places=PLACES)
def test_no_proxy_tells_its_password(echo: bytes, spelt: bytes, places: list[int]) -> None:
    if b" no header" in echo or b"Location" in echo or b"Link" in echo or b"Bad %d %s" in echo:
        spelt = spelt.replace(b"\r\n", b" ").strip()
    layer = HttpLayer(HOST, VIA)
    layer.from_client(INNER)
    said = [
        command for piece in cut(echo % (len(spelt), spelt), places) for command in layer.from_server(piece)
    ]
    said += layer.from_server(b"")
    told = b"".join(command.data for command in said if isinstance(command, ToClient))
    assert not any(known in told for known in (SECRET, b"me:secret", b"me%3Asecret", b"me%3asecret"))
    (end,) = (command for command in said if isinstance(command, Close))
    assert end.message and SECRET.decode() not in end.message


@given(st.binary(max_size=300), PLACES)
def test_other_answers_of_a_proxy_pass_whole(body: bytes, places: list[int]) -> None:
    layer = HttpLayer(HOST, VIA)
    layer.from_client(INNER)
    said: list[HttpCommand] = []
    body = body + SECRET[:5] + b"me:sec" + body
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    for piece in cut(answer, places):
        said += layer.from_server(piece)
    told = b"".join(command.data for command in said if isinstance(command, ToClient))
    assert told.endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("method", [b"TRACE", b"TRACK", b"trace"])
def test_no_proxy_is_made_to_repeat_what_it_is_told(method: bytes) -> None:
    for layer in (HttpLayer(HOST, VIA), HttpLayer(HOST, UpstreamProxy())):
        said = layer.from_client(INNER.replace(b"GET", method))
        assert not any(isinstance(command, ToServer) for command in said) and isinstance(said[-1], Close)
    layer = HttpLayer(HOST, VIA)
    more = b"Max-Forwards: 0\r\nAccept-Encoding: gzip\r\nTE: gzip\r\n\r\n"
    (sent,) = layer.from_client(INNER[:-2].replace(b"GET", b"OPTIONS") + more)
    assert isinstance(sent, ToServer) and b"gzip" not in sent.data and b"Forwards" not in sent.data
