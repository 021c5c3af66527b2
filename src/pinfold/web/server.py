"""The page over HTTP, on loopback alone.

`GET /api/questions?after=N` waits until there is something else to see than version N; `POST /api/answer`
says what the person said. The rest are the page's own files.

Every user of this machine can connect: without free room, a client that has not shown the token has to leave.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Lock
from time import monotonic
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct

from pinfold.model.load_structs import ready
from pinfold.web.open_questions import OpenQuestions
from pinfold.web.request_guard import API, HEADERS, rejection_of
from pinfold.web.wire import PageAnswer

MOST_CLIENTS = 64
PATIENCE = 25.0
"""Seconds that a browser waits for news before the server answers that there are none."""
SOON = 1.0
"""Seconds in which a client that was turned away has left."""
LONGEST_BODY = 1 << 16
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGE = os.path.join(os.path.dirname(__file__), "page")


class AnswerRequest(Struct, forbid_unknown_fields=True):
    id: str
    given: PageAnswer


def files() -> Mapping[str, tuple[str, bytes]]:
    """What the page is made of: path -> type and content."""
    found = {}
    for name in os.listdir(PAGE):
        with open(os.path.join(PAGE, name), "rb") as file:
            found[f"/{name}"] = TYPES[os.path.splitext(name)[1]], file.read()
    found["/"] = found["/index.html"]
    return found


class BoundedThreadingMixIn(ThreadingMixIn):
    daemon_threads = True
    room: BoundedSemaphore
    """Taken by the thread that accepts a client."""

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002
        return self.room.acquire(blocking=False)

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self.room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Does nothing: the client has gone in the midst of its request."""


class PageServer(BoundedThreadingMixIn, HTTPServer):
    allow_reuse_address = True
    request_queue_size = MOST_CLIENTS

    def __init__(self, host: str, port: int, board: OpenQuestions, token: str) -> None:
        self.board, self.token = board, token
        self.files = files()
        self.room = BoundedSemaphore(MOST_CLIENTS)
        self._lock = Lock()
        self._strangers: dict[object, None] = {}
        """Clients that have not shown the token, the oldest first."""
        super().__init__((host, port), _Handler)

    def verify_request(self, request: object, client_address: object) -> bool:
        has_room = super().verify_request(request, client_address) or (
            self._has_turned_one_away() and self.room.acquire(timeout=SOON)
        )
        if has_room:
            with self._lock:
                self._strangers[request] = None
        return has_room

    def _has_turned_one_away(self) -> bool:
        with self._lock:
            stranger = next(iter(self._strangers), None)
            self._strangers.pop(stranger, None)
        if isinstance(stranger, socket.socket):
            with suppress(OSError):
                stranger.shutdown(socket.SHUT_RDWR)
        return stranger is not None

    def know(self, request: object) -> None:
        """It has shown the token, or is gone."""
        with self._lock:
            self._strangers.pop(request, None)

    def shutdown_request(self, request: object) -> None:
        self.know(request)
        super().shutdown_request(request)  # type: ignore[arg-type]

    @property
    def host(self) -> str:
        return str(self.server_address[0])

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE + 5
    server_version, sys_version = "pinfold", ""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self._is_refused(url.path):
            return
        if url.path == "/api/questions":
            self._tell_questions(parse_qs(url.query).get("after", ["-1"])[0])
        elif found := self.server.files.get(url.path):
            self._send(200, found[1], f"{found[0]}; charset=utf-8")
        else:
            self._fail(404, "there is nothing here")

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        if self._is_refused(url.path):
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()) or len(length) > 9 or int(length) > LONGEST_BODY:
            self._fail(413, f"an answer has a length, and at most {LONGEST_BODY} bytes")
        elif url.path != "/api/answer":
            self._fail(404, "there is nothing here")
        else:
            self._take_answer(self.rfile.read(int(length)))

    def _is_refused(self, path: str) -> bool:
        found = rejection_of(
            self.command, path, self.headers, self.server.host, self.server.port, self.server.token
        )
        if found:
            self._fail(found.status, found.why)
        elif path.startswith(API):
            self.server.know(self.connection)
        return found is not None

    def _tell_questions(self, after: str) -> None:
        seen = int(after) if after.isascii() and after.isdecimal() and len(after) < 16 else -1
        version, standing = self.server.board.wait_for_news(seen, PATIENCE)
        now = monotonic()
        told = [
            {"id": each.id, "left": max(0.0, each.deadline - now), "content": each.content}
            for each in standing
        ]
        self._say(200, {"version": version, "questions": told})

    def _take_answer(self, body: bytes) -> None:
        try:
            said = msgspec.json.decode(body, type=ready(AnswerRequest))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self._fail(400, f"not an answer: {error}")
            return
        heard = self.server.board.answer(said.id, said.given)
        if heard is None:
            self._fail(409, "it is not asked any more")
        elif heard.trouble:
            self._fail(422, heard.trouble)
        else:
            self._say(200, {})

    def _fail(self, status: int, why: str) -> None:
        self.close_connection = True
        self._say(status, {"error": why})

    def _say(self, status: int, value: object) -> None:
        self._send(status, msgspec.json.encode(value), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing: requests are not worth a line on the terminal."""
