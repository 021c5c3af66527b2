"""A session's side: puts questions to the person at the page, if `pinfold web` runs."""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from time import monotonic

import msgspec

from pinfold.kernel.socket_info import user_of
from pinfold.model.home import home_of
from pinfold.model.load_structs import ready
from pinfold.model.permission import Answer, PermissionNeeded, Reply
from pinfold.session.request import rule_trouble
from pinfold.state.web_page import page_directory
from pinfold.web.wire import LONGEST, AnswerReceipt, PageAnswer, line_of, sheet_of

SOCKET = "questions"
SECONDS = 120.0
GRACE = 2.0
"""Seconds that the page may be sooner or later than we are at the end of a question's time."""


def connect(environ: Mapping[str, str]) -> socket.socket | None:
    """A line to the page; None if there is none, or if it is another user's."""
    try:
        # Through the directory's descriptor: a socket's path has at most 107 bytes.
        directory = os.open(page_directory(environ), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(f"/proc/self/fd/{directory}/{SOCKET}")
        if user_of(sock) != os.geteuid():
            raise PermissionError(SOCKET)
    except OSError:
        sock.close()
        return None
    finally:
        os.close(directory)
    return sock


class WebApprover:
    """May be used from any thread, about several things at a time."""

    name = "the person at the page"
    is_page = True
    """A notification comes before it."""

    def __init__(
        self,
        environ: Mapping[str, str],
        seconds: float = SECONDS,
        told: Callable[[PermissionNeeded], None] = lambda _question: None,
    ) -> None:
        self._environ = environ
        self._told = told
        """Called with each question that the page has got."""
        self.seconds = seconds
        """How long a question stays open."""
        self._lock = Lock()
        self._open: dict[str, socket.socket] = {}

    def is_there(self) -> bool:
        sock = connect(self._environ)
        if sock is None:
            return False
        sock.close()
        return True

    def withdraw(self, question: PermissionNeeded) -> None:
        """Takes a question off the page. From any thread."""
        with self._lock:
            sock = self._open.pop(question.request_id, None)
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def __call__(self, question: PermissionNeeded) -> Reply | None:
        sock = connect(self._environ)
        if sock is None:
            return None
        with sock:
            with self._lock:
                self._open[question.request_id] = sock
            try:
                return self._asked(sock, question)
            except OSError:
                return None  # the page has gone, so no person can answer there
            finally:
                with self._lock:
                    self._open.pop(question.request_id, None)

    def _asked(self, sock: socket.socket, question: PermissionNeeded) -> Reply | None:
        sock.sendall(line_of(sheet_of(question, self.seconds, home_of(self._environ))))
        self._told(question)
        deadline = monotonic() + self.seconds
        with sock.makefile("rb") as lines:
            while (rest := deadline - monotonic()) > 0:
                sock.settimeout(rest + GRACE)
                try:
                    line = lines.readline(LONGEST)
                except TimeoutError:
                    break
                if not line and monotonic() < deadline - GRACE:
                    return None
                if not line:
                    break
                given = msgspec.json.decode(line, type=ready(PageAnswer))
                trouble = _trouble(given, question)
                sock.sendall(line_of(AnswerReceipt(trouble)))
                if not trouble:
                    return Reply(given.answer, given.reach, given.rules)
        return Reply(Answer.NO, why=f"gave no answer within {self.seconds:g} seconds")


def _trouble(given: PageAnswer, question: PermissionNeeded) -> str:
    if given.answer is not Answer.RULE:
        return ""
    if len(given.rules) != len(question.rules) or not all(rule.strip() for rule in given.rules):
        return "a rule is missing"
    return next(filter(None, (rule_trouble(question, rule) for rule in given.rules)), "")
