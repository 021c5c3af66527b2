"""A session asks, a browser answers: over the real socket and real HTTP."""

import errno
import os
import pty
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from pinfold.approval import is_there, settle
from pinfold.model.errors import PinfoldError
from pinfold.model.permission import Answer, Capability, Reach
from pinfold.state.web_page import find_page, page_directory, page_file
from pinfold.web import WebApprover
from pinfold.web.approver import connect
from pinfold.web.instance import WebPage
from pinfold.web.open_questions import OpenQuestions
from pinfold.web.server import MOST_CLIENTS
from pinfold.web.wire import AnswerReceipt, PageAnswer, sheet_of
from tests.patience import PATIENCE
from tests.web.page_world import EVERY, Asking, Tab, page, question

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the socket is found by way of /proc")


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PinfoldError, match=r"the page cannot be opened: .*/file.*XDG_STATE_HOME"):
        WebPage({"XDG_STATE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path)})


def test_an_answer_reaches_whoever_asked(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        tab = Tab(opened)
        asking = Asking(environ, question(description="why <i>not</i>"))
        (shown,) = tab.questions()
        content = shown["content"]
        assert content["headline"] == "run this in the sandbox" and 50 < shown["left"] <= 60
        assert content["command"] == [
            [{"text": "npm publish && ", "marked": False}, {"text": "git push --force", "marked": True}]
        ]
        assert content["says"] == "why <i>not</i>" and ["in", "/home/me/site"] in content["facts"]
        assert [each["answer"] for each in content["offered"][0]["choices"]] == [
            "once",
            "session",
            "always",
            "no",
        ]
        assert tab.answer(shown["id"], "session") == (200, {})
        reply = asking.wait()
        assert reply is not None and (reply.answer, reply.reach) == (Answer.SESSION, Reach.COMMAND)
        tab.questions(count=0)
        assert tab.answer(shown["id"], "once")[0] == 409


def test_what_was_answered_stands_no_more() -> None:
    """At once, though whoever asked may hang up later; with a trouble it still stands."""
    board = OpenQuestions()
    heard = [AnswerReceipt("a rule is missing"), AnswerReceipt()]
    standing = board.put(sheet_of(question(), 60, ""), lambda _: heard.pop(0))
    assert standing is not None
    assert board.answer(standing.id, PageAnswer(Answer.ONCE)) == AnswerReceipt("a rule is missing")
    assert board.wait_for_news(-1, 0)[1] == [standing]
    assert board.answer(standing.id, PageAnswer(Answer.ONCE)) == AnswerReceipt()
    assert board.wait_for_news(-1, 0)[1] == [] and board.answer(standing.id, PageAnswer(Answer.ONCE)) is None


def test_a_wider_answer_is_what_was_offered(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        tab = Tab(opened)
        asking = Asking(environ, question(capability=Capability.CONNECT, host="a.test", port=443))
        (shown,) = tab.questions()
        assert [each["reach"] for each in shown["content"]["offered"]] == ["command", "target"]
        for given in ({"answer": "rule"}, {"answer": "once", "reach": "directory"}):
            assert tab.answer(shown["id"], **given) == (422, {"error": "that was not offered"})
        assert tab.answer(shown["id"], "perhaps")[0] == 400
        assert tab.answer(shown["id"], "always", reach="target")[0] == 200
        reply = asking.wait()
        assert reply is not None and reply.reach is Reach.TARGET


def test_a_rule_is_worded_by_the_person(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        tab = Tab(opened)
        asked = question(choices=(*EVERY, Answer.RULE), rules=("git push",))
        asking = Asking(environ, asked)
        (shown,) = tab.questions()
        status, said = tab.answer(shown["id"], "rule", rules=["git push; rm"])
        assert status == 422 and said["error"].startswith("that is no rule")
        assert tab.answer(shown["id"], "rule", rules=[])[0] == 422
        assert tab.answer(shown["id"], "rule", rules=["git push origin"])[0] == 200
        reply = asking.wait()
        assert reply is not None and reply.rules == ("git push origin",)


def test_what_nobody_waits_for_is_taken_off(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        tab, asked, gone = Tab(opened), question(), threading.Event()
        approver = WebApprover(environ)
        thread = threading.Thread(
            target=settle, args=(asked, [approver]), kwargs={"is_withdrawn": gone.is_set}
        )
        thread.start()
        (shown,) = tab.questions()
        gone.set()
        tab.questions(count=0)
        thread.join(PATIENCE)
        assert tab.answer(shown["id"], "once")[0] == 409


def test_a_run_without_a_terminal_says_that_it_waits_for_the_page(tmp_path: Path) -> None:
    settings = tmp_path / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('mode = "ask_every_time"\n')
    (work := tmp_path / "work").mkdir()
    with page(tmp_path) as (opened, environ):
        run = subprocess.Popen(
            [sys.executable, "-c", "from pinfold.cli import entry; entry()", "run", "--", "touch", "x"],
            cwd=work,
            env={**os.environ, **environ},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        tab = Tab(opened)
        (shown,) = tab.questions()
        tab.answer(shown["id"], "no")
        said = run.communicate(timeout=PATIENCE)[1]
    waits = "pinfold: answer this on the page of `pinfold web`: run this in the sandbox"
    assert said.startswith(waits) and run.returncode == 126


def test_nobody_answers_in_time(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        reply = Asking(environ, question(), seconds=0.3).wait()
        assert reply is not None and reply.answer is Answer.NO and "within 0.3 seconds" in reply.why
        tab = Tab(opened)
        tab.questions(count=0)
        assert tab.send("GET", "/api/questions")[1]["version"] == 2  # it stood, and was taken off


def test_without_a_page_the_next_one_is_asked(tmp_path: Path) -> None:
    approver = WebApprover({"HOME": str(tmp_path)})
    assert not is_there(approver) and approver(question()) is None
    with page(tmp_path) as (opened, environ):
        assert is_there(approver)
        Asking(environ, question())
        Tab(opened).questions()
    assert not is_there(approver) and find_page(environ) is None


def test_nothing_that_is_sent_to_the_socket_is_an_answer(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        asking = Asking(environ, question())
        (shown,) = Tab(opened).questions()
        for text in (
            f'{{"id": "{shown["id"]}", "given": {{"answer": "once"}}}}\n',
            '{"answer": "once"}\n',
            "\n",
            "x" * 5000,
        ):
            sock = connect(environ)
            assert sock is not None
            with sock:
                sock.settimeout(30)
                sock.sendall(text.encode())
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(1) == b""
        assert asking.reply is None and len(Tab(opened).questions()) == 1


def test_strangers_keep_nobody_from_the_page(tmp_path: Path) -> None:
    """Any user of the machine can connect; one who never ends what they say makes room for the person."""
    with page(tmp_path) as (opened, environ):
        Asking(environ, question())
        place = (opened.place.host, opened.place.port)
        crowd = [socket.create_connection(place) for _ in range(2 * MOST_CLIENTS)]
        for each in crowd:
            with suppress(OSError):
                each.sendall(b"GET / HTTP/1.1\r\nX: ")
        (shown,) = Tab(opened).questions()
        assert Tab(opened).answer(shown["id"], "no")[0] == 200
        for each in crowd:
            each.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user as well")
def test_another_users_page_is_none(tmp_path: Path) -> None:
    """One that lies in our directory all the same, as where somebody made that writable for others."""
    approver = WebApprover(environ := {"HOME": str(tmp_path)})
    os.makedirs(page_directory(environ))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(page_directory(environ), "questions"))
        os.seteuid(54321)
        server.listen()
        os.seteuid(0)
        assert not is_there(approver) and approver(question()) is None


def test_it_is_the_users_alone(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        directory = Path(page_directory(environ))
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path(page_file(environ)).stat().st_mode) == 0o600
        assert stat.S_IMODE((directory / "questions").stat().st_mode) == 0o600
        assert find_page(environ) == opened.place
        # On one address of loopback alone.
        assert opened.place.host.startswith("127.")
        for elsewhere in {"127.0.0.1", "127.0.0.2"} - {opened.place.host}:
            with socket.socket() as other:
                other.settimeout(2)
                assert other.connect_ex((elsewhere, opened.place.port)) != 0


def test_there_is_one_for_each_user(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        again = WebPage(environ)
        assert again.running == opened.place
        again.close()
        assert find_page(environ) == opened.place
    with socket.create_server(("", 0)) as everywhere, pytest.raises(PinfoldError, match="in use"):
        WebPage({"HOME": str(tmp_path / "other")}, everywhere.getsockname()[1])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 200),
        ("GET", "/page.js", None, 200),
        ("GET", "/../page.js", None, 404),
        ("GET", "/page/../../guard.py", None, 404),
        ("GET", "/api/answer", None, 404),
        ("POST", "/api/questions", b"{}", 404),
        ("POST", "/api/answer", b"not json", 400),
        ("POST", "/api/answer", b"[" * 30000, 400),
        ("POST", "/api/answer", b" " * 70000, 413),
        ("POST", "/api/answer", None, 413),
        ("PUT", "/api/answer", b"{}", 501),
        ("OPTIONS", "/api/answer", None, 501),
    ],
)
def test_what_is_answered(tmp_path: Path, method: str, path: str, body: bytes | None, status: int) -> None:
    with page(tmp_path) as (opened, _):
        assert Tab(opened).send(method, path, body)[0] == status


def test_a_length_is_what_it_says(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, _):
        assert Tab(opened).send("POST", "/api/answer", Content_Length=f"{70000:019}")[0] == 413


def test_every_answer_says_what_a_browser_may_do_with_it(tmp_path: Path) -> None:
    with page(tmp_path) as (opened, _):
        tab = Tab(opened)
        for path in ("/", "/page.js", "/none", "/api/questions"):
            headers = tab.send("GET", path)[2]
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert headers["X-Frame-Options"] == "DENY" and headers["Cache-Control"] == "no-store"
            assert "Access-Control-Allow-Origin" not in headers and "Set-Cookie" not in headers


def test_whoever_starts_it_at_a_terminal_is_told_how_it_ends(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "HOME": str(tmp_path)}
    environ.pop("XDG_STATE_HOME", None)
    words = [sys.executable, "-m", "pinfold", "web"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=theirs, env=environ)
    try:
        told = b""
        while b"press Ctrl-C here" not in told:
            told += os.read(ours, 1000)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        os.close(ours)
        os.close(theirs)


def test_the_verb_prints_the_address_and_leaves_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pinfold", "web"]
    environ = {**os.environ, "HOME": str(tmp_path)}
    environ.pop("XDG_STATE_HOME", None)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ)
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.") and "/#" in address
        second = subprocess.run(words, capture_output=True, text=True, env=environ, timeout=PATIENCE)
        assert second.stdout.strip() == address
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
    process.stdout.close()
    assert find_page(environ) is None


ENDED_AS_IT_BEGINS = """
import os, signal
from threading import Thread
from pinfold.cli import main
from pinfold.web import instance

class Ended(Thread):
    def start(self):
        super().start()
        os.kill(os.getpid(), signal.{name})

instance.Thread = Ended
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
raise SystemExit(main(["web"]))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_who_ends_it_as_it_begins_leaves_nothing_either(tmp_path: Path, name: str) -> None:
    environ = {**os.environ, "HOME": str(tmp_path)}
    environ.pop("XDG_STATE_HOME", None)
    words = [sys.executable, "-c", ENDED_AS_IT_BEGINS.format(name=name)]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "") and find_page(environ) is None
    assert os.listdir(page_directory(environ)) == ["lock"]


def test_a_full_disk_is_no_trouble_of_the_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pinfold.web.instance.write_private", full)
    with pytest.raises(PinfoldError, match=r"the page cannot be opened: .*: No space left on device"):
        WebPage({"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
