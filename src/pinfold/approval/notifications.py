"""A person who is neither at the terminal nor at the page: a notification, and a webhook that answers.

Both are off unless the user's or managed settings name them. A notification says that a question is open, and
answers nothing.

The webhook gets each question that no approver before it has answered, as JSON, and holds the request open
until its person has answered. Both are signed (HMAC-SHA256) with a secret in Pinfold's state, which no
sandbox shows. A question has a nonce of its own, which is signed with the answer: an answer holds for one
question, once, and a question's signature is no answer's. INVARIANT: any other reply is a no, and so
is no connection.

It is loaded with each session's first question, so it imports what it needs for the two when they are used.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import DecodeError, Struct, ValidationError, json

from pinfold.approval.chain import Approver
from pinfold.model.load_structs import ready
from pinfold.model.permission import Answer, PermissionNeeded, Reach, Reply
from pinfold.model.settings import AnswerSettings

if TYPE_CHECKING:
    from http.client import HTTPConnection

SIGNATURE = "Pinfold-Signature"
VERSION = "v1="
QUESTION, ANSWER = b"pinfold question", b"pinfold answer"
"""What a signature begins with: one of either kind is none of the other."""
LONGEST = 1 << 16
"""Bytes of an answer."""
LONGEST_TITLE = 300
"""Characters of a notification."""
OPEN_PAGE = "Answer it on the page of `pinfold web`; without an answer it is a no."


class WebhookAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What the webhook's person said."""

    nonce: str
    """The question's own."""
    answer: Answer
    reach: Reach = Reach.COMMAND


class Surroundings(Struct, frozen=True):
    """What the session that asks has, as it is now."""

    settings: Callable[[], AnswerSettings]
    environ: Mapping[str, str]
    writable: Callable[[], tuple[str, ...]]
    """Where commands can write: no program of theirs is started."""
    plain: Callable[[PermissionNeeded], dict[str, Any]]
    """A question as other programs read it."""
    secret: Callable[[], bytes]


def with_person_elsewhere(approvers: tuple[Approver, ...], around: Surroundings) -> tuple[Approver, ...]:
    """The approvers, with a notification before the page is asked, and the webhook after all of them."""
    page = next((number for number, each in enumerate(approvers) if is_page(each)), len(approvers))
    return (*approvers[:page], DesktopNotice(around), *approvers[page:], Webhook(around))


def is_page(approver: Approver) -> bool:
    return bool(getattr(approver, "is_page", False))


class DesktopNotice:
    """Tells the desktop of a question, and leaves the answer to the next approver."""

    name = "the desktop notification"

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @staticmethod
    def is_there() -> bool:
        return False

    def __call__(self, question: PermissionNeeded) -> None:
        if not self._around.settings().notify:
            return
        import subprocess

        from pinfold.approval.wording import headline
        from pinfold.isolated import isolated_environment, program_outside

        writable = self._around.writable()
        program = program_outside("notify-send", self._around.environ, writable)
        if program:
            title = headline(question, str)[:LONGEST_TITLE]
            words = [program, "--app-name=Pinfold", "--", f"Pinfold asks: {title}", OPEN_PAGE]
            with suppress(OSError):
                told = subprocess.Popen(
                    words,
                    env=isolated_environment(self._around.environ, writable),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                threading.Thread(target=told.wait, name="pinfold-notice", daemon=True).start()


class Webhook:
    """May be used from any thread, about several things at a time."""

    name = "the person behind the webhook"

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._lock = threading.Lock()
        self._open: dict[str, HTTPConnection] = {}

    def is_there(self) -> bool:
        return bool(self._around.settings().webhook)

    def withdraw(self, question: PermissionNeeded) -> None:
        """Ends the request: its answer is not awaited any more."""
        with self._lock:
            connection = self._open.pop(question.request_id, None)
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(2)  # both ways

    def __call__(self, question: PermissionNeeded) -> Reply | None:
        settings = self._around.settings()
        if not settings.webhook:
            return None
        from http.client import HTTPConnection, HTTPException, HTTPSConnection
        from urllib.parse import urlsplit

        place = urlsplit(settings.webhook)
        seconds = settings.question_timeout
        kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
        connection = kind(place.hostname or "", place.port, timeout=seconds)
        with self._lock:
            self._open[question.request_id] = connection
        try:
            return self._asked(
                connection, f"{place.path or '/'}{place.query and '?'}{place.query}", question, seconds
            )
        except TimeoutError:
            return Reply(Answer.NO, why=f"gave no answer within {seconds:g} seconds")
        except (OSError, HTTPException, ValueError) as error:
            return Reply(Answer.NO, why=f"could not be asked: {error}")
        finally:
            with self._lock:
                self._open.pop(question.request_id, None)
            connection.close()

    def _asked(
        self, connection: "HTTPConnection", target: str, question: PermissionNeeded, seconds: float
    ) -> Reply | None:
        import hmac
        from secrets import token_hex
        from time import time

        secret, nonce = self._around.secret(), token_hex(32)
        choices = [choice for choice in question.choices if choice is not Answer.RULE]
        told = {"nonce": nonce, "sent": int(time()), "seconds": seconds}
        told |= {"question": {**self._around.plain(question), "choices": choices, "rules": []}}
        body = json.encode({**told, "reaches": question.reaches})
        headers = {"Content-Type": "application/json", SIGNATURE: signature(secret, QUESTION, nonce, body)}
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        given = response.read(LONGEST + 1)
        if response.status == 204:
            return None
        if response.status != 200 or len(given) > LONGEST:
            raise ValueError(f"it answered with status {response.status}")
        signed = signature(secret, ANSWER, nonce, given)
        if not hmac.compare_digest(response.headers.get(SIGNATURE, "").encode(), signed.encode()):
            raise ValueError("its answer is not signed with the secret")
        try:
            answer = json.decode(given, type=ready(WebhookAnswer))
        except (DecodeError, ValidationError) as error:
            raise ValueError(f"its answer is none: {error}") from None
        if not hmac.compare_digest(answer.nonce.encode(), nonce.encode()) or answer.answer not in choices:
            raise ValueError("its answer is to another question")
        return Reply(answer.answer, answer.reach)


def signature(secret: bytes, kind: bytes, nonce: str, body: bytes) -> str:
    """What shows that a holder of the secret wrote this, about the question of this nonce."""
    import hmac

    text = b"\n".join((kind, nonce.encode(), body))
    return VERSION + hmac.new(secret, text, "sha256").hexdigest()
