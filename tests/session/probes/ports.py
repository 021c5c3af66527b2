"""What holds of ports and sockets across the fence, both ways, and of who may close them: each function runs
in a child, as root and as another user.

Run one by hand, in a directory of your own beside a `home`:
`python -m tests.session.probes.ports NAME`.
"""

import os
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pinfold
from pinfold.model.policy import SandboxPolicy
from tests.network.probes.programs import free_port, pages, program
from tests.patience import wait_until
from tests.probe_module import PYTHON, probes_of
from tests.session.fake_internet import Machine, banner
from tests.session.probes.hosts import PLAIN, connections, fine, gate_of, main_of, python
from tests.session.probes.run import Says, journal


def opened(given: dict[str, Any] | None = None, **network: Any) -> pinfold.Session:
    settings = {"network": {"access": "none", **network}}
    return pinfold.Session([os.getcwd()], settings=settings, **(given or {}))


def heard(port: int, host: str = "127.0.0.1") -> bytes:
    with socket.create_connection((host, port), 10) as sock:
        return sock.recv(64)


def is_refused(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 10):
            return False
    except ConnectionResetError:  # it was closed with us at the door
        return False
    except ConnectionRefusedError:
        return True


SERVER = """
    import socket, sys
    family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
    with socket.create_server((sys.argv[1], int(sys.argv[2])), family=family) as server:
        print("ready", flush=True)
        while True:
            sock, peer = server.accept()
            with sock: sock.sendall(f"inside {peer[0]}".encode())
"""


@contextmanager
def served(session: pinfold.Session, port: int, host: str = "127.0.0.1") -> Iterator[None]:
    """A server inside, once it listens."""
    execution = session.start(python(SERVER, host, port))
    events = execution.events()
    said = b""
    while said != b"ready\n":
        event = next(events)
        assert isinstance(event, pinfold.Output), event
        said += event.data
    yield
    execution.cancel()


# In


def a_published_port_leads_in(_: Machine) -> None:
    port = free_port()
    with opened(publish=[port]) as session:
        assert is_refused(port), "it was there before any command was"
        fine(session, "true")
        with suppress(ConnectionResetError):  # nobody listens inside
            assert heard(port) == b""
        for host in ("127.0.0.1", "0.0.0.0", "::1", "::"):
            with served(session, port, host):
                said = heard(port)
                assert said in (b"inside 127.0.0.1", b"inside ::1", b"inside ::ffff:127.0.0.1"), said
                assert heard(port, "::1") == said
        told = [entry.data for entry in connections()]
        assert {each["face"] for each in told} == {"published"} and {each["port"] for each in told} == {port}
        assert {each["verdict"] for each in told} == {"allow", "deny"}
        gate = gate_of(session)
    assert is_refused(port) and not os.path.exists(f"/proc/{gate}")


def a_published_web_server_serves(_: Machine) -> None:
    port = free_port()
    with open("page", "wb") as file:
        file.write(os.urandom(3_000_000))
    with opened(publish=[port]) as session:
        execution = session.start(f"{PYTHON} -m http.server {port} --bind 127.0.0.1")

        def is_there() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=10) as answer:
                    return len(answer.read()) == 3_000_000
            except OSError:
                return False

        wait_until(is_there)
        execution.cancel()


def what_is_not_published_stays_inside(_: Machine) -> None:
    published, own = free_port(), free_port()
    with opened(publish=[published]) as session, served(session, own):
        assert is_refused(own)
    with opened() as session, served(session, published):
        assert is_refused(published)


def a_port_that_is_taken_is_told_and_had_later(_: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        session = opened(publish=[port])
        fine(session, "true; true")
        fine(session, "true")
        assert [trouble for trouble in session.notices if f"port {port} is not published" in trouble]
        assert len(session.ledger.troubles) == 1
    with session, served(session, port):
        assert heard(port) == b"inside 127.0.0.1"


def publishing_is_asked_for(_: Machine) -> None:
    """A call that wants a port published gets it from a person alone."""
    port = free_port()
    policy = SandboxPolicy(published_ports=(port,))
    for answer in (pinfold.Answer.NO, pinfold.Answer.ONCE):
        person = Says(answer)
        with opened({"approvers": [person]}) as session:
            result = session.run(pinfold.RunCommand("true", policy=policy))
            assert result.ran is (answer is pinfold.Answer.ONCE), result
            assert is_refused(port) is not result.ran
            assert str(port) in str(person.asked[0].decision.widening)


def a_port_that_is_withdrawn_leads_nowhere(_: Machine) -> None:
    """At once by the person's change, with the next connection by a changed file, the gate running or not."""
    written = Path("../home/rules.toml").absolute()
    for is_running in (False, True):
        port = free_port()
        with opened() as session, ExitStack() as stack:
            session.change({"network": {"publish": [port]}})
            fine(session, "true")
            if is_running:
                stack.enter_context(served(session, port))
                assert heard(port) == b"inside 127.0.0.1"
            session.change({"network": {"publish": []}})
            wait_until(partial(is_refused, port))
            session.change({"network": {"publish": [port]}})
            fine(session, "true")
            assert not is_refused(port)
        written.write_text(f"[network]\npublish = [{port}]\n")
        with pinfold.Session([os.getcwd()], settings=str(written)) as session, served(session, port):
            if is_running:
                assert heard(port) == b"inside 127.0.0.1"
            written.write_text("")
            with suppress(ConnectionResetError):
                assert heard(port) == b""
            wait_until(partial(is_refused, port))
    # what a person granted to a call stays the session's
    policy = SandboxPolicy(published_ports=(free_port(),))
    with opened({"approvers": [Says(pinfold.Answer.ONCE)]}) as session:
        assert session.run(pinfold.RunCommand("true", policy=policy)).ran
        session.change({"network": {"publish": []}})
        assert not is_refused(policy.published_ports[0])


def the_gate_takes_published_ports_with_it(_: Machine) -> None:
    port = free_port()
    with opened(publish=[port]) as session, served(session, port):
        assert heard(port) == b"inside 127.0.0.1"
        os.kill(gate_of(session), signal.SIGKILL)
        wait_until(lambda: is_refused(port))
        wait_until(lambda: any("gate" in trouble for trouble in session.ledger.troubles))


def a_session_that_outlives_its_keeper_has_its_network_again(_: Machine) -> None:
    code = "import socket, sys; print(socket.create_connection(('a.test', int(sys.argv[1]))).recv(7))"
    published = free_port()
    with banner() as port:
        allow = ["a.test", "127.0.0.0/8"]
        with opened(access="rules", allow=allow, publish=[published]) as session:
            assert "WELCOME" in fine(session, python(code, port))
            keeper = session.sandboxes.sandboxed().keeper.pid  # type: ignore[attr-defined]
            os.kill(keeper, signal.SIGKILL)
            wait_until(lambda: not session.sandboxes._pens or not session.sandboxes._pens.is_alive())
            assert "WELCOME" in fine(session, python(code, port))
            with served(session, published):
                assert heard(published) == b"inside 127.0.0.1"


# Out, to this machine's loopback


def a_granted_port_is_the_machines(_: Machine) -> None:
    """By number, whichever way loopback is spelled; every other port is the session's own."""
    code = """
        import socket, sys
        for host in ("127.0.0.1", "localhost", "0.0.0.0", "::1", "127.0.0.9"):
            for port in sys.argv[1:]:
                try:
                    with socket.create_connection((host, int(port))) as sock: print(sock.recv(7).decode())
                except OSError as error: print(type(error).__name__)
    """
    with banner() as granted, banner() as other:
        for rule in (f"localhost:{granted}", f"127.0.0.1:{granted}", f"127.0.0.0/8:{granted}"):
            with opened(access="rules", allow=[rule]) as session:
                said = fine(session, python(code, granted, other)).split()
                assert said == ["WELCOME", "ConnectionRefusedError"] * 5, (rule, said)
        with opened(access="rules", allow=["localhost", "127.0.0.0/8", "*.test"]) as session:
            said = fine(session, python(code, granted)).split()
            assert said == ["ConnectionRefusedError"] * 5, said
        with opened(access="none", allow=[f"localhost:{granted}"]) as session:
            assert fine(session, python(code, granted)).split() == ["ConnectionRefusedError"] * 5
        denied: dict[str, Any] = {"access": "rules", "allow": [f"localhost:{granted}"], "deny": ["127.0.0.1"]}
        with opened(**denied) as session:
            assert "WELCOME" not in fine(session, python(code, granted))
    told = {(entry.data["host"], entry.data["rule"]) for entry in connections()}
    assert {("localhost", f"localhost:{granted}"), ("127.0.0.1", f"127.0.0.1:{granted}")} <= told, told


def a_port_that_was_not_granted_is_named(_: Machine) -> None:
    """Where nobody listens inside and the machine does; what is allowed then works, in the same session."""
    by = f"{program('curl')} -sS -m 20"
    with pages(False) as web:
        for access in ("none", "rules", "ask"):
            with opened(access=access) as session:
                for host in ("localhost", "127.0.0.1"):
                    result = session.run(f"{PLAIN}{by} http://{host}:{web}/")
                    (told,) = result.violations
                    assert result.exit_code == 7 and told.path == f"localhost:{web}", result
                    assert f"add `localhost:{web}` to `network.allow`" in told.remedy, told
                assert not session.run(f"{PLAIN}{by} http://localhost:{free_port()}/").violations
                with served(session, web):
                    assert not session.run(f"{PLAIN}{by} --http0.9 http://127.0.0.1:{web}/").violations
                session.change({"network": {"access": "rules", "allow": [f"localhost:{web}"]}})
                assert "hello" in fine(session, f"{PLAIN}{by} http://localhost:{web}/")


def a_granted_port_shadows_the_sessions_own(_: Machine) -> None:
    with banner() as port, opened(access="rules", allow=[f"localhost:{port}"]) as session:
        code = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(7))"
        with served(session, port):
            assert fine(session, python(code, port)) == "b'WELCOME'\n"


def web_servers_of_this_machine(_: Machine) -> None:
    """A browser's names for loopback may differ from the rule's."""
    with ExitStack() as stack:
        plain, secure = (stack.enter_context(pages(is_secure)) for is_secure in (False, True))
        allow = [f"localhost:{plain}", f"127.0.0.1:{secure}"]
        with opened(access="rules", allow=allow) as session:
            for way in ("", PLAIN):
                for host in ("localhost", "127.0.0.1", "0.0.0.0", "[::1]"):
                    said = fine(session, f"{way}curl -sS -m 20 http://{host}:{plain}/")
                    assert said == f"hello from {host}:{plain}", said
                fine(session, f"{way}curl -sSk -m 20 https://localhost:{secure}/")
            # another's name is not loopback's
            said = session.run(f"{PLAIN}curl -sS -m 20 -H 'Host: evil.test' http://127.0.0.1:{plain}/").stdout
            assert "another host" in said, said


# Out, by the company's proxy


@contextmanager
def company(heads: list[bytes]) -> Iterator[int]:
    """A proxy that wants to be asked properly, and leads to this machine."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                head = sock.recv(4096)
                heads.append(head)
                if b"Proxy-Authorization: Basic bWU6czNjcjN0\r\n" not in head:  # me:s3cr3t
                    sock.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                    continue
                sock.sendall(b"HTTP/1.1 200 fine\r\n\r\nWELCOME\n")

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def by_the_companys_proxy(machine: Machine) -> None:
    """Names are looked up there; its password is nobody's business inside, nor the journal's."""
    code = """
        import os, socket, sys
        print(dict(os.environ))
        print(socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(7))
    """
    heads: list[bytes] = []
    with company(heads) as proxy, banner() as port:
        line = python(code, "a.test", port)
        url = f"http://127.0.0.1:{proxy}"
        by_name = {"https_proxy": f"http://me:s3cr3t@127.0.0.1:{proxy}", "NO_PROXY": "git.test"}
        for setting, given in (
            ("environment", by_name),
            (url, {"PINFOLD_PROXY_CREDENTIALS": "me:s3cr3t"}),
        ):
            os.environ.update(given)
            with opened(
                access="rules", allow=["a.test", "git.test", "127.0.0.0/8"], proxy=setting
            ) as session:
                said = fine(session, line)
                assert "WELCOME" in said and "s3cr3t" not in said
                assert machine.looked_up == [], "it was looked up here"
                assert heads.pop().startswith(f"CONNECT a.test:{port} ".encode())
                result = session.run(python(code, "evil.test", port))
                assert result.exit_code and heads == [], "a denied host reached the proxy"
                if setting == "environment":
                    assert "WELCOME" in fine(session, python(code, "git.test", port)) and heads == []
                    machine.looked_up.clear()
            with opened(access="none", proxy=setting) as session:
                assert "s3cr3t" not in fine(session, "env")
            for name in given:
                del os.environ[name]
        for setting, variable in (("none", url), ("environment", "")):
            os.environ["https_proxy"] = variable
            with opened(access="rules", allow=["a.test", "127.0.0.0/8"], proxy=setting) as session:
                assert "WELCOME" in fine(session, line) and heads == []
        # without its password, or of a kind that is not known: nothing gets out past it
        for variable in (url, "socks5://me:s3cr3t@127.0.0.1:1080"):
            os.environ["https_proxy"] = variable
            with opened(access="rules", allow=["a.test", "127.0.0.0/8"], proxy="environment") as session:
                result = session.run(line)
                assert result.exit_code and "WELCOME" not in result.stdout
                assert "proxy" in result.violations[0].why, result.violations
    told = str(journal())
    assert "via 127.0.0.1" in told and "s3cr3t" not in told and "bWU6czNjcjN0" not in told


class WebOnly(BaseHTTPRequestHandler):
    """A company's proxy that lets nobody tunnel."""

    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        self.send_error(403)

    def do_GET(self) -> None:
        body = f"by proxy {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def plain_http_by_a_proxy_without_tunnels(machine: Machine) -> None:
    """Whether or not a program knows of the pen's own proxy."""
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), WebOnly)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    by = f"{program('curl')} -sS -m 20"
    with opened(access="rules", allow=["a.test"], proxy=f"http://127.0.0.1:{proxy.server_port}") as session:
        for way in ("", PLAIN):
            said = fine(session, f"{way}{by} http://a.test/x http://a.test/y")
            assert said == "by proxy http://a.test/xby proxy http://a.test/y", said
        result = session.run(f"{PLAIN}{by} -H 'Host: evil.test' http://a.test/x")
        assert "another host" in result.stdout, result
        assert session.run(f"{PLAIN}{by} https://a.test/").exit_code == 7
    proxy.shutdown()
    proxy.server_close()
    assert machine.looked_up == []


# Who may close all of it


def the_administrator_closes_the_network(machine: Machine) -> None:
    port = free_port()
    machine.manage('[admin]\nnetworking = "disabled"\n')
    policy = SandboxPolicy(network_access=True)
    code = """
        import os, socket
        print(os.environ["PINFOLD_PEN_NETWORK"], [name for name in os.environ if "proxy" in name.lower()])
        socket.create_connection(("203.0.113.9", 80))
    """
    for access in ("ask", "rules", "all"):
        person = Says(pinfold.Answer.ONCE)
        given = {"approvers": [person]}
        with opened(given, access=access, allow=["a.test", "203.0.113.9"], publish=[port]) as session:
            machine.packets()
            for request in (python(code), pinfold.RunCommand(python(code), policy=policy)):
                result = session.run(request)
                if result.ran:
                    assert result.stdout == "0 []\n" and "unreachable" in result.stderr, result
            assert machine.packets() == [] and machine.looked_up == []
            assert is_refused(port)
            assert session.sandboxes._outside._gatehouse is None  # type: ignore[attr-defined]
            reason = session.check(pinfold.Connect("a.test", 443)).reasons[0]
            assert reason.verdict == "deny" and "managed.toml:2" in str(reason.origin), reason
            assert any("managed.toml" in notice for notice in session.notices), session.notices


def a_user_chooses_by_word(_: Machine) -> None:
    """`ask`, `enabled` and `disabled` of other agents are `ask`, `all` and `none` here."""
    code = "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(7))"
    there = ["127.0.0.0/8"]  # where the name leads; the is not in `network.allow` name
    with banner() as port:
        line = python(code, "a.test", port)
        for access, passes, asked in (
            ("all", True, 0),
            ("none", False, 0),
            ("ask", True, 1),
            ("rules", False, 0),
        ):
            person = Says(pinfold.Answer.ONCE)
            with opened({"approvers": [person]}, access=access, allow=there) as session:
                result = session.run(line)
                assert (result.stdout == "b'WELCOME'\n") is passes, (access, result)
                assert len(person.asked) == asked, access
        # a call may narrow, and its own policy for the network is a question
        narrow, wide = SandboxPolicy(network_access=False), SandboxPolicy(network_access=True)
        with opened(access="all", allow=there) as session:
            assert session.run(pinfold.RunCommand(line, policy=narrow)).exit_code
            assert session.run(pinfold.RunCommand(line, policy=wide)).exit_code == 0
        with opened(access="none") as session:
            assert not session.run(pinfold.RunCommand("true", policy=wide)).ran


PROBES = probes_of(globals(), "opened", "heard", "is_refused", "served", "company")

if __name__ == "__main__":
    sys.exit(main_of(globals(), sys.argv[1]))
