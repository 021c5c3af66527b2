"""What holds of programs in a pen and the hosts outside: each function runs in a child, as root and another.

Run one by hand, in a directory of your own beside a `home`:
`python -m tests.session.probes.hosts NAME`.
"""

import errno
import os
import resource
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pinfold
from pinfold.approval.chain import NOBODY
from pinfold.audit import JournalEntry
from pinfold.model.permission import ASKED_ENOUGH, MOST_ASKED, MOST_OPEN
from pinfold.model.policy import SandboxPolicy
from tests.network.probes.programs import SkipError, pages, program
from tests.network.tls_hellos import made_hello, server_name
from tests.patience import PATIENCE, wait_until
from tests.probe_module import PYTHON, probes_of
from tests.processes import is_alive, kill
from tests.session.fake_internet import ADDRESS, ALLOWED, SIXTH, Machine, banner
from tests.session.probes.run import Says, journal

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
PLAIN = f"env -u NODE_USE_ENV_PROXY {' '.join(f'-u {name}' for name in PROXIES)} "
"""For programs that are not to know of the proxy."""


def opened(access: str = "rules", allow: tuple[str, ...] = ALLOWED, **given: Any) -> pinfold.Session:
    settings = {"network": {"access": access, "allow": list(allow)}}
    return pinfold.Session([os.getcwd()], settings=settings, **given)


def fine(session: pinfold.Session, line: str) -> str:
    result = session.run(line)
    assert result.exit_code == 0, (line, result.exit_code, result.stdout, result.stderr, result.violations)
    return result.stdout


def python(code: str, *arguments: object) -> str:
    """A line that runs this program."""
    name = f"/tmp/p{abs(hash(code))}.py"
    text = textwrap.dedent(code)
    words = " ".join(str(argument) for argument in arguments)
    return f"cat > {name} <<'END'\n{text}\nEND\n{PLAIN} {PYTHON} {name} {words}"


def connections() -> list[JournalEntry]:
    return [entry for entry in journal() if entry.kind == "connect"]


def gate_of(session: pinfold.Session) -> int:
    """The gate's process."""
    outside = session.sandboxes._outside
    house = outside._gatehouse  # type: ignore[attr-defined]
    assert house is not None
    return int(house.pid)


# What works


def curl(machine: Machine) -> None:
    by = f"{program('curl')} -sS -m 20 --cacert {os.getcwd()}/ca.pem"
    with pages(True) as secure, pages(False) as plain, opened() as session:
        for way in ("", PLAIN):
            for url, port in ((f"https://a.test:{secure}/", secure), (f"http://a.test:{plain}/", plain)):
                assert fine(session, f"{way}{by} {url}") == f"hello from a.test:{port}"
            body = fine(session, f"head -c 3000000 /dev/zero | tr '\\0' y > /tmp/large; {way}{by} "
                        f"--data-binary @/tmp/large http://a.test:{plain}/")  # fmt: skip
            assert body == "y" * 3_000_000
        socks = f"{by} -x socks5h://198.18.0.1:3128 https://a.test:{secure}/"
        assert fine(session, socks) == f"hello from a.test:{secure}"
        # a denied name: told why with a proxy, not found without one
        result = session.run(f"{by} http://evil.test:{plain}/")
        assert f"add `evil.test:{plain}` to `network.allow`" in result.stdout, result.stdout
        (violation,) = result.violations
        assert violation.remedy == f"add `evil.test:{plain}` to `network.allow`"
        assert (violation.operation, violation.path) == ("connect", f"evil.test:{plain}")
        assert session.run(f"{PLAIN}{by} https://evil.test:{secure}/").exit_code == 6
        # another name in the hello than was connected to
        to = f"--connect-to evil.test:{secure}:a.test:{secure}"
        result = session.run(f"{PLAIN}{by} {to} https://evil.test:{secure}/")
        assert result.exit_code == 35
        assert ["the TLS hello names evil.test" in each.why for each in result.violations] == [True]
    assert {"a.test"} == set(machine.looked_up)
    told = {(entry.data["host"], entry.data["face"], entry.data["verdict"]) for entry in connections()}
    faces = ("connect", "http", "carried", "socks")
    assert {("a.test", face, "allow") for face in faces} | {("evil.test", "http", "deny")} <= told, told
    rules = {entry.data["rule"] for entry in connections() if entry.data["verdict"] == "allow"}
    assert rules == {"a.test"}
    runs = {entry.id: entry.data["command"] for entry in journal() if entry.kind == "run"}
    made = [entry for entry in connections() if entry.data["face"] != "resolver"]
    assert made and all("curl" in runs[entry.about or 0] for entry in made), made


SENDS = """
    import socket, sys
    host, port, data = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
    with socket.create_connection((host, port), 20) as sock:
        try:
            sock.sendall(data)
            while sock.recv(65536): pass
        except ConnectionError: pass
"""


def what_is_refused_after_connect_is_told(_: Machine) -> None:
    """Whatever names another host, or none that can be compared, is refused with a reason, and told."""
    hello = made_hello((0, server_name(b"evil.test")))
    with pages(True) as secure, pages(False) as plain, opened() as session:
        for port, sent, said in (
            (secure, hello, "the TLS hello names evil.test, but the connection is to a.test"),
            (secure, made_hello(), "has no server name"),
            (secure, made_hello((0, server_name(b"a.test")), (0xFE0D, b"x")), "hides a server name (ECH)"),
            (secure, hello[:1] + b"\2" + hello[2:], "its record has the major version 2"),
            (secure, b"\x80\x2e\1\3\1" + bytes(43), "it is an SSLv2 hello"),
            (plain, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 without TLS to a.test cannot be checked"),
            (plain, b"GET /\r\n", "does not begin with a line"),
            (plain, b"GET / RTSP/1.0\r\nHost: evil.test\r\n\r\n", "does not begin with a line"),
            (plain, b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "the Host header names another host"),
            (
                plain,
                b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n",
                "a PROXY-protocol header was sent to a.test",
            ),
        ):
            result = session.run(python(SENDS, "a.test", port, sent.hex()))
            assert result.exit_code == 0, result.stderr
            (violation,) = result.violations
            assert said in violation.why, violation
            assert (violation.operation, violation.path) == ("connect", f"a.test:{port}")
            assert not violation.grantable and not violation.remedy and not violation.origin
            told = connections()[-1].data
            assert (told["verdict"], told["face"], told["message"]) == ("deny", "carried", violation.why)
        result = session.run(python(SENDS, "198.18.0.1", 3128, b"GET /\r\n".hex()))
        assert [each.path for each in result.violations] == ["198.18.0.1:3128"], result.violations
    settings = Path("late.toml")
    settings.write_text('[network]\naccess = "rules"\nallow = ["a.test", "127.0.0.0/8"]\n')
    with pages(True) as secure:
        line = python(SENDS, "a.test", secure, hello.hex())
        run = [sys.executable, "-m", "pinfold", "run", "--settings", str(settings), "-c", line]
        done = subprocess.run(run, capture_output=True, text=True)
    assert f"a.test:{secure}: the TLS hello names evil.test" in done.stderr, done.stderr


def sockets_that_drop_the_answer(_: Machine) -> None:
    """An option of its own keeps a program's connect from ever being done: nobody else waits for it."""
    deaf = """
        import socket, sys, threading
        host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        def connect():
            sock = socket.socket()
            sock.setsockopt(socket.IPPROTO_IP, 21, 255)  # IP_MINTTL: what came by a router is dropped
            before = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16)
            print(sock.connect_ex((host, port)), flush=True)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16) == before
        threads = [threading.Thread(target=connect) for _ in range(count)]
        for thread in threads: thread.start()
        open("begun", "w").close()
        for thread in threads: thread.join()
    """
    hearing = """
        import os, socket, sys, time
        start = time.monotonic()
        for number in range(20):
            open(f"made{number}", "w").close()
            with socket.create_connection((sys.argv[1], int(sys.argv[2])), None) as sock: pass
        print(time.monotonic() - start)
    """
    with banner() as port, opened() as session:
        for host, at in (("198.18.0.1", 3128), ("a.test", port)):
            running = session.start(python(deaf, host, at, 50))
            wait_until(lambda: os.path.exists("begun"))
            os.unlink("begun")
            took = float(fine(session, python(hearing, host, at)))
            assert took < 60, (host, took)
            result = running.wait()
            assert result.stdout.split() == [str(errno.ECONNREFUSED)] * 50, (result.stdout, result.stderr)


LOST = """
    import time
    began, lost, quick = time.monotonic(), 0, 0
    while (now := time.monotonic()) < began + 1.2 or quick < 20:
        open("made", "w").close()
        took = time.monotonic() - now
        if took > 0.2: lost += took
        else: quick += 1
    print(lost / (time.monotonic() - began))
"""
"""Which part of the time others wait for calls that the warden answers. A busy machine takes half of it at
times; a warden that is kept takes all of it."""
MOST_LOST = 0.9


def sockets_whose_flags_change_meanwhile(_: Machine) -> None:
    """A program changes how its socket waits while it is connected: nobody else waits for that."""
    code = """
        import fcntl, os, signal, socket, struct, sys, time
        host, port, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            sock = socket.socket()
            sock.setsockopt(socket.IPPROTO_IP, 21, 255)
            flags = fcntl.fcntl(sock, fcntl.F_GETFL)
            none = struct.pack("@ll", 0, 0)
            changer = os.fork()
            while not changer:
                if how == "flags":
                    fcntl.fcntl(sock, fcntl.F_SETFL, flags | os.O_NONBLOCK)
                    fcntl.fcntl(sock, fcntl.F_SETFL, flags)
                else:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, none)
            sock.connect_ex((host, port))
            sock.close()
            os.kill(changer, signal.SIGKILL)
            os.waitpid(changer, 0)
    """
    with banner() as port, opened() as session:
        for host, at in (("198.18.0.1", 3128), ("a.test", port)):
            for how in ("flags", "timeout"):
                running = session.start(python(code, host, at, how), timeout=60)
                lost = float(fine(session, python(LOST)))
                assert lost < MOST_LOST, (host, how, lost)
                assert not running.wait().timed_out


def sockets_that_linger(_: Machine) -> None:
    """Who closes a socket last may have to wait for its other side: that is never for all others to do."""
    code = """
        import os, signal, socket, struct, sys, time
        how, end = sys.argv[1], time.monotonic() + 1.5
        server = socket.socket()
        server.bind(("127.0.0.1", 0))
        server.listen(100)
        while time.monotonic() < end:
            sock = socket.create_connection(server.getsockname())
            other, _ = server.accept()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30))
            sock.setsockopt(socket.IPPROTO_IP, 21, 255)  # IP_MINTTL: it never hears that its end was heard
            child = os.fork()
            while not child:
                try:
                    sock.bind(("127.0.0.1", 0)) if how == "bind" else sock.connect(("198.18.0.1", 3128))
                except OSError:
                    pass
            sock.close()
            time.sleep(0.002)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    """
    with opened() as session:
        for how in ("bind", "connect"):
            running = session.start(python(code, how), timeout=60)
            lost = float(fine(session, python(LOST)))
            assert lost < MOST_LOST, (how, lost)
            assert not running.wait().timed_out


def plain_sockets(_: Machine) -> None:
    """Programs that know no proxy: blocking, not blocking, IPv6 sockets, low ports and their own options."""
    code = """
        import asyncio, errno, socket, sys, select, urllib.request
        port, web = int(sys.argv[1]), sys.argv[2]
        with socket.create_connection(("a.test", port), None) as sock:
            assert sock.recv(8) == b"WELCOME\\n"
            host, at = sock.getpeername()
            assert (host, at) == (socket.gethostbyname("a.test"), port), (host, at)
            sock.sendall(b"x" * 100000)
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while data := sock.recv(65536): got += data
            assert len(got) == 100000
        with socket.socket(socket.AF_INET6) as sock:
            sock.connect(("::ffff:" + host, port))
            assert sock.recv(8) == b"WELCOME\\n" and sock.getpeername()[1] == port
        with socket.create_connection(("a.test", port), 10) as sock:
            assert sock.recv(8) == b"WELCOME\\n"
        with socket.socket() as sock:
            sock.setblocking(False)
            said = sock.connect_ex((host, port))
            assert said == errno.EINPROGRESS, said
            select.select([], [sock], [], 10)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            assert sock.connect_ex((host, port)) in (0, errno.EISCONN)
            assert sock.connect_ex((host, port)) == errno.EISCONN
            select.select([sock], [], [], 10)
            assert sock.recv(8) == b"WELCOME\\n"
        with socket.socket() as sock, socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("0.0.0.0", port)); server.listen()
            sock.connect((host, port))
            assert sock.recv(8) == b"WELCOME\\n"
        async def main():
            async def one():
                reader, writer = await asyncio.open_connection("a.test", port)
                assert await reader.readline() == b"WELCOME\\n"
                writer.write(b"ping"); assert await reader.readexactly(4) == b"ping"
                writer.close()
            await asyncio.gather(*(one() for _ in range(200)))
        asyncio.run(main())
        print(urllib.request.urlopen(web).read().decode())
    """
    with banner() as port, pages(False) as web, opened() as session:
        assert "hello from a.test" in fine(session, python(code, port, f"http://a.test:{web}/"))


def streams_come_in_large_pieces(_: Machine) -> None:
    """Half a megabyte at once over the session's loopback, where a new one has 64 kB."""
    code = """
        import socket, struct
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as link:
            link.send(struct.pack("=IHHIIBxHiII", 32, 18, 1, 1, 0, 0, 0, 1, 0, 0))
            print(struct.pack("=HHI", 8, 41, 524280) in link.recv(65536))
    """
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 3):
        raise SkipError("this kernel has smaller pieces")
    with opened() as session:
        assert fine(session, python(code)) == "True\n"


def many_at_once(_: Machine) -> None:
    code = """
        import socket, sys, threading
        port, wrong = int(sys.argv[1]), []
        def one():
            try:
                with socket.create_connection(("a.test", port)) as sock:
                    assert sock.recv(8) == b"WELCOME\\n"
                    sock.sendall(b"ping"); assert sock.recv(4) == b"ping"
            except Exception as error: wrong.append(repr(error))
        threads = [threading.Thread(target=one) for _ in range(200)]
        [thread.start() for thread in threads]; [thread.join() for thread in threads]
        print(len(wrong), wrong[:1])
    """
    with banner() as port, opened() as session:
        said = fine(session, python(code, port))
        assert said == "0 []\n", said


def what_a_command_connects_to_leaves_the_journal_as_it_is(_: Machine) -> None:
    """Its line is written once, and what it repeats is counted."""
    code = """
        import socket, sys
        # FILLER
        for _ in range(int(sys.argv[2])):
            with socket.create_connection(("a.test", int(sys.argv[1]))) as sock:
                sock.recv(8)
    """.replace("FILLER", "x" * 8000)
    grown = []
    with banner() as port:
        for count in (20, 1030):
            before = _journaled()
            with opened() as session:
                fine(session, python(code, port, count))
            grown.append(_journaled() - before)
        told = [entry.data["times"] for entry in connections() if entry.data["face"] == "carried"]
    assert grown[1] < grown[0] + 8000, grown
    assert max(told) == 1024 and len(told) == 5 + 11, told
    assert all(entry.about and "command" not in entry.data for entry in connections() if entry.data["tag"])


def _journaled() -> int:
    files = Path("~/.local/state/pinfold").expanduser().glob("journal*")
    return sum(each.stat().st_size for each in files)


def node(_: Machine) -> None:
    by = program("node")
    code = "fetch(process.argv[1]).then(r => r.text()).then(console.log, e => console.log(e.cause.code))"
    with pages(True) as secure, opened() as session:
        told = f"NODE_EXTRA_CA_CERTS={os.getcwd()}/ca.pem {by} -e '{code}' "
        assert "hello from a.test" in fine(session, f"{PLAIN}{told} https://a.test:{secure}/")
        assert "ENOTFOUND" in fine(session, f"{PLAIN}{told} https://evil.test:{secure}/")


def git(_: Machine) -> None:
    by = program("git")
    subprocess.run([by, "init", "-q", "--bare", "files/r.git"], check=True)
    subprocess.run([by, "-C", "files/r.git", "config", "http.receivepack", "true"], check=True)
    who = "-c user.name=n -c user.email=e"
    with pages(True) as secure, opened() as session:
        for number, way in enumerate(("", PLAIN)):
            where = f"/tmp/clone{number}"
            env = f"{way or 'env '}GIT_SSL_CAINFO={os.getcwd()}/ca.pem {by}"
            fine(session, f"{env} clone -q https://git.test:{secure}/r.git {where}")
            fine(session, f"cd {where} && {by} {who} commit -q --allow-empty -m one")
            fine(session, f"cd {where} && {env} push -q origin HEAD:b{number} && {env} fetch -q")
    faces = {entry.data["face"] for entry in connections() if entry.data["host"] == "git.test"}
    assert faces == {"connect", "carried"}


def an_address_by_rule(_: Machine) -> None:
    """127.0.0.2 is the session's own loopback; an address outside is reached by a rule that names it."""
    with banner("") as port, opened(allow=(ADDRESS,)) as session:
        code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(8)"
        fine(session, python(code, ADDRESS, port))
        result = session.run(python(code, "127.0.0.1", port))
        assert "ConnectionRefusedError" in result.stderr
        assert [each.path for each in result.violations] == [f"localhost:{port}"], (
            "this machine's is no other"
        )
        result = session.run(python(code, "203.0.113.8", port))
        assert "ConnectionRefusedError" in result.stderr
        (found,) = result.violations
        assert (found.operation, found.path) == ("connect", f"203.0.113.8:{port}"), found
        result = session.run(python(code, "2606:4700:4700::1111", port))
        assert "ConnectionRefusedError" in result.stderr
        assert result.violations[0].path == f"[2606:4700:4700::1111]:{port}", result.violations


def an_address_of_ipv6_by_rule(_: Machine) -> None:
    """Whether or not the connect waits, and by the name that the program used."""
    if not os.path.exists("/proc/net/if_inet6"):
        raise SkipError("this machine has no IPv6")
    code = """
        import socket, sys
        with socket.socket(socket.AF_INET6) as sock:
            sock.settimeout(float(sys.argv[3]) or None)
            sock.connect((sys.argv[1], int(sys.argv[2])))
            assert sock.getpeername()[:2] == (sys.argv[1], int(sys.argv[2])), sock.getpeername()
            print(sock.recv(8).decode().strip())
    """
    with banner("::") as port, opened(allow=(SIXTH,)) as session:
        for patience in (0, 20):
            assert fine(session, python(code, SIXTH, port, patience)) == "WELCOME\n"


def new_rules_count_at_once(_: Machine) -> None:
    """A host that was reached is not any more, by the same program, once a file or the person says so."""
    code = """
        import os, socket, sys, time
        def reach():
            try: socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
            except OSError: return "no"
            return "yes"
        print(*(reach() for _ in range(4)), flush=True)
        open("ready", "w").close()
        while not os.path.exists("go"): time.sleep(0.01)
        print(reach())
    """
    written = Path("../home/rules.toml").absolute()
    rules = f'[network]\naccess = "rules"\nallow = ["{ADDRESS}"]\n'
    ways: tuple[Callable[[pinfold.Session], object], ...] = (
        lambda _: written.write_text(f'{rules}deny = ["{ADDRESS}"]\n'),
        lambda session: session.change({"network": {"deny": [ADDRESS]}}),
        lambda _: written.write_text('[network]\naccess = "rules"\nallow = ["other.example"]\n'),
    )
    for way in ways:
        written.write_text(rules)
        with banner("") as port, pinfold.Session([os.getcwd()], settings=str(written)) as session:
            said: list[str] = []
            line = python(code, ADDRESS, port)
            thread = threading.Thread(target=lambda line=line, said=said: said.append(fine(session, line)))
            thread.start()
            wait_until(Path("ready").exists)
            way(session)
            Path("go").touch()
            thread.join()
        assert said == ["yes yes yes yes\nno\n"], said
        for name in ("ready", "go"):
            Path(name).unlink()


# What does not


def no_name_no_packet(machine: Machine) -> None:
    """Whatever a program tries: nothing appears on the machine's own network."""
    code = """
        import ctypes, socket, sys
        def tried(name, action):
            try: said = action()
            except OSError as error: said = type(error).__name__
            print(name, said)
        def datagram(host, port, family=socket.AF_INET):
            with socket.socket(family, socket.SOCK_DGRAM) as sock: sock.sendto(b"secret", (host, port))
        def raw(*kind):
            with socket.socket(*kind) as sock: sock.sendto(b"secret", ("203.0.113.9", 0))
        def early():
            with socket.socket() as sock: sock.sendto(b"secret", 0x20000000, ("203.0.113.9", 80))
        for host in ("203.0.113.9", "127.0.0.1", "127.0.0.53", "10.0.0.1", "169.254.169.254", "224.0.0.251",
                     "2606:4700::1"):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            for port in (53, 80, 443, int(sys.argv[1])):
                tried(("tcp", host, port), lambda: socket.create_connection((host, port), 2).recv(1))
                if host != "127.0.0.1" and port == 53: continue
                tried(("udp", host, port), lambda: datagram(host, port, family))
        tried("raw", lambda: raw(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
        tried("ping", lambda: raw(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP))
        tried("packet", lambda: raw(socket.AF_PACKET, socket.SOCK_RAW, 3))
        tried("early", early)
        for name in ("evil.test", "secret.evil.test", "c2VjcmV0.a.test", "xn--a", "a" * 63 + ".test"):
            tried(name, lambda: socket.getaddrinfo(name, 443))
    """
    with banner("") as port:
        for access, allow in (("rules", ("a.test",)), ("none", ALLOWED), ("rules", ())):
            with opened(access, allow) as session:
                machine.packets()
                said = fine(session, python(code, port))
                assert machine.packets() == [], said
                for line in said.splitlines():
                    kind = line.split("'")[1] if "'" in line else line.split()[0]
                    assert not line.endswith("None") or kind == "udp", line
    assert machine.looked_up == []


def without_network(_: Machine) -> None:
    """A pen without network beside one that has it, in one session."""
    code = """
        import os, socket, sys
        assert os.environ["PINFOLD_PEN_NETWORK"] == sys.argv[2]
        for host, port in (("203.0.113.9", 80), ("198.18.0.1", 3128), ("198.18.1.0", int(sys.argv[1]))):
            with socket.socket() as sock:
                print(sock.connect_ex((host, port)))
    """
    with banner() as port, opened("all") as session:
        line = python(code, port, 1)
        assert fine(session, f"{PLAIN} {PYTHON} -c 'import socket; print(socket.gethostbyname(\"a.test\"))'")
        assert fine(session, line).split()[1:] == ["0", "0"]
        request = pinfold.RunCommand(python(code, port, 0), policy=SandboxPolicy(network_access=False))
        result = session.run(request)
        assert result.stdout.split() == ["101", "111", "101"], (result.stdout, result.stderr)
        assert "no network" in result.violations[0].why
        assert (
            "proxy"
            not in session.run(
                pinfold.RunCommand("env", policy=SandboxPolicy(network_access=False))
            ).stdout.lower()
        )
        assert fine(session, line).split()[1:] == ["0", "0"]


def names_that_are_refused_are_told(machine: Machine) -> None:
    """To the command that asked, whether or not there is a gate; what works tells nothing."""
    by = f"{PLAIN}{program('curl')} -sS -m 20"
    for access, allow, remedy in (
        ("none", ALLOWED, 'set `network.access = "ask"`'),
        ("rules", (), "add the host to `network.allow`"),
        ("rules", ALLOWED, "add `evil.test` to `network.allow`"),
    ):
        with pages(False) as web, opened(access, allow) as session:
            result = session.run(f"{by} http://evil.test:{web}/")
            assert result.exit_code == 6, result
            (told,) = result.violations
            assert told.remedy == remedy, told
            what = (
                ("connect", "evil.test") if len(allow) and access == "rules" else ("resolve", "127.0.0.53:53")
            )
            assert (told.operation, told.path) == what, told
            if access == "rules" and allow:
                result = session.run(f"{by} http://a.test:{web}/")
                assert result.exit_code == 0 and not result.violations, result
                both = session.run(f"{by} http://a.test:{web}/; sh -c '{by} http://secret.evil.test:{web}/'")
                assert [each.path for each in both.violations] == ["secret.evil.test"]
    assert set(machine.looked_up) == {"a.test"}


def nameservers_of_ipv6_are_heard(_: Machine) -> None:
    """Of IPv6 addresses datagrams reach these alone; see `datagrams_make_no_neighbours`."""
    Path("../home/resolv.conf").write_text("nameserver 2001:db8::53\n")  # which is this machine's
    with opened() as session:
        result = session.run(f"{PLAIN}{program('curl')} -sS -m 20 http://evil.test/")
        assert [(told.operation, told.path) for told in result.violations] == [("connect", "evil.test")], (
            result
        )


# Asking

CONNECT = """
    import socket, sys
    host, port, *more = sys.argv[1:]
    for _ in range(2):
        try:
            with socket.create_connection((host, int(port)), float(more[0]) if more else None) as sock:
                open("connected", "w").close()
                print(sock.recv(8).decode().strip())
        except OSError as error:
            print(type(error).__name__)
"""


def asked_and_answered(_: Machine) -> None:
    allow = ("127.0.0.0/8",)
    for answer, said in ((pinfold.Answer.ONCE, "WELCOME"), (pinfold.Answer.NO, "ConnectionRefusedError")):
        person = Says(answer)
        with banner() as port, opened("ask", allow, approvers=[person]) as session:
            result = session.run(python(CONNECT, "a.test", port))
            assert result.stdout.split() == [said, said], (result.stdout, result.stderr, result.violations)
            (question,) = person.asked
            assert (question.capability, question.host, question.port) == ("connect", "a.test", port)
            assert "a.test" in question.command
            refused = [(each.answered, each.why) for each in result.violations]
            why = f"a.test:{port} is not in `network.allow`; a test said no"
            assert refused == ([] if said == "WELCOME" else [("a test said no", why)])
            session.run(python(CONNECT, "a.test", port))
            assert len(person.asked) == 2  # once is for one command
    with banner() as port, opened("ask", allow) as session:
        result = session.run(python(CONNECT, "a.test", port))
        assert result.stdout.split() == ["ConnectionRefusedError"] * 2
        why = f"a.test:{port} is not in `network.allow`; {NOBODY.by}"
        assert [(each.why, each.remedy, each.answered) for each in result.violations] == [
            (why, f"add `a.test:{port}` to `network.allow`", "")
        ]


def a_command_asks_for_so_many_hosts_and_no_more(_: Machine) -> None:
    many = """
        import socket, sys
        for number in range(70):
            try:
                socket.create_connection((f"h{number}.test", int(sys.argv[1])), 20).close()
            except OSError as error:
                print(type(error).__name__)
    """
    person = Says(pinfold.Answer.NO)
    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        result = session.run(python(many, port))
        assert len(person.asked) == MOST_ASKED, (len(person.asked), result.stdout, result.stderr)
        beyond = [each.path for each in result.violations if ASKED_ENOUGH in each.why]
        assert beyond == [f"h{number}.test:{port}" for number in range(MOST_ASKED, 70)], result.violations
        session.run(python(CONNECT, "a.test", port))
        assert len(person.asked) == MOST_ASKED + 1  # the next one is another command


def several_hosts_are_asked_about_at_a_time(_: Machine) -> None:
    """Whoever takes their time with one answer keeps no other question from being seen; but few stand."""
    many = """
        import socket, sys, threading
        def one(number):
            try:
                socket.create_connection((f"h{number}.test", int(sys.argv[1]))).close()
            except OSError: pass
        threads = [threading.Thread(target=one, args=(number,)) for number in range(int(sys.argv[2]))]
        [thread.start() for thread in threads]; [thread.join() for thread in threads]
    """
    together = threading.Barrier(MOST_OPEN)
    standing: list[str] = []
    most: list[int] = []

    def person(question: pinfold.PermissionNeeded) -> pinfold.Answer:
        standing.append(question.host)
        most.append(len(standing))
        together.wait(PATIENCE)
        standing.remove(question.host)
        return pinfold.Answer.NO

    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        result = session.run(python(many, port, 2 * MOST_OPEN))
    assert len(most) == 2 * MOST_OPEN and max(most) == MOST_OPEN and not together.broken, (most, result)


def who_gives_up_a_host_leaves_no_question_waiting_its_turn(_: Machine) -> None:
    """While as many questions stand as may, a program could else give up one host after another for good."""
    many = """
        import os, signal, socket, sys, time
        def one(number):
            if pid := os.fork(): return pid
            try: socket.create_connection((f"h{number}.test", int(sys.argv[1])))
            except OSError: pass
            os._exit(0)
        for number in range(int(sys.argv[2])):
            one(number)
        while not os.path.exists("all-stand"): time.sleep(0.01)
        behind = [one(100 + number) for number in range(int(sys.argv[2]))]
        while not os.path.exists("give-up"): time.sleep(0.01)
        for pid in behind: os.kill(pid, signal.SIGKILL)
        time.sleep(1000)
    """
    seen = threading.Event()

    def person(_question: pinfold.PermissionNeeded) -> pinfold.Answer:
        seen.wait(PATIENCE)
        return pinfold.Answer.NO

    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        asking: Any = session.desk.calls

        def wait_for_asking(number: int) -> None:
            def waited_for() -> int:
                askers = list(asking._askers.values())
                return sum(bool(each.waiting) for asker in askers for each in [*asker.questions.values()])

            wait_until(lambda: waited_for() == number)
            assert sum(each.name == "pinfold-asking" for each in threading.enumerate()) == MOST_OPEN

        execution = session.start(python(many, port, MOST_OPEN))
        wait_for_asking(MOST_OPEN)
        Path("all-stand").touch()
        wait_for_asking(2 * MOST_OPEN)
        Path("give-up").touch()
        wait_for_asking(MOST_OPEN)
        seen.set()
        execution.cancel()
        execution.wait()


def an_answer_about_a_host_lasts_as_it_says(_: Machine) -> None:
    settings = os.path.expanduser("~/settings.toml")
    with open(settings, "w") as file:
        file.write('[network]\naccess = "ask"  # mine\nallow = ["127.0.0.0/8"]\n')
    session_alone, any_command = pinfold.Answer.SESSION, pinfold.Reach.TARGET
    with ExitStack() as listening:  # all of them, so that none gets a port that an answer was given for
        for answer, same, another, later in (
            (pinfold.Answer.ONCE, 2, 3, 4),
            (session_alone, 1, 2, 3),
            (pinfold.Reply(session_alone, any_command), 1, 1, 2),
            (pinfold.Answer.ALWAYS, 1, 2, 2),
            (pinfold.Reply(pinfold.Answer.ALWAYS, any_command), 1, 1, 1),
            (pinfold.Answer.RULE, 1, 1, 1),
        ):
            person = Says(answer)
            port = listening.enter_context(banner())
            line, other = python(CONNECT, "a.test", port), python(CONNECT, "a.test", port, 20)
            given: dict[str, Any] = {"settings": settings, "approvers": [person]}
            with pinfold.Session([os.getcwd()], **given) as session:
                for command, asked in ((line, 1), (line, same), (other, another)):
                    assert session.run(command).stdout.split() == ["WELCOME"] * 2
                    assert len(person.asked) == asked, (answer, command, len(person.asked))
            with pinfold.Session([os.getcwd()], **given) as session:
                assert session.run(line).stdout.split() == ["WELCOME"] * 2
                assert len(person.asked) == later, (answer, len(person.asked))
    with open(settings) as file:
        assert file.read() == (
            f'[network]\naccess = "ask"  # mine\nallow = ["127.0.0.0/8", "a.test:{port}"]\n'
        )


class Waits:
    """An approver that takes its time."""

    name = "a slow test"

    def __init__(self, answer: pinfold.Answer) -> None:
        self.answer, self.asked, self.go = answer, threading.Event(), threading.Event()

    def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer:
        self.asked.set()
        self.go.wait(60)
        return self.answer


def a_question_holds_the_connection(_: Machine) -> None:
    """A program that waits in connect waits on; one that does not block goes on, and is reset by a no."""
    for answer, waits, goes_on in (
        (pinfold.Answer.ONCE, "WELCOME", "WELCOME"),
        (pinfold.Answer.NO, "ConnectionRefusedError", "ConnectionResetError"),
    ):
        for patience, said in ((), waits), ((20,), goes_on):
            person = Waits(answer)
            with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
                execution = session.start(python(CONNECT, "a.test", port, *patience))
                assert person.asked.wait(PATIENCE)
                if patience:
                    wait_until(lambda: os.path.exists("connected"))
                else:
                    time.sleep(1)
                    assert not os.path.exists("connected")
                person.go.set()
                result = execution.wait()
                assert result.stdout.split()[0] == said, (said, result.stdout, result.stderr)
            Path("connected").unlink(missing_ok=True)


def many_that_wait_leave_descriptors_to_others(_: Machine) -> None:
    """Whoever would not wait for an answer holds a connection meanwhile."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    code = """
        import errno, socket, sys, threading
        host, said = socket.gethostbyname("a.test"), []
        def connect():
            for _ in range(30):
                sock = socket.socket()
                sock.setblocking(False)
                said.append(sock.connect_ex((host, int(sys.argv[1]))))
                kept.append(sock)
        kept = []
        threads = [threading.Thread(target=connect) for _ in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(*{errno.errorcode[each] for each in said})
    """
    person = Waits(pinfold.Answer.NO)
    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        assert set(fine(session, python(code, port)).split()) == {"EINPROGRESS", "EAGAIN"}
        fine(session, "for name in a b c; do echo x > $name && mv $name $name.x; done")
        person.go.set()


def one_command_leaves_others_connects_that_wait(_: Machine) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    code = """
        import errno, os, socket, sys, time
        host, kept = socket.gethostbyname("a.test"), []
        for _ in range(int(sys.argv[2])):
            sock = socket.socket()
            sock.setblocking(False)
            said = errno.errorcode[sock.connect_ex((host, int(sys.argv[1])))]
            kept.append(sock)
        print(said)
        open(f"full-{sys.argv[2]}", "x").close()
        while not os.path.exists("go"): time.sleep(0.02)
    """
    person = Waits(pinfold.Answer.NO)
    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        greedy = session.start(python(code, port, 400))
        wait_until(lambda: os.path.exists("full-400"))
        other = session.start(python(code, port, 1))
        wait_until(lambda: os.path.exists("full-1"))
        Path("go").touch()
        assert (greedy.wait().stdout, other.wait().stdout) == ("EAGAIN\n", "EINPROGRESS\n")
        person.go.set()


def a_command_that_waits_can_be_ended(_: Machine) -> None:
    person = Waits(pinfold.Answer.ONCE)
    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        execution = session.start(python(CONNECT, "a.test", port))
        assert person.asked.wait(PATIENCE)
        threading.Timer(0.1, execution.cancel).start()
        assert execution.wait().cancelled
        wait_until(lambda: any("stopped waiting" in entry.data["message"] for entry in connections()))
        person.go.set()


def what_a_command_did_not_wait_for_was_refused_it(_: Machine) -> None:
    """By the proxy, by a connect that does not block and by one that does: the command's result tells it, and
    the question is taken back, so that the next one is asked."""
    by = f"{program('curl')} -sS"
    person = Waits(pinfold.Answer.NO)
    with opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        for line, where in (
            (f"{by} https://a.test:5/", "a.test:5"),
            (f"{PLAIN} {by} http://b.test:6/", "b.test:6"),
            (python(CONNECT, "c.test", 7), "c.test:7"),
        ):
            ended_then = "until test -e asked; do sleep 0.02; done; kill -KILL $!; wait"
            execution = session.start(f"{line} & {ended_then}")
            assert person.asked.wait(PATIENCE), line
            person.asked.clear()
            Path("asked").touch()
            result = execution.wait()
            Path("asked").unlink()
            told = [(each.path, "stopped waiting" in each.why) for each in result.violations]
            assert told == [(where, True)], (line, result.stderr, result.violations)
        assert [entry.data["host"] for entry in connections()] == ["a.test", "b.test", "c.test"]
        person.go.set()


def what_a_command_left_running_may_wait_on(_: Machine) -> None:
    person = Waits(pinfold.Answer.ONCE)
    with pages(False) as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        line = f"{program('curl')} -sS -m 30 -o got http://a.test:{port}/ >/dev/null 2>&1 &"
        execution = session.start(f"{line} until test -e go; do sleep 0.02; done")
        assert person.asked.wait(PATIENCE)
        Path("go").touch()
        assert not execution.wait().violations
        person.go.set()
        wait_until(lambda: os.path.exists("got") and "hello" in Path("got").read_text())


def a_host_that_was_granted_once_is_closed_when_the_run_has_ended(_: Machine) -> None:
    """A connection that is open stays; what the command left running is asked about for each further one."""
    left = """
        import os, socket, sys, time
        where = sys.argv[1], int(sys.argv[2])
        kept = socket.create_connection(where)
        if os.fork():
            sys.exit()
        for turn in "12":
            while not os.path.exists(f"go{turn}"): time.sleep(0.02)
            # Without a time limit, which would make it one that is told yes after a moment and reset later.
            try: told = socket.create_connection(where).recv(8).decode()
            except OSError as error: told = type(error).__name__
            if turn == "2": told += kept.recv(8).decode()
            with open(f"told{turn}.new", "w") as file: file.write(told)
            os.rename(f"told{turn}.new", f"told{turn}")
    """
    person = Says(pinfold.Answer.ONCE)
    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        assert session.run(f"{python(left, 'a.test', port)} >/dev/null 2>&1").exit_code == 0
        assert len(person.asked) == 1
        for turn, answer in ((1, pinfold.Answer.ONCE), (2, pinfold.Answer.NO)):
            person.answer = answer
            Path(f"go{turn}").touch()
            wait_until(Path(f"told{turn}").exists)
            assert len(person.asked) == 1 + turn
            assert "has ended" in person.asked[-1].decision.reasons[-1].message
        told = [Path(f"told{turn}").read_text().split() for turn in (1, 2)]
        assert told == [["WELCOME"], ["ConnectionRefusedErrorWELCOME"]], told


def an_answer_for_one_command_is_not_for_another_that_waits_beside_it(_: Machine) -> None:
    person = Waits(pinfold.Answer.ONCE)
    asked: list[str] = []

    def answer(question: pinfold.PermissionNeeded) -> pinfold.Answer:
        asked.append(question.command)
        return person(question) if len(asked) == 1 else pinfold.Answer.NO

    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[answer]) as session:
        lines = [python(CONNECT, "a.test", port, 20), python(CONNECT, "a.test", port, 30)]
        first = session.start(lines[0])
        assert person.asked.wait(PATIENCE)
        second = session.start(f"touch begun; {lines[1]}")
        wait_until(lambda: os.path.exists("begun"))
        time.sleep(1)  # it waits where nothing tells of it
        person.go.set()
        assert first.wait().stdout.split() == ["WELCOME"] * 2
        told = second.wait().stdout.split()
        assert "WELCOME" not in told and len(set(asked)) == 2, (told, asked)


def a_signal_ends_the_wait(_: Machine) -> None:
    code = """
        import signal, socket, sys
        def caught(*_): raise SystemExit(7)
        signal.signal(signal.SIGINT, caught)
        socket.create_connection((sys.argv[1], int(sys.argv[2])))
    """
    person = Waits(pinfold.Answer.ONCE)
    with banner() as port, opened("ask", ("127.0.0.0/8",), approvers=[person]) as session:
        execution = session.start(
            f"({python(code, 'a.test', port)}\n) & "
            "until test -e go; do sleep 0.02; done; pkill -INT -f /tmp/p; wait $!"
        )
        assert person.asked.wait(PATIENCE)
        Path("go").touch()
        assert execution.wait().exit_code == 7
        person.go.set()


# Death


def gate_death_closes(_: Machine) -> None:
    code = """
        import socket, sys
        port = int(sys.argv[1])
        with socket.create_connection(("a.test", port)) as sock:
            assert sock.recv(8) == b"WELCOME\\n"
            host = sock.getpeername()[0]
            print(host, flush=True)
            sys.stdin.readline()
            try: print(repr(sock.recv(1)))
            except ConnectionError as error: print(type(error).__name__)
        for target in (host, port), ("198.18.0.1", 3128), ("203.0.113.9", 80):
            with socket.socket() as sock: print(sock.connect_ex(target))
        try: print(socket.gethostbyname("a.test"))
        except OSError as error: print("no name")
    """
    with banner() as port:
        with opened() as session:
            reading, writing = os.pipe()
            execution = session.start(python(code, port), stdin=reading)
            said = b""
            for event in execution.events():
                if isinstance(event, pinfold.Output):
                    said += event.data
                    if said.count(b"\n") == 1:
                        kill(gate_of(session))
                        os.write(writing, b"go\n")
            os.close(writing)
            os.close(reading)
            _host, broke, *refused, name = said.decode().split("\n")[:-1]
            assert broke in ("b''", "ConnectionResetError"), said
            assert refused == ["111", "111", "111"] and name == "no name", said
            assert any("gate process has ended" in violation.why for violation in execution.violations)
            # Whoever hears of the gate's end tells it by itself.
            wait_until(lambda: any("gate" in trouble for trouble in session.ledger.troubles))
        with opened() as session:
            assert "WELCOME" in fine(session, python(CONNECT, "a.test", port))


def the_gate_ends_with_its_session(_: Machine) -> None:
    with banner() as port:
        with opened() as session:
            fine(session, "true")
            assert session.sandboxes._outside._gatehouse is None  # type: ignore[attr-defined]
            fine(session, python(CONNECT, "a.test", port))
            gate = gate_of(session)
            os.kill(gate, 0)
        assert not Path(f"/proc/{gate}").exists()
        # and with a host that is killed
        code = (
            "import os, time, tests.session.probes.hosts as o\n"
            "session = o.opened()\n"
            f"o.fine(session, o.python(o.CONNECT, 'a.test', {port}))\n"
            "print(o.gate_of(session), flush=True)\n"
            "time.sleep(60)\n"
        )
        host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert host.stdout is not None
        gate = int(host.stdout.readline())
        host.kill()
        host.wait()
        host.stdout.close()
        wait_until(lambda: not is_alive(gate))


def main_of(found: dict[str, Any], name: str) -> int:
    """Runs a probe of a module on a machine of its own; what to exit with."""
    try:
        machine = Machine()
    except OSError as error:
        print(f"this user may not make namespaces: {error}")
        return 77
    try:
        found[name](machine)
    except SkipError as skip:
        print(skip)
        return 77
    return 0


PROBES = probes_of(globals(), "opened", "fine", "python", "connections", "gate_of", "main_of")

if __name__ == "__main__":
    sys.exit(main_of(globals(), sys.argv[1]))
