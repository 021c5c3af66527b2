"""The webhook against a real server, and notifications by a program on PATH: what is not signed is a no."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pinfold.approval import settle
from pinfold.approval.notifications import (
    ANSWER,
    QUESTION,
    SIGNATURE,
    Surroundings,
    signature,
    with_person_elsewhere,
)
from pinfold.model.permission import Answer, Settlement, SettlementOutcome
from pinfold.model.settings import AnswerSettings
from pinfold.session.serialize import question_as_plain
from pinfold.state.directory import webhook_secret
from tests.approval.questions import question
from tests.patience import wait_until

Given = tuple[dict[str, Any], str, bytes]
"""What the server got: the question, its signature, and the bytes."""
Sent = tuple[int, bytes, str]
"""What it answers: status, body, signature."""


@contextmanager
def receiver(answer: Callable[[Given], Sent]) -> Iterator[tuple[str, list[Given]]]:
    heard: list[Given] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            given = json.loads(body), self.headers[SIGNATURE], body
            heard.append(given)
            status, told, signed = answer(given)
            self.send_response(status)
            self.send_header("Content-Length", str(len(told)))
            self.send_header(SIGNATURE, signed)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, format: str, *arguments: object) -> None:
            """The tests read nothing of it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook?to=me", heard
        finally:
            server.shutdown()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.defpath}"}


def around(environ: dict[str, str], *writable: str, **settings: Any) -> Surroundings:
    return Surroundings(
        lambda: AnswerSettings(**settings),
        environ,
        lambda: writable,
        question_as_plain,
        lambda: webhook_secret(environ),
    )


def asked(url: str, environ: dict[str, str], **more: Any) -> Settlement:
    settings = {"wait": 30.0, **more}
    return settle(question(), with_person_elsewhere((), around(environ, webhook=url, **settings)))


def signed(environ: dict[str, str], nonce: str, **answer: Any) -> Sent:
    body = json.dumps({"nonce": nonce, **answer}).encode()
    return 200, body, signature(webhook_secret(environ), ANSWER, nonce, body)


def test_a_signed_yes_is_one(environ: dict[str, str]) -> None:
    with receiver(lambda given: signed(environ, given[0]["nonce"], answer="once")) as (url, heard):
        settled = asked(url, environ)
        assert (settled.answer, settled.outcome) == (Answer.ONCE, SettlementOutcome.GRANTED)
        asked(url, environ)
    (told, mark, body), (other, _, _) = heard
    assert mark == signature(webhook_secret(environ), QUESTION, told["nonce"], body)
    assert told["question"]["command"] == question().command and "once" in told["question"]["choices"]
    assert told["nonce"] != other["nonce"]


def test_a_signed_no_is_one(environ: dict[str, str]) -> None:
    with receiver(lambda given: signed(environ, given[0]["nonce"], answer="no")) as (url, _):
        assert asked(url, environ).is_refusal


def test_an_answer_counts_once(environ: dict[str, str]) -> None:
    """Whoever has heard an answer cannot give it to another question."""
    kept: list[Sent] = []

    def answer(given: Given) -> Sent:
        kept.append(kept[0] if kept else signed(environ, given[0]["nonce"], answer="once"))
        return kept[-1]

    with receiver(answer) as (url, _):
        assert asked(url, environ).answer is Answer.ONCE
        assert asked(url, environ).answer is Answer.NO


YES = {"answer": "once"}
FORGERIES: dict[str, Callable[[dict[str, str], Given], Sent]] = {
    "unsigned": lambda env, got: (200, signed(env, got[0]["nonce"], **YES)[1], ""),
    "another secret": lambda env, got: (
        200,
        signed(env, got[0]["nonce"], **YES)[1],
        signature(b"x" * 64, ANSWER, got[0]["nonce"], signed(env, got[0]["nonce"], **YES)[1]),
    ),
    "the question's own signature": lambda _, got: (200, got[2], got[1]),
    "another text": lambda env, got: (200, b'{"answer": "once"}', signed(env, got[0]["nonce"], **YES)[2]),
    "another nonce in it": lambda env, got: (
        200,
        (body := json.dumps({"nonce": "0" * 64, **YES}).encode()),
        signature(webhook_secret(env), ANSWER, got[0]["nonce"], body),
    ),
    "not offered": lambda env, got: signed(env, got[0]["nonce"], answer="rule"),
    "no answer at all": lambda env, got: signed(env, got[0]["nonce"], answer="maybe"),
    "a field that is unknown": lambda env, got: signed(env, got[0]["nonce"], **YES, rules=["*"]),
    "a redirection": lambda env, got: (302, *signed(env, got[0]["nonce"], **YES)[1:]),
    "an error": lambda env, got: (500, *signed(env, got[0]["nonce"], **YES)[1:]),
    "too long": lambda env, got: (
        200,
        (body := signed(env, got[0]["nonce"], **YES)[1] + b" " * (1 << 17)),
        signature(webhook_secret(env), ANSWER, got[0]["nonce"], body),
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_the_person_did_not_sign_is_a_no(forgery: str, environ: dict[str, str]) -> None:
    with receiver(lambda given: FORGERIES[forgery](environ, given)) as (url, heard):
        settled = asked(url, environ)
        assert settled.answer is Answer.NO and len(heard) == 1, settled


def test_a_webhook_that_cannot_say_is_nobody(environ: dict[str, str]) -> None:
    with receiver(lambda _: (204, b"", "")) as (url, _):
        assert asked(url, environ).outcome is SettlementOutcome.NOBODY
    settled = asked(url, environ)  # nothing listens there any more
    assert settled.answer is Answer.NO and "could not be asked" in settled.by


def test_a_late_answer_is_a_no(environ: dict[str, str]) -> None:
    over = threading.Event()

    def answer(given: Given) -> Sent:
        over.wait(60)
        return signed(environ, given[0]["nonce"], answer="once")

    with receiver(answer) as (url, _):
        settled = asked(url, environ, wait=0.1)
        assert settled.answer is Answer.NO and "no answer within" in settled.by
        looks = iter([False, True, True])
        approvers = with_person_elsewhere((), around(environ, webhook=url))
        settled = settle(question(), approvers, is_withdrawn=lambda: next(looks, True))
        assert settled.outcome is SettlementOutcome.WITHDRAWN
        over.set()


def test_others_who_can_read_the_secret_end_it(environ: dict[str, str]) -> None:
    webhook_secret(environ)
    file = Path(environ["HOME"], ".local/state/pinfold/webhook.key")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    with receiver(lambda given: (200, given[2], "")) as (url, heard):
        assert asked(url, environ).answer is Answer.NO and not heard


# Notifications


def stub(environ: dict[str, str]) -> Path:
    """A notify-send that writes down its arguments."""
    program = Path(environ["HOME"], "bin/notify-send")
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" > "$HOME/told.new"; mv "$HOME/told.new" "$HOME/told"\n'
    )
    program.chmod(0o755)
    return Path(environ["HOME"], "told")


def test_a_question_is_notified_before_the_page_is_asked(environ: dict[str, str]) -> None:
    told = stub(environ)

    class Page:
        is_page = True

        def __call__(self, _question: object) -> Answer:
            wait_until(told.exists)
            return Answer.ONCE

    approvers = with_person_elsewhere((Page(),), around(environ, notify=True))
    assert settle(question(), approvers).answer is Answer.ONCE
    app, dashes, title, body = told.read_text().splitlines()
    assert (app, dashes) == ("--app-name=Pinfold", "--") and title.startswith("Pinfold asks: "), title
    assert "`pinfold web`" in body


def test_no_program_of_a_command_is_started(environ: dict[str, str]) -> None:
    told = stub(environ)
    for surroundings in (around(environ), around(environ, environ["HOME"], notify=True)):
        assert settle(question(), with_person_elsewhere((), surroundings)).answer is Answer.NO
    assert settle(question(), with_person_elsewhere((), around(environ, notify=True))).answer is Answer.NO
    wait_until(told.exists)  # the one that may be started has been; the others would have been before
    assert told.read_text().count("Pinfold asks") == 1
