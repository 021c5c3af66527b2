"""What holds of the service: each function runs in a child, as root and as another user."""

import hmac
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import msgspec

from pinfold.approval import Approver
from pinfold.model.errors import PinfoldError
from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.service import listener as listening
from pinfold.service.client import Client, Question
from pinfold.service.connection import Connection
from pinfold.service.lines import LineStream
from pinfold.service.listener import ServiceListener, token_file
from pinfold.service.methods import Service
from pinfold.service.remote_session import RemoteEvent, RemoteSession, ServiceError
from pinfold.session.open_parts import make_room
from pinfold.state.sessions import live_sessions
from tests.patience import PATIENCE, wait_until
from tests.probe_module import probes_of, run


class Person:
    """Says the same to everything, and remembers what it was asked."""

    def __init__(self, answer: str = "no") -> None:
        self.answer = answer
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> str:
        self.asked.append(question)
        return self.answer


@contextmanager
def client(
    settings: dict[str, Any] | None = None, person: Any = None, others: Sequence[Approver] = (), **given: Any
) -> Iterator[Client]:
    """A client and its service in one process."""
    ours, theirs = socket.socketpair()
    service = Service(settings=settings or {}, cwd=os.getcwd(), others=others)
    lines = LineStream(theirs.fileno(), theirs.fileno(), theirs)
    thread = threading.Thread(target=Connection(lines, service).serve)
    thread.start()
    try:
        near = LineStream(ours.fileno(), ours.fileno(), ours)
        with Client(near, on_permission=person or Person(), **given) as opened:
            yield opened
    finally:
        thread.join()
        ours.close()
        theirs.close()


@contextmanager
def session(
    settings: dict[str, Any] | None = None, person: Any = None, **given: Any
) -> Iterator[RemoteSession]:
    with client(settings, person, **given) as opened, opened.create_session([os.getcwd()]) as created:
        yield created


def refused(call: Callable[[], object], kind: str = "refused") -> ServiceError:
    try:
        call()
    except ServiceError as error:
        assert error.kind == kind, error.data
        return error
    raise AssertionError("it was not refused")


# Running


def a_command_tells_its_events_in_order() -> None:
    with session() as opened:
        execution = opened.start("echo one; echo two >&2; echo {} > .mcp.json; exit 3")
        events = [(event.name, event.params) for event in execution.events()]
    names = [name for name, _ in events]
    assert names[-2:] == ["violation", "exit"] and set(names[:-2]) == {"stdout", "stderr"}
    assert events[0][1]["data"] == "one\n"
    assert events[-1][1] == {
        "sessionId": opened.id,
        "executionId": execution.id,
        "code": 3,
        "signal": None,
        "timedOut": False,
        "cancelled": False,
    }
    assert events[-2][1]["path"].endswith("/.mcp.json")
    assert execution.decision["decision"] == "allow" and execution.decision["sandboxed"] is True


def what_was_streamed_is_not_waited_for_again() -> None:
    with session() as opened:
        streamed = opened.start("echo one; echo {} > .mcp.json; exit 3")
        assert "stdout" in [event.name for event in streamed.events()]
        end = streamed.wait()
        assert (end.code, end.stdout, end.stderr) == (3, "", "")
        assert [each["path"] for each in end.violations] == [f"{os.getcwd()}/.mcp.json"]
        gathered = opened.start("echo one")
        assert gathered.wait() == gathered.wait() and gathered.wait().stdout == "one\n"
        try:
            next(gathered.events())
        except PinfoldError as error:
            assert "once" in str(error)
        else:
            raise AssertionError("it was followed twice")


def a_signal_is_a_null_code() -> None:
    with session() as opened:
        end = opened.run("kill -9 $$")
    assert (end.code, end.signal) == (None, 9)


def characters_may_come_in_pieces_and_bytes_as_they_are() -> None:
    with session() as opened:
        assert opened.run(r"printf 'a\303'; sleep 0.2; printf '\244b\377'").stdout == "aäb\ufffd"
        events = list(opened.start(["printf", r"\377\000"], encoding="base64").events())
        assert events[0] == RemoteEvent("stdout", {**events[0].params, "data": "/wA="})
        pieces = "printf a; until test -e go; do sleep 0.02; done; printf b"
        execution = opened.start(pieces, encoding="base64")
        wait_until(lambda: execution._come.qsize() == 1)
        with open("go", "w"):
            pass
        assert execution.wait().stdout == "YWI="


def a_call_has_fields_of_its_own() -> None:
    person = Person("once")
    with session(person=person) as opened:
        assert opened.run("sleep 100", timeout=0.2).timed_out
        assert opened.run("cat; echo $A", stdin="in\n", environment={"A": "b"}).stdout == "in\nb\n"
        assert opened.run("pwd", cwd="/usr").stdout == "/usr\n"
        assert opened.run(["echo", "$A;"]).stdout == "$A;\n"
        assert not person.asked
        # What narrows applies, and its writes are asked about; what widens is asked for by name.
        person.answer = "no"
        assert opened.run("touch x", sandboxPolicy={"type": "WORKSPACE_READONLY"}).code == 1
        assert person.asked.pop().capability == "write"
        person.answer = "once"
        assert opened.run("touch x", sandboxPolicy=opened.policy).code == 0
        assert not person.asked
        home = os.path.expanduser("~")
        wider = {"type": "WORKSPACE_READWRITE", "additionalReadwritePaths": [home]}
        assert opened.run(f"touch {home}/y", sandboxPolicy=wider, description="why").code == 0
        (question,) = person.asked
        assert (question.capability, question.description) == ("widen", "why")
        assert home in question.reasons[0]["message"]


def a_bypass_is_asked_for() -> None:
    person = Person("no")
    with session(person=person) as opened:
        error = refused(lambda: opened.run("id", dangerouslyDisableSandbox=True))
        assert person.asked[0].capability == "bypass"
        assert error.data["step"] == "bypass" and "said no" in error.data["next"]
        person.answer = "once"
        assert opened.run("echo ${PINFOLD_PEN:-out}", dangerouslyDisableSandbox=True).stdout == "out\n"


def what_cannot_wait_is_asked_for_afterwards_and_run_once_more() -> None:
    out = os.path.expanduser("~/out")
    os.makedirs(f"{out}/d")
    person = Person("once")
    with session(person=person) as opened:
        execution = opened.start(f"echo begun; mv {out}/d {out}/e")
        events = list(execution.events())
        begun = [event for event in events if event.params.get("data") == "begun\n"]
        assert len(begun) == 2 and events[-1].name == "exit" and events[-1].params["code"] == 0, events
        assert [event.name for event in events].count("exit") == 1 and os.path.isdir(f"{out}/e")
        (question,) = person.asked
        assert question.capability == "widen" and "runs it again" in question.reasons[0]["message"]
        person.answer = "no"
        assert opened.run(f"mv {out}/e {out}/f").code and len(person.asked) == 2


def a_closed_policy_keeps_it_fenced() -> None:
    person = Person("once")
    with session({"sandbox": {"allow_unsandboxed": False}}, person) as opened:
        assert opened.run("echo $PINFOLD_PEN", dangerouslyDisableSandbox=True).stdout == "1\n"
    assert not person.asked


def a_refusal_is_an_error_that_says_what_to_do() -> None:
    with session({"commands": {"deny": ["git push"]}}) as opened:
        error = refused(lambda: opened.run("make && git push"))
    assert error.code == -32001
    assert (error.data["verdict"], error.data["rule"]) == ("deny", "git push")
    assert error.data["remedy"] and error.data["next"]
    assert error.data["decision"]["decision"] == "deny"


def a_client_below_the_version_gets_no_auto_allow() -> None:
    for version in ("v2", "", "nonsense"):
        person = Person("no")
        with client(person=person, service_version=version) as opened:
            assert not opened.welcome.auto_allow and opened.welcome.service_version == "v3"
            old = opened.create_session([os.getcwd()])
            refused(lambda session=old: session.run("touch x"))  # type: ignore[misc]
            assert [question.command for question in person.asked] == ["touch x"]
            person.answer = "once"
            assert old.run("touch x").code == 0
    person = Person("no")
    with client(person=person, service_version="v4") as opened:
        assert opened.create_session([os.getcwd()]).run("touch x").code == 0
    assert not person.asked


def a_running_command_is_cancelled() -> None:
    with session() as opened:
        execution = opened.start("sleep 1000 & echo up; wait")
        events = execution.events()
        assert next(events).params["data"] == "up\n"
        execution.cancel()
        assert [event.params["cancelled"] for event in events] == [True]


def a_question_is_withdrawn_when_its_command_is_cancelled() -> None:
    asked = threading.Event()

    def never(_: Question) -> Answer:
        asked.set()
        time.sleep(1000)
        raise AssertionError

    with session({"mode": "ask_every_time"}, never) as opened:
        failures: list[ServiceError] = []
        thread = threading.Thread(target=lambda: failures.append(refused(lambda: opened.run("echo hi"))))
        thread.start()
        assert asked.wait(PATIENCE)
        opened.cancel()
        thread.join(PATIENCE)
        assert not thread.is_alive() and failures


def somebody_else_is_asked_no_longer_when_the_command_is_cancelled() -> None:
    class Page:
        def __init__(self) -> None:
            self.asked, self.withdrawn = threading.Event(), threading.Event()

        def __call__(self, _: PermissionNeeded) -> Answer:
            self.asked.set()
            assert self.withdrawn.wait(PATIENCE)
            return Answer.ONCE

        def withdraw(self, _: PermissionNeeded) -> None:
            self.withdrawn.set()

    page = Page()
    with session({"mode": "ask_every_time"}, others=[page], asks=False) as opened:
        failures: list[ServiceError] = []
        thread = threading.Thread(target=lambda: failures.append(refused(lambda: opened.run("echo hi"))))
        thread.start()
        assert page.asked.wait(PATIENCE)
        opened.cancel()
        assert page.withdrawn.wait(PATIENCE / 3)
        thread.join(PATIENCE)
        assert failures


def an_answer_that_was_not_offered_is_a_no_at_once() -> None:
    """And whoever wrote the client hears of it, as of any other fault in what they gave."""
    heard: list[str] = []
    threading.excepthook = lambda told: heard.append(str(told.exc_value))
    with session(person=Person("always")) as opened:
        began = time.monotonic()
        refused(lambda: opened.run("echo hi", dangerouslyDisableSandbox=True))
        assert time.monotonic() - began < PATIENCE
    wait_until(lambda: heard)  # the thread that asked tells it after its answer was taken
    assert len(heard) == 1 and "`always` was not offered" in heard[0]


def a_question_says_what_it_is_about() -> None:
    seen: list[Question] = []

    def person(question: Question) -> str:
        seen.append(question)
        error = refused(
            lambda: opened._client.call("answer", requestId=question.request_id, answer="rule"), "invalid"
        )
        assert "not offered" in str(error)
        return "once"

    with session({"mode": "ask_every_time"}, person) as opened:
        execution = opened.start("echo hi", description="greets")
        assert execution.wait().stdout == "hi\n"
        answer = execution.decision["answer"]
        assert (answer["answer"], answer["by"]) == ("once", "the client")
        again = refused(
            lambda: opened._client.call("answer", requestId=seen[0].request_id, answer="no"), "invalid"
        )
        assert "answered" in str(again)
    (question,) = seen
    assert (question.tool_call_id, question.session_id) == (execution.id, opened.id)
    assert (question.command, question.description, question.cwd) == ("echo hi", "greets", os.getcwd())


# Projects and files


def another_project_needs_a_person_or_the_settings() -> None:
    for name in ("listed", "other"):
        os.mkdir(name)
    there = [os.path.join(os.getcwd(), name) for name in ("work", "listed", "other")]
    os.mkdir("work")
    person = Person("no")
    with client({"projects": [there[1]]}, person) as opened:
        created = opened.create_session([there[0]])
        refused(lambda: created.write(f"{there[1]}/a", "x"))
        created.add_project(there[1])
        assert not person.asked
        created.write(f"{there[1]}/a", "x")
        assert created.run(f"cat {there[1]}/a; touch {there[1]}/b").code == 0

        refused(lambda: created.add_project(there[2]))
        assert person.asked[0].path == there[2]
        refused(lambda: created.write(f"{there[2]}/a", "x"))
        assert created.run(f"touch {there[2]}/b").code == 1
        person.answer = "session"
        assert created.add_project(there[2]) == tuple(there)
        created.write(f"{there[2]}/a", "x")
        assert created.run(f"touch {there[2]}/b").code == 0


def the_first_projects_need_a_person_or_the_settings_too() -> None:
    """But for where whoever started the service did so."""
    home = os.path.expanduser("~")
    for name in ("listed", "other"):
        os.mkdir(f"{home}/{name}")
    person = Person("no")
    with client({"projects": [f"{home}/listed"]}, person) as opened:
        for projects in ((), (os.getcwd(),), (f"{home}/listed",)):
            opened.create_session(projects).close()
        assert not person.asked
        error = refused(lambda: opened.create_session([os.getcwd(), f"{home}/other"]))
        assert error.data["step"] == "project" and person.asked[0].path == f"{home}/other"
        assert len(live_sessions()) == 0
        person.answer = "session"
        created = opened.create_session([f"{home}/other"])
        assert created.run("touch made").code == 0 and os.path.exists(f"{home}/other/made")


def a_session_that_has_ended_is_resumed_by_its_id() -> None:
    """With what was granted in it, in its projects alone, and not while it runs."""
    home = os.path.expanduser("~")
    os.mkdir(f"{home}/other")
    line = ["touch", f"{home}/other/made"]
    person = Person("session")
    with client({"projects": [f"{home}/other"]}, person) as opened:
        created = opened.create_session([os.getcwd()])
        assert created.run(line).code == 0 and len(person.asked) == 1
        refused(lambda: opened.create_session(resume=created.id), "invalid")
        created.close()
        again = opened.create_session(resume=created.id)
        assert again.id == created.id
        assert again.run(line).code == 0 and len(person.asked) == 1
        again.close()
        refused(lambda: opened.create_session([f"{home}/other"], resume=created.id), "invalid")
    with client({"filesystem": {"ask": False}}, person) as opened:
        again = opened.create_session(resume=created.id)
        assert again.run(["rm", f"{home}/other/made"]).code == 1
    assert os.path.exists(f"{home}/other/made") and len(person.asked) == 1


def a_client_that_asks_nobody_leaves_it_to_the_page() -> None:
    from pathlib import Path

    from pinfold.web import WebApprover
    from tests.web.page_world import Tab, page

    with page(Path.home()) as (shown, environ):
        settings = {"mode": "ask_every_time"}
        service = Service(settings=settings, cwd=os.getcwd(), others=[WebApprover(environ)])
        ours, theirs = socket.socketpair()
        connection = Connection(LineStream(theirs.fileno(), theirs.fileno(), theirs), service)
        thread = threading.Thread(target=connection.serve)
        thread.start()
        with ours, theirs:
            near = LineStream(ours.fileno(), ours.fileno(), ours)
            with Client(near, asks=False) as opened, opened.create_session([os.getcwd()]) as created:
                answering = threading.Thread(target=_answer, args=(Tab(shown), "once"))
                answering.start()
                assert created.run("echo hi").stdout == "hi\n"
                answering.join()
            thread.join()


def _answer(tab: Any, answer: str) -> None:
    (question,) = tab.questions()
    assert tab.answer(question["id"], answer)[0] == 200


def what_is_refused_at_the_very_end_is_told_before_it() -> None:
    with session({"network": {"access": "rules", "allow": ["b.test"]}}) as opened:
        for _ in range(10):
            for command in ("exec 3>.mcp.json", "exec 3<>/dev/tcp/10.9.8.7/80"):
                names = [event.name for event in opened.start(command).events()]
                assert names[-2:] == ["violation", "exit"], (command, names)


def permission_is_asked_for_by_name() -> None:
    home = os.path.expanduser("~")
    person = Person("no")
    with session({"filesystem": {"ask": False}}, person) as opened:
        assert opened.run(f"touch {home}/y").code == 1
        refused(lambda: opened.request_permission(write=[home], why="the task"))
        assert opened.run(f"touch {home}/y").code == 1
        person.answer = "session"
        assert opened.request_permission(write=[home], why="the task") == (f"write {home}",)
        assert opened.run(f"touch {home}/y").code == 0
        assert opened.request_permission(write=[home]) == ()
        assert [question.description for question in person.asked] == ["the task", "the task"]


def names_that_are_not_text_are_told_all_the_same() -> None:
    with open(b"\xff.txt", "w") as file:
        file.write("found\n")
    with session() as opened:
        told = "\ufffd.txt"
        assert [each["path"] for each in opened.call("listFiles")] == [told]
        assert opened.call("globFiles", pattern="*") == [told]
        assert [each["path"] for each in opened.call("searchFiles", pattern="found")] == [told]


def what_commands_could_swap_is_not_granted() -> None:
    os.makedirs("inner/sub")
    with open("secret", "w"):
        pass
    here = os.getcwd()
    person = Person("session")
    with client({"filesystem": {"hide": ["secret"]}}, person) as opened:
        created = opened.create_session([os.path.join(here, "inner")])
        # What can be written anyway needs no grant, and gets none that a link could turn elsewhere.
        assert created.request_permission(write=[f"{here}/inner/sub"]) == ()
        assert created.add_project(f"{here}/inner/sub") == (f"{here}/inner",)
        error = refused(lambda: created.request_permission(read=[f"{here}/inner/secret"]))
        assert "could become something else" in str(error)
        error = refused(lambda: created.add_project(here))
        assert "could be moved" in str(error)
        assert not person.asked
        assert created.policy["additionalReadwritePaths"] == []


def files_are_read_and_changed() -> None:
    with session() as opened:
        assert opened.write("a.txt", "one\ntwo\n") and not opened.write("a.txt", "one\ntwo\n")
        opened.replace("a.txt", [("two", "three")])
        opened.call("appendToFile", path="a.txt", text="four\n")
        assert opened.read("a.txt", firstLine=2, lines=1) == "three\n"
        assert [hit["line"] for hit in opened.search("^t")] == [2]
        opened.call("moveFile", old="a.txt", new="b.txt")
        assert opened.call("globFiles", pattern="*.txt") == ["b.txt"]
        refused(lambda: opened.call("globFiles", pattern="*", only="*.txt"), "invalid")
        assert [entry["path"] for entry in opened.entries()] == ["b.txt"]
        opened.call("deleteFile", path="b.txt")
        error = refused(lambda: opened.read("b.txt"))
        assert error.data["step"] == "absent" and error.data["remedy"] and error.data["path"] == "b.txt"
        assert refused(lambda: opened.read("/etc/passwd")).data["step"] == "outside"


def what_would_be_done_can_be_asked() -> None:
    with session({"commands": {"deny": ["git push"]}, "filesystem": {"hide": [".env"]}}) as opened:
        assert opened.check("ls")["decision"] == "allow"
        assert opened.check(["git", "push"])["reasons"][0]["rule"] == "git push"
        assert opened.check(path=".env")["decision"] == "deny"
        assert opened.check(host="0x7f.1", port=80)["decision"] == "deny"
        assert opened.check(server="github", tool="search")["decision"] == "ask"
        assert "one of" in str(refused(lambda: opened.check("ls", path="x"), "invalid"))


# The line


def malformed_lines_are_answered() -> None:
    with client() as opened:
        created = opened.create_session([os.getcwd()])
        cases: list[tuple[str, dict[str, Any], int]] = [
            ("nothing", {}, -32601),
            ("execute", {"sessionId": created.id}, -32602),
            ("execute", {"sessionId": created.id, "command": "ls", "unknown": 1}, -32602),
            ("execute", {"sessionId": created.id, "command": 5}, -32602),
            ("execute", {"sessionId": created.id, "command": "ls", "timeout": -1}, -32602),
            ("execute", {"sessionId": created.id, "command": "ls", "sandboxPolicy": {"tyqe": 1}}, -32602),
            ("execute", {"sessionId": created.id, "command": "ls", "environment": {"A=": "b"}}, -32602),
            ("execute", {"sessionId": "x", "command": "ls"}, -32003),
            ("createSession", {"projects": ["/nonexistent"]}, -32602),
            ("answer", {"requestId": "x", "answer": "perhaps"}, -32602),
        ]
        for method, params, code in cases:
            try:
                opened.call(method, **params)
            except ServiceError as error:
                assert error.code == code, (method, params, error.code, str(error))
                assert error.data["message"]
            else:
                raise AssertionError((method, params))


def what_is_no_json_is_answered_too() -> None:
    ours, theirs = socket.socketpair()
    lines = LineStream(theirs.fileno(), theirs.fileno(), theirs)
    thread = threading.Thread(target=Connection(lines, Service(settings={})).serve)
    thread.start()
    with theirs, ours, ours.makefile("rb") as answers:
        for line, code, number in [
            (b"{", -32700, None),
            (b"\xff\xfe", -32700, None),
            (b'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": ' + b"[" * 100_000, -32700, None),
            # It is JSON, but no text.
            (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"a": "\\ud800"}}', -32700, 1),
            (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "initialize"}', -32700, None),
            (b"[]", -32600, None),
            (b'{"id": 1, "method": "initialize"}', -32600, 1),
            (b'{"jsonrpc": "2.0", "id": {}, "method": "initialize"}', -32600, None),
            (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": []}', -32602, 1),
        ]:
            ours.sendall(line + b"\n\n")
            said = msgspec.json.decode(answers.readline())
            assert (said["error"]["code"], said["id"]) == (code, number), line[:99]
        # Nobody wants an answer to what has no id.
        for method in (b"nothing", b"initialize", b"cancel", b"check"):
            ours.sendall(b'{"jsonrpc": "2.0", "method": "%b"}\n' % method)
        ours.sendall(b'{"jsonrpc": "2.0", "id": "x", "method": "initialize"}\n')
        assert msgspec.json.decode(answers.readline())["id"] == "x"
        ours.shutdown(socket.SHUT_WR)
        thread.join()


def a_client_that_vanishes_ends_its_sessions() -> None:
    with Client.start(["--settings", _no_settings()]) as opened:
        created = opened.create_session([os.getcwd()])
        events = created.start("echo $$; exec sleep 1000").events()
        assert next(events).params["data"]
        assert [each.id for each in live_sessions()] == [created.id]
    assert live_sessions() == []
    for _ in range(2):  # killed, rather than closed
        process = _served()
        assert process.stdin and process.stdout
        create = {"jsonrpc": "2.0", "id": 1, "method": "createSession", "params": {"projects": [os.getcwd()]}}
        process.stdin.write(msgspec.json.encode(create) + b"\n")
        process.stdin.flush()
        assert b"sessionId" in process.stdout.readline()
        assert len(live_sessions()) <= 1
        process.stdin.close()
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert live_sessions() == []


def _served(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "pinfold", "serve", "--settings", _no_settings(), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _no_settings() -> str:
    path = os.path.expanduser("~/none.toml")
    with open(path, "w"):
        return path


def a_client_that_does_not_read_stalls_only_itself() -> None:
    path = os.path.expanduser("~/s")
    process = _served("--socket", path)
    assert process.stdout and process.stdin
    told = msgspec.json.decode(process.stdout.readline())
    assert told == {"socket": path, "tokenFile": token_file(path, os.environ)}
    try:
        with Client.connect(path) as quick, socket.socket(socket.AF_UNIX) as deaf:
            quick.create_session([os.getcwd()]).run("true")
            deaf.connect(path)
            with deaf.makefile("rb") as answers:
                _send(deaf, 1, "initialize", serviceVersion="v3", proof=_proven(deaf, answers, path))
                _send(deaf, 2, "createSession", projects=[os.getcwd()])
                answers.readline()
                created = msgspec.json.decode(answers.readline())["result"]["sessionId"]
            for number in range(3, 11):
                _send(deaf, number, "execute", sessionId=created, command="yes 'a line of some length'")
            before = _memory(process.pid)
            time.sleep(1.0)  # eight commands write as much as they can
            working = quick.create_session([os.getcwd()])
            for _ in range(10):
                assert working.run("seq 20000").stdout.endswith("\n20000\n")
            assert _memory(process.pid) - before < 32 << 20
        wait_until(lambda: live_sessions() == [])
    finally:
        process.terminate()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    assert not os.path.exists(path) and not os.path.exists(token_file(path, os.environ))


def _send(line: socket.socket, number: int, method: str, **params: Any) -> None:
    said = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    line.sendall(msgspec.json.encode(said) + b"\n")


def _proven(line: socket.socket, answers: IO[bytes], path: str) -> str:
    """What a client of another kind does with the token."""
    nonce = "0" * 64
    _send(line, 0, "challenge", nonce=nonce)
    said = msgspec.json.decode(answers.readline())["result"]
    with open(token_file(path, os.environ)) as file:
        token = file.read().encode()
    for side in ("pinfold service", "pinfold client"):
        text = f"{side}{nonce}{said['nonce']}".encode()
        proof = hmac.new(token, text, "sha256").hexdigest()
        assert (proof == said["proof"]) == (side == "pinfold service")
    return proof


def _memory(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def a_hundred_sessions_at_once() -> None:
    make_room()  # as `pinfold serve` does
    with client({"network": {"access": "none"}}) as opened:
        sessions = [opened.create_session([os.getcwd()]) for _ in range(100)]
        running = [each.start(f"echo {number}; sleep 1000") for number, each in enumerate(sessions)]
        for number, execution in enumerate(running):
            assert next(execution.events()).params["data"] == f"{number}\n"
        assert len(live_sessions()) == 100
    assert live_sessions() == []


# The socket


def the_socket_is_the_users_own_and_wants_the_token() -> None:
    path = os.path.expanduser("~/s")
    try:
        Client.connect(path)
    except PinfoldError as error:
        assert "no service listens there" in str(error), error
    service = Service(settings={}, cwd=os.getcwd())
    listener = ServiceListener(path, service, os.environ)
    thread = threading.Thread(target=listener.serve)
    thread.start()
    try:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(listener.token_file).st_mode) == 0o600
        with Client.connect(path) as opened:
            created = opened.create_session([os.getcwd()])
            # What runs in a pen cannot read the token, nor reach the socket.
            assert created.run(f"cat {listener.token_file}").code == 1
            line = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
            assert created.run(["python3", "-c", line]).code != 0
        for proof in ("", "wrong", "0" * 64, "\xe4"):
            with socket.socket(socket.AF_UNIX) as stranger, stranger.makefile("rb") as answers:
                stranger.connect(path)
                _send(stranger, 1, "initialize", proof=proof)
                _send(stranger, 2, "createSession", projects=[os.getcwd()])
                for _ in range(2):
                    assert msgspec.json.decode(answers.readline())["error"]["data"]["kind"] == "unauthorized"
        names = vars(listening)
        user_of, names["user_of"] = names["user_of"], lambda _: os.geteuid() + 1
        with socket.socket(socket.AF_UNIX) as other, other.makefile("rb") as answers:
            other.connect(path)
            assert b"another user" in answers.readline() and answers.readline() == b""
        names["user_of"] = user_of
        try:
            ServiceListener(path, service, os.environ)
        except PinfoldError as error:
            assert "a service listens there already" in str(error)
        else:
            raise AssertionError("two listen at one place")
        with Client.connect(path) as opened:
            assert opened.welcome.sandbox_supported
    finally:
        listener.close()
        thread.join()
    assert not os.path.exists(path)


def neither_side_sends_the_token() -> None:
    """Nor does one that does not know it learn more than a nonce, be it in the place of the other."""
    path = os.path.expanduser("~/s")
    listener = ServiceListener(path, Service(settings={}, cwd=os.getcwd()), os.environ)
    token = listener.service.token
    thread = threading.Thread(target=listener.serve)
    thread.start()
    try:
        with socket.socket(socket.AF_UNIX) as stranger, stranger.makefile("rb") as answers:
            stranger.connect(path)

            def tells(method: str, **params: str) -> Any:
                _send(stranger, 1, method, **params)
                line = answers.readline()
                assert token.encode() not in line
                return msgspec.json.decode(line)

            for nonce in ("", "0" * 63, "0" * 65, "A" * 64, "0" * 63 + "\n", "\u0660" * 64):
                assert tells("challenge", nonce=nonce)["error"]["data"]["kind"] == "invalid"
            assert tells("initialize", token=token)["error"]["data"]["kind"] == "invalid", (
                "the old way is gone"
            )
            told = tells("challenge", nonce="0" * 64)["result"]
            # What the service says of itself is no proof of the client's, whatever was the client's nonce.
            assert tells("initialize", proof=told["proof"])["error"]["data"]["kind"] == "unauthorized"
            again = tells("challenge", nonce=told["nonce"])["result"]
            assert again["nonce"] != told["nonce"]
            assert tells("initialize", proof=again["proof"])["error"]["data"]["kind"] == "unauthorized"
            # A proof is for one challenge, and for one attempt.
            proof = _proven(stranger, answers, path)
            assert tells("initialize", proof="0" * 64)["error"]["data"]["kind"] == "unauthorized"
            assert tells("initialize", proof=proof)["error"]["data"]["kind"] == "unauthorized"
            tells("challenge", nonce="0" * 64)
            assert tells("initialize", proof=proof)["error"]["data"]["kind"] == "unauthorized"
            assert tells("initialize", proof=_proven(stranger, answers, path))["result"]["version"]
    finally:
        listener.close()
        thread.join()


def a_client_tells_nothing_to_what_took_the_sockets_place() -> None:
    path = os.path.expanduser("~/s")
    listener = ServiceListener(path, Service(settings={}, cwd=os.getcwd()), os.environ)
    os.unlink(path)
    heard: list[bytes] = []
    answered = (
        {"result": {"nonce": "1" * 64, "proof": "2" * 64}},
        {"result": {"nonce": "1" * 64}},
        {"result": {"serviceVersion": "v3"}},
        {"result": None},
        {"error": {"code": -32601, "message": "there is no method `challenge`"}},
    )
    with socket.socket(socket.AF_UNIX) as fake:
        fake.bind(path)
        fake.listen()

        def pretend() -> None:
            for answer in answered:
                other, _ = fake.accept()
                with other, other.makefile("rb") as lines:
                    for line in lines:
                        heard.append(line)
                        said = msgspec.json.decode(line)
                        # Its own nonce sent back, as if both sides had the same words.
                        other.sendall(
                            msgspec.json.encode({"jsonrpc": "2.0", "id": said["id"], **answer}) + b"\n"
                        )

        thread = threading.Thread(target=pretend)
        thread.start()
        for _ in answered:
            try:
                Client.connect(path)
            except PinfoldError as error:
                assert "does not prove that it is your service" in str(error), error
            else:
                raise AssertionError("it was believed")
        thread.join()
    assert len(heard) == len(answered)
    for line in heard:
        said = msgspec.json.decode(line)
        assert said["method"] == "challenge" and {*said["params"]} == {"nonce"}
        assert listener.service.token.encode() not in line
    listener.close()


def no_service_listens_where_commands_write() -> None:
    os.makedirs(outside := os.path.expanduser("~/granted"))
    settings = os.path.expanduser("~/settings.toml")
    with open(settings, "w") as file:
        file.write(f'[filesystem]\nwrite = ["{outside}"]\n')
    os.symlink(os.getcwd(), link := os.path.expanduser("~/link"))
    for path in ("s", f"{os.getcwd()}/s", f"{outside}/s", f"{link}/s", "/tmp/pinfold-test-s"):
        done = subprocess.run(
            [sys.executable, "-m", "pinfold", "serve", "--settings", settings, "--socket", path],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 125 and "no command can write: pinfold serve --socket" in done.stderr, done
        assert not os.path.lexists(path)


def no_command_gets_to_write_where_the_service_listens() -> None:
    os.makedirs(place := os.path.expanduser("~/place"))
    service = Service(settings={}, cwd=os.getcwd())
    listener = ServiceListener(f"{place}/s", service, os.environ)
    thread = threading.Thread(target=listener.serve)
    thread.start()
    wider = {"type": "WORKSPACE_READWRITE", "additionalReadwritePaths": [place]}
    try:
        with Client.connect(f"{place}/s", on_permission=Person("once")) as opened:
            created = opened.create_session([os.getcwd()])
            for call in (
                lambda: opened.create_session([place]),
                lambda: opened.call("addProject", sessionId=created.id, path=place),
                lambda: opened.call("requestPermission", sessionId=created.id, write=[place], why="why"),
                lambda: created.run("true", sandboxPolicy=wider),
            ):
                try:
                    call()
                except ServiceError as error:
                    assert "another socket there" in str(error), error
                else:
                    raise AssertionError("it was granted")
    finally:
        listener.close()
        thread.join()


def a_socket_that_nobody_listens_on_is_replaced() -> None:
    path = os.path.expanduser("~/s")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    ServiceListener(path, Service(settings={}), os.environ).close()
    with open(path, "w"):
        pass
    try:
        ServiceListener(path, Service(settings={}), os.environ)
    except PinfoldError as error:
        assert "something else than a socket is there" in str(error) and os.path.exists(path)
    else:
        raise AssertionError("a file was replaced")


def of_two_that_begin_at_once_one_listens() -> None:
    path, refused_ = os.path.expanduser("~/s"), []
    names = vars(listening)
    written, services = names["write_private"], [Service(settings={}) for _ in range(2)]

    def begin() -> None:
        try:
            ServiceListener(path, services[1], os.environ)
        except PinfoldError as error:
            refused_.append(str(error))

    other = threading.Thread(target=begin)

    def meanwhile(path: str, data: bytes) -> None:
        names["write_private"] = written
        other.start()
        other.join(0.3)
        written(path, data)

    names["write_private"] = meanwhile
    first = ServiceListener(path, services[0], os.environ)
    other.join()
    assert refused_ == [f"{path}: a service listens there already"]
    # One whose place was taken leaves the other's token alone.
    os.unlink(path)
    second = ServiceListener(path, services[1], os.environ)
    first.close()
    assert os.path.exists(path) and os.path.exists(second.token_file)
    second.close()
    assert not os.path.exists(path) and not os.listdir(os.path.dirname(second.token_file))


def a_service_without_a_free_descriptor_goes_on() -> None:
    path = os.path.expanduser("~/s")
    process = _served("--socket", path)
    try:
        assert process.stdout
        assert process.stdout.readline(), "it tells where it listens once it does"
        free = len(os.listdir(f"/proc/{process.pid}/fd")) + 10
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (free, free))
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(60)]
        for each in crowd:
            each.connect(path)
        wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) == free)
        assert process.poll() is None
        for each in crowd:
            each.close()
        with suppress(PermissionError):
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        with Client.connect(path) as opened:
            assert opened.welcome.methods
    finally:
        process.terminate()
        process.communicate()


TALKS = probes_of(globals(), "client", "session", "refused")

if __name__ == "__main__":
    run(globals())
