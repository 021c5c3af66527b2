"""The gate in its own process, and the line between it and a session."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import ECONNREFUSED
from pathlib import Path
from resource import RLIMIT_NOFILE, setrlimit
from types import SimpleNamespace
from typing import Any

import pytest

from pinfold.approval.broker import MOST_WAITING, TOO_MANY, Desk
from pinfold.model.decision import Verdict
from pinfold.model.fair_share import fair_share
from pinfold.model.gate_protocol import (
    DROP,
    GATE,
    JOIN,
    LONGEST,
    OPEN,
    PROXY,
    GateAnswer,
    GateRequest,
    parse_answer,
)
from pinfold.model.permission import MOST_OPEN, Answer, PermissionNeeded
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import NetworkAccess, NetworkSettings, Settings
from pinfold.network.host.host_rules import HostRules
from pinfold.network.host_decision import ConnectionOutcome, HostDecision
from pinfold.network.limits import EACH, SPARE
from pinfold.network.link_messages import RESOLVER
from pinfold.network.session_link import Line, Open
from pinfold.policy.network_scope import PenReach
from tests.network.test_dns import EXAMPLE, query
from tests.patience import PATIENCE, wait_until

NAMED = HostDecision(Verdict.ALLOW, "it is on the list", "localhost")
NO = HostDecision(Verdict.DENY, "it is not in `network.allow`")
Decide = Callable[[str, int | None, str], HostDecision]
Ask = Callable[[str, int, str, HostDecision, threading.Event], HostDecision]


class Session:
    """A session with a gate of its own."""

    def __init__(
        self, line: Line, process: "subprocess.Popen[bytes]", warden: socket.socket, names: int
    ) -> None:
        self.line, self.process, self.warden, self.names = line, process, warden, names
        self.records: list[ConnectionOutcome] = []
        self.ended = threading.Event()
        self.recorded = threading.Semaphore(0)

    def connect(self, tag: int = 1) -> socket.socket:
        """To the proxy, as a warden leads a program there."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.say(GateRequest(PROXY, tag=tag), theirs)
            except OSError:
                ours.close()
                raise
        ours.settimeout(PATIENCE)
        return ours

    def say(self, request: GateRequest, *sockets: socket.socket) -> None:
        socket.send_fds(self.warden, [request.encoded()], [sock.fileno() for sock in sockets])

    def open(self, number: int, host: str, port: int) -> GateAnswer:
        self.say(GateRequest(OPEN, number, 1, port, host))
        return parse_answer(self.warden.recv(LONGEST))

    def tunnel(self, host: str, port: int, tag: int = 1) -> socket.socket:
        sock = self.connect(tag)
        sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        return sock


def only_localhost(host: str, _: int | None, __: str) -> HostDecision:
    return NAMED if host == "localhost" else NO


def nobody(*_: object) -> HostDecision:
    raise LookupError("no terminal, agent dialog or `pinfold web` page is open to ask")


def asking(decide: Decide, ask: Ask) -> Open:
    """Asks on a thread for each question."""

    def opened(
        host: str, port: int | None, tag: str, may_ask: bool, say: Callable[[HostDecision], None]
    ) -> Callable[[], None] | None:
        ruling = decide(host, port, tag)
        say(ruling)
        if ruling.verdict is not Verdict.ASK or port is None or not may_ask:
            return None
        withdrawn = threading.Event()

        def answer(port: int) -> None:
            try:
                said = ask(host, port, tag, ruling, withdrawn)
            except LookupError as error:
                said = HostDecision(Verdict.DENY, f"{error}")
            say(said)

        threading.Thread(target=answer, args=(port,), daemon=True).start()
        return withdrawn.set

    return opened


@contextmanager
def session(
    decide: Decide = only_localhost,
    ask: Ask = nobody,
    descriptors: int | None = None,
    opens: Open | None = None,
) -> Iterator[Session]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "pinfold.network", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            preexec_fn=None if descriptors is None else lambda: setrlimit(RLIMIT_NOFILE, (descriptors,) * 2),
        )
    warden, pen = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    warden.settimeout(PATIENCE)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 0))
    found: list[Session] = []

    def record(outcome: ConnectionOutcome) -> None:
        found[0].records.append(outcome)
        found[0].recorded.release()

    line = Line(ours, opens or asking(decide, ask), record, lambda: found[0].ended.set())
    found.append(Session(line, process, warden, names.getsockname()[1]))
    line.start()
    with pen, names:
        line.add(RESOLVER, names)
        line.add("7", pen)
    try:
        yield found[0]
    finally:
        line.close()
        assert process.wait(PATIENCE) in (0, -9)
        assert found[0].ended.wait(PATIENCE)
        ours.close()
        warden.close()


@contextmanager
def echo() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock, suppress(ConnectionError):
                while data := sock.recv(65536):
                    sock.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def test_through_a_gate_of_another_process() -> None:
    with echo() as port, session() as world:
        with world.tunnel("localhost", port) as client:
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
            client.sendall(b"\0ping")
            assert client.recv(5) == b"\0ping"
        with world.tunnel("evil.test", 443) as client:
            assert client.recv(4096).startswith(b"HTTP/1.1 403 ")
        assert world.recorded.acquire(timeout=PATIENCE) and world.recorded.acquire(timeout=PATIENCE)
        said = {record.host: (record.verdict, record.received) for record in world.records}
        assert said == {"localhost": (Verdict.ALLOW, 5), "evil.test": (Verdict.DENY, 0)}


def test_a_carried_connection() -> None:
    with echo() as port, session() as world:
        assert world.open(1, "localhost", port).errno == 0
        ours, theirs = socket.socketpair()
        world.say(GateRequest(JOIN, 1), theirs)
        theirs.close()
        with ours:
            ours.sendall(b"\0ping")
            assert ours.recv(5) == b"\0ping"
        refused = world.open(2, "evil.test", 443)
        assert refused == GateAnswer(2, ECONNREFUSED, "evil.test", message=NO.message, code="denied")


def test_who_asks_is_known_to_the_rules() -> None:
    asked: list[str] = []

    def decide(host: str, _: int | None, tag: str) -> HostDecision:
        asked.append(tag)
        return only_localhost(host, _, tag)

    with session(decide) as world:
        world.open(1, "evil.test", 443)
        credentials = b"Proxy-Authorization: Basic OC5iOng=\r\n"  # 8.b, another pen's
        with world.connect() as client:
            client.sendall(
                b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n" + credentials + b"\r\n"
            )
            assert client.recv(4096).startswith(b"HTTP/1.1 403 ")
    assert asked == ["7.1", "7.1"]


def test_what_stands_is_not_asked_for_again(tmp_path: Path) -> None:
    rules, asked = tmp_path / "rules", []
    rules.write_text("yes")

    def decide(host: str, _: int | None, __: str) -> HostDecision:
        asked.append(host)
        return NAMED._replace(files=(str(rules),)) if rules.read_text() == "yes" else NO

    with echo() as port, session(decide) as world:

        def said(number: int) -> tuple[int, int]:
            """What the program hears, and how often the rules were asked for that."""
            asked.clear()
            answer = world.open(number, "127.0.0.1", port)
            world.say(GateRequest(DROP, number))
            return answer.errno, len(asked)

        assert [said(number) for number in range(4)] == [(0, 1), (0, 1), (0, 0), (0, 0)]
        world.line.forget()
        assert [said(4), said(5)] == [(0, 1), (0, 0)]
        rules.write_text("no")
        assert [said(6), said(7)] == [(ECONNREFUSED, 1), (ECONNREFUSED, 1)]


@contextmanager
def patient() -> Iterator[tuple[Session, threading.Event, threading.Event]]:
    """A session whose person waits; whether they were asked, and whether that was withdrawn."""
    asked, gone = threading.Event(), threading.Event()

    def ask(_: str, __: int, ___: str, ____: HostDecision, withdrawn: threading.Event) -> HostDecision:
        asked.set()
        if withdrawn.wait(PATIENCE):
            gone.set()
        return NO

    with session(lambda *_: HostDecision(Verdict.ASK), ask) as world:
        yield world, asked, gone


def test_a_way_that_nobody_waits_for_is_dropped() -> None:
    with patient() as (world, asked, gone):
        world.say(GateRequest(OPEN, 1, 1, 443, "a.test"))
        assert asked.wait(PATIENCE)
        world.say(GateRequest(DROP, 1))
        assert gone.wait(PATIENCE)
        assert world.recorded.acquire(timeout=PATIENCE) and "stopped waiting" in world.records[0].message


def test_the_resolver() -> None:
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with client, session(lambda host, *_: NAMED if host == "a.example" else NO) as world:
        client.settimeout(PATIENCE)
        client.sendto(query(EXAMPLE), ("127.0.0.1", world.names))
        assert client.recv(512).endswith(bytes((198, 18, 1, 0)))


def test_a_person_is_asked_without_holding_the_others() -> None:
    came, go = threading.Event(), threading.Event()
    asked: list[tuple[str, int, str]] = []

    def decide(host: str, _: int | None, __: str) -> HostDecision:
        return (
            NAMED
            if host == "localhost"
            else HostDecision(Verdict.ASK, "who knows")
            if host == "b.localhost"
            else NO
        )

    def ask(host: str, port: int, tag: str, _: HostDecision, __: threading.Event) -> HostDecision:
        asked.append((host, port, tag))
        came.set()
        go.wait(PATIENCE)
        return HostDecision(Verdict.ALLOW)

    with echo() as port, session(decide, ask) as world, world.tunnel("b.localhost", port) as waiting:
        with world.tunnel("localhost", port) as client:
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert came.wait(PATIENCE)
        assert asked == [("b.localhost", port, "7.1")]
        go.set()
        assert waiting.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_who_said_no_is_told_to_the_warden_and_to_the_session() -> None:
    no = NO._replace(message="it is not in `network.allow`; a test said no", answered="a test said no")
    with session(lambda *_: HostDecision(Verdict.ASK), lambda *_: no) as world:
        answer = world.open(1, "a.test", 443)
        assert (answer.errno, answer.answered, answer.message) == (ECONNREFUSED, no.answered, no.message)
        with world.tunnel("a.test", 443) as client:
            assert client.recv(4096).startswith(b"HTTP/1.1 403 ")
        assert all(world.recorded.acquire(timeout=PATIENCE) for _ in range(2))
        assert [each.answered for each in world.records] == [no.answered] * 2


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nno header: " + b"\1" * 60000,
        b"GET /" + b"\\" * 60000 + b" HTTP/1.1\r\nHost: localhost",  # its echo is no answer of HTTP
    ],
    ids=["client's", "server's"],
)
def test_a_broken_line_of_any_length_is_told_and_others_live(request_head: bytes) -> None:
    with echo() as port, session() as world:
        with world.tunnel("localhost", port) as client:
            client.recv(4096)
            client.sendall(request_head + b"\r\n\r\n")
            said = b"".join(iter(lambda: client.recv(65536), b""))
            assert said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 502 "))
        assert world.recorded.acquire(timeout=PATIENCE)
        assert world.records[0].verdict is Verdict.DENY
        with world.tunnel("localhost", port) as client:
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_who_does_not_stay_for_a_refusal_was_refused() -> None:
    with echo() as port, session() as world:
        with world.tunnel("localhost", port) as client:
            client.recv(4096)
            client.sendall(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        assert world.recorded.acquire(timeout=PATIENCE)
        assert world.records[0].verdict is Verdict.DENY


def test_who_said_no_may_have_any_name() -> None:
    no = NO._replace(message="\1" * 70000, answered="\1" * 70000)
    with session(lambda *_: HostDecision(Verdict.ASK), lambda *_: no) as world:
        assert world.open(1, "a.test", 443).errno == ECONNREFUSED


def test_a_question_is_withdrawn_when_the_program_is_gone() -> None:
    with patient() as (world, asked, gone):
        with world.tunnel("a.test", 443):
            assert asked.wait(PATIENCE)
        assert gone.wait(PATIENCE)


@pytest.mark.parametrize("fault", ["raises", "nonsense"])
def test_a_session_that_fails_to_answer_is_a_no(fault: str) -> None:
    def decide(host: str, _: int | None, __: str) -> HostDecision:
        if fault == "raises":
            raise RuntimeError("no settings")
        return HostDecision("perhaps")  # type: ignore[arg-type]

    with session(decide) as world, world.tunnel("localhost", 443) as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 403 ")


def test_gate_death_closes() -> None:
    """Killed, the gate takes every way with it; nothing opens instead."""
    with echo() as port, session() as world, world.tunnel("localhost", port) as client:
        client.recv(4096)
        world.process.kill()
        assert world.process.wait(PATIENCE) == -9
        assert world.ended.wait(PATIENCE)
        with pytest.raises(ConnectionError):
            client.sendall(b"\0")
            if not client.recv(1):
                raise ConnectionResetError
        with pytest.raises(BrokenPipeError):
            world.connect()


def test_a_gate_without_its_session_ends() -> None:
    with echo() as port, session() as world, world.tunnel("localhost", port) as client:
        client.recv(4096)
        world.line.close()
        assert world.process.wait(PATIENCE) == 0
        with pytest.raises(ConnectionError):
            if not client.recv(1):
                raise ConnectionResetError


def test_it_raises_its_own_limit_of_descriptors() -> None:
    with session() as world, world.tunnel("evil.test", 1) as client:
        client.recv(10)
        lines = Path(f"/proc/{world.process.pid}/limits").read_text().splitlines()
        (limits,) = [line.split() for line in lines if line.startswith("Max open files")]
        assert limits[3] == limits[4]


def test_many_hosts_at_once_make_few_threads() -> None:
    """What is too much is refused with a reason, and others' questions have room."""
    go, asked = threading.Event(), set[str]()

    def person(question: PermissionNeeded) -> Answer:
        asked.add(question.host)
        go.wait()  # the test says when, or pytest's own limit ends it
        return Answer.NO

    desk = Desk([person])
    settings = Settings(network=NetworkSettings(access=NetworkAccess.ASK))
    stub: Any = SimpleNamespace(id="s", environ={}, settings=settings, settings_files=(), desk=desk)
    rules = HostRules(stub, {"7": PenReach(SandboxPolicy(), ())}, {})
    most, before = fair_share(MOST_WAITING, 0), threading.active_count()
    wanted = most + 300
    with session(opens=rules.open) as world:
        for number in range(wanted):
            world.say(GateRequest(OPEN, number, 1, 443, f"h{number}.test"))
        refused = [parse_answer(world.warden.recv(LONGEST)) for _ in range(wanted - most)]
        assert {each.message for each in refused} == {TOO_MANY.by}
        world.say(GateRequest(OPEN, wanted, 2, 443, "other.test"))
        wait_until(lambda: "other.test" in asked)
        assert len(asked) == MOST_OPEN + 1
        # For each open question one thread, and its approver's; and the link's own.
        assert threading.active_count() - before <= 2 * (MOST_OPEN + 1) + 1
        go.set()
        rest = [parse_answer(world.warden.recv(LONGEST)) for _ in range(most + 1)]
        assert TOO_MANY.by not in {each.message for each in rest}
        assert {each.number for each in (*refused, *rest)} == set(range(wanted + 1))
    desk.calls.close()


def test_connections_leave_a_gate_descriptors() -> None:
    """Who comes when all are taken is told so, and those that stand go on."""
    with echo() as port, session(descriptors=SPARE + 20 * EACH) as world, ExitStack() as clients:
        there = [clients.enter_context(world.tunnel("localhost", port, 1 + n)) for n in range(20)]
        for client in there:
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        late = clients.enter_context(world.connect())
        assert late.recv(4096).startswith(b"HTTP/1.1 503 ")
        assert world.recorded.acquire(timeout=PATIENCE)
        assert (world.records[0].why, world.records[0].host) == ("busy", GATE)
        answer = world.open(1, "localhost", port)
        assert answer.errno == ECONNREFUSED and "already has 20 connections" in answer.message
        there[0].sendall(b"\0ping")
        assert there[0].recv(5) == b"\0ping"
        there.pop(0).close()  # the one that the server has heard
        assert all(world.recorded.acquire(timeout=PATIENCE) for _ in range(2))
        with world.tunnel("localhost", port) as client:
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_one_command_leaves_others_connections() -> None:
    """It has three quarters of them, however it connects, and more when some have ended."""
    with echo() as port, session(descriptors=SPARE + 20 * EACH) as world, ExitStack() as clients:
        there = [clients.enter_context(world.tunnel("localhost", port)) for _ in range(15)]
        for client in there:
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        late = clients.enter_context(world.connect())
        assert b"the command already has 15 connections" in late.recv(4096)
        answer = world.open(1, "localhost", port)
        assert answer.errno == ECONNREFUSED and "its share" in answer.message
        other = clients.enter_context(world.tunnel("localhost", port, 2))
        assert other.recv(4096).startswith(b"HTTP/1.1 200 ")
        for client in there[:2]:  # of what the other command leaves it has three quarters
            client.close()

        def is_let_in() -> bool:
            try:
                client = clients.enter_context(world.tunnel("localhost", port))
                return client.recv(4096).startswith(b"HTTP/1.1 200 ")
            except (BrokenPipeError, ConnectionResetError):  # turned away before it spoke
                return False

        wait_until(is_let_in)


def test_no_two_commands_have_all_connections() -> None:
    """Each has three quarters of what the others leave."""
    with echo() as port, session(descriptors=SPARE + 20 * EACH) as world, ExitStack() as clients:
        for tag, most in ((1, 15), (2, 3), (3, 1)):
            there = [clients.enter_context(world.tunnel("localhost", port, tag)) for _ in range(most)]
            assert all(client.recv(4096).startswith(b"HTTP/1.1 200 ") for client in there)
            late = clients.enter_context(world.connect(tag))
            assert b"its share of the session's" in late.recv(4096)
        other = clients.enter_context(world.tunnel("localhost", port, 4))
        assert other.recv(4096).startswith(b"HTTP/1.1 200 ")
