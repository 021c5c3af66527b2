"""Takes questions of sessions on a unix socket, each on a connection of its own, and brings back the answers.

A question is withdrawn by hanging up, which a process that dies does too.
"""

import os
import queue
import socket
import socketserver
from contextlib import suppress
from threading import BoundedSemaphore

import msgspec

from pinfold.kernel.socket_info import user_of
from pinfold.model.load_structs import ready
from pinfold.web.approver import SOCKET
from pinfold.web.open_questions import OpenQuestions
from pinfold.web.server import BoundedThreadingMixIn
from pinfold.web.wire import LONGEST, AnswerReceipt, PageAnswer, PageQuestion, line_of

MOST_CLIENTS = 256
SOON = 5.0
"""Seconds that a session has to ask after it connects, and to take an answer."""


class QuestionServer(BoundedThreadingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 64

    def __init__(self, directory: str, board: OpenQuestions) -> None:
        """Preconditions: no other process serves this directory (`instance`)."""
        self.board = board
        self.room = BoundedSemaphore(MOST_CLIENTS)
        held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                os.unlink(SOCKET, dir_fd=held)
            super().__init__(f"/proc/self/fd/{held}/{SOCKET}", _Asker)
            os.chmod(f"/proc/self/fd/{held}/{SOCKET}", 0o600)
        finally:
            os.close(held)

    def verify_request(self, request: object, client_address: object) -> bool:
        assert isinstance(request, socket.socket)  # noqa: S101  (for mypy)
        return user_of(request) == os.geteuid() and super().verify_request(request, client_address)


class _Asker(socketserver.StreamRequestHandler):
    server: QuestionServer

    def handle(self) -> None:
        self.connection.settimeout(SOON)
        try:
            content = msgspec.json.decode(self.rfile.readline(LONGEST), type=ready(PageQuestion))
        except (OSError, msgspec.DecodeError):
            return
        heard: queue.SimpleQueue[AnswerReceipt | None] = queue.SimpleQueue()
        standing = self.server.board.put(content, lambda given: self._give(given, heard))
        if standing is None:
            return
        try:
            self.connection.settimeout(content.seconds)
            while line := self.rfile.readline(LONGEST):
                heard.put(msgspec.json.decode(line, type=ready(AnswerReceipt)))
        except (OSError, msgspec.DecodeError):
            pass  # no answer came in time, or it makes no sense: the question is closed
        finally:
            self.server.board.remove(standing)
            heard.put(None)

    def _give(
        self, given: PageAnswer, heard: "queue.SimpleQueue[AnswerReceipt | None]"
    ) -> AnswerReceipt | None:
        try:
            self.connection.sendall(line_of(given))
            return heard.get(timeout=SOON)
        except (OSError, queue.Empty):
            return None
