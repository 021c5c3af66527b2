"""The page with all that it takes: one for each user, held by a lock, announced by a file that no pen can
see."""

import errno
import fcntl
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread

import msgspec

from pinfold.model.errors import PinfoldError
from pinfold.state.directory import ELSEWHERE, write_private
from pinfold.state.web_page import PageAddress, find_page, page_directory, page_file
from pinfold.web.approver import SOCKET
from pinfold.web.open_questions import OpenQuestions
from pinfold.web.question_socket import QuestionServer
from pinfold.web.request_guard import LOOPBACK
from pinfold.web.server import PageServer


class WebPage:
    """The page, served from now on until `close`; `running` says where another process has it already."""

    def __init__(self, environ: Mapping[str, str], port: int = 0) -> None:
        directory = page_directory(environ)
        self._file = page_file(environ)
        self._lock = _lock_of(directory)
        self._servers: list[PageServer | QuestionServer] = []
        self._is_serving = False
        self.running: PageAddress | None = None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self.running = find_page(environ)
            if self.running is None:
                raise PinfoldError("another `pinfold web` is starting; try again") from None
            return
        try:
            self._begin(directory, port)
        except OSError as error:
            self.close()
            raise PinfoldError(_trouble(error, port, directory)) from None

    def _begin(self, directory: str, port: int) -> None:
        board = OpenQuestions()
        server = _server(port, board)
        self._servers.append(server)
        self.place = PageAddress(server.host, server.port, server.token)
        # Announced before the first client: from here on the gate knows which port is not for pens.
        write_private(self._file, msgspec.json.encode(self.place))
        self._servers.append(QuestionServer(directory, board))

    def serve(self) -> None:
        self._is_serving = True
        for server in self._servers:
            Thread(target=server.serve_forever, name="pinfold-web", daemon=True).start()

    def close(self) -> None:
        if self.running is not None:
            return
        for server in self._servers:
            if self._is_serving:
                server.shutdown()  # a waiting client would keep it open
            server.server_close()
        for path in (self._file, os.path.join(os.path.dirname(self._file), SOCKET)):
            with suppress(FileNotFoundError):
                os.unlink(path)
        os.close(self._lock)


def _lock_of(directory: str) -> int:
    """The file whose lock says that there is a page, opened; its directory is made."""
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        return os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise PinfoldError(f"the page cannot be opened: {why}; {ELSEWHERE}") from None


def _trouble(error: OSError, port: int, directory: str) -> str:
    why = error.strerror or str(error)
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        return f"port {port} of loopback: {why}; choose another with --port"
    return f"the page cannot be opened: {directory}: {why}"


def _server(port: int, board: OpenQuestions) -> PageServer:
    """Listens on a new random address of loopback; Linux has 16 million, other systems may have one."""
    token = secrets.token_urlsafe(32)
    fresh = ".".join(("127", *(str(1 + secrets.randbelow(254)) for _ in range(3))))
    try:
        return PageServer(fresh, port, board, token)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
    return PageServer(LOOPBACK, port, board, token)
