"""A session and its commands that live in the service, as a client holds them.

Output of a command waits, a few pieces at a time, until `events` or `wait` takes it: a command whose output
is not taken holds up the others of its client.
"""

import os
import queue
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from pinfold.model.errors import PinfoldError

if TYPE_CHECKING:
    from pinfold.service.client import Client

HELD = 64
"""Pieces of output that may wait to be taken, for each execution."""

Plain = dict[str, Any]


class ServiceError(PinfoldError):
    """The service answered with an error; `data` says which rule spoke and what may be done next."""

    def __init__(self, code: int, message: str, data: Plain) -> None:
        super().__init__(message)
        self.code, self.data = code, data

    @property
    def kind(self) -> str:
        """What sort of error it is: `refused`, `unavailable`, `invalid` and so on (docs/service.md)."""
        return str(self.data.get("kind", ""))


class RemoteEvent(Struct, frozen=True):
    """`stdout`, `stderr`, `violation` or `exit`, with what it says."""

    name: str
    params: Plain


class RemoteResult(Struct, frozen=True):
    """How an execution ended: `code` is None where a signal ended it."""

    code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    stdout: str
    stderr: str
    violations: tuple[Plain, ...] = ()
    left_running: tuple[str, ...] = ()
    """What earlier commands have left running under other rules, a line each."""


class RemoteSession:
    """A session that lives in the service."""

    def __init__(self, client: "Client", described: Plain) -> None:
        self._client = client
        self.id: str = described["sessionId"]
        self.projects: tuple[str, ...] = tuple(described["projects"])
        self.cwd: str = described["cwd"]
        self.policy: Plain = described["policy"]
        self.notices: tuple[str, ...] = tuple(described["notices"])

    def call(self, method: str, **params: Any) -> Any:
        """A call about this session, and its answer."""
        return self._client.call(method, sessionId=self.id, **params)

    def forget(self, execution: "RemoteExecution") -> None:
        """Nothing comes of it any more."""
        self._client.forget(execution)

    def start(self, command: str | Sequence[str], **given: Any) -> "RemoteExecution":
        """Begins a command; `ServiceError` of kind `refused` if it may not be run."""
        execution = RemoteExecution(self, os.urandom(8).hex(), is_base64=given.get("encoding") == "base64")
        self._client.expect(execution)
        line = command if isinstance(command, str) else list(command)
        try:
            execution.decision = self.call("execute", command=line, executionId=execution.id, **given)
        except BaseException:
            self.forget(execution)
            raise
        return execution

    def run(self, command: str | Sequence[str], **given: Any) -> RemoteResult:
        """Starts a command, and waits for its end."""
        return self.start(command, **given).wait()

    def check(self, command: str | Sequence[str] | None = None, **given: Any) -> Plain:
        """What would be done about a command, or about a `path`, a `host`, a `tool`."""
        if command is not None:
            given["command"] = command if isinstance(command, str) else list(command)
        answer: Plain = self.call("check", **given)
        return answer

    def cancel(self) -> None:
        """Ends everything that it runs."""
        self.call("cancel")

    def add_project(self, path: str) -> tuple[str, ...]:
        """One more directory to work in, if a person or their settings let it; all that there are then."""
        self.projects = tuple(self.call("addProject", path=path)["projects"])
        return self.projects

    def request_permission(self, **wanted: Any) -> tuple[str, ...]:
        """`write`, `read`, `hosts`, `gitWrites`, and `why`: what is there now that was not before."""
        return tuple(self.call("requestPermission", **wanted)["given"])

    def read(self, path: str, **given: Any) -> str:
        """A file's text; with `firstLine` and `lines`, some of it."""
        return str(self.call("readFile", path=path, **given)["text"])

    def write(self, path: str, text: str) -> bool:
        """Whether it was made, rather than replaced."""
        return bool(self.call("writeFile", path=path, text=text)["created"])

    def replace(self, path: str, blocks: Sequence[tuple[str, str]]) -> None:
        """Each block is a text to search for and its replacement."""
        told = [{"search": search, "replace": replace} for search, replace in blocks]
        self.call("replaceInFile", path=path, blocks=told)

    def entries(self, path: str = ".") -> list[Plain]:
        """What is in a directory."""
        return list(self.call("listFiles", path=path))

    def search(self, pattern: str, path: str = ".", *, only: str = "**") -> list[Plain]:
        """Lines that a regular expression matches, in files that `only` matches."""
        return list(self.call("searchFiles", pattern=pattern, path=path, only=only))

    def close(self) -> None:
        """Ends all that runs in it."""
        self.call("disposeSession")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(PinfoldError):  # the client may be closed already
            self.close()


class RemoteExecution:
    """A command under way. Take its `events` as they come, once, or `wait` for all of it.

    `wait` does not repeat output that `events` gave: it then says only how the command ended.
    """

    def __init__(self, session: RemoteSession, id: str, *, is_base64: bool = False) -> None:
        self._session = session
        self._is_base64 = is_base64
        """Whether each piece of output is that, by itself."""
        self.id, self.session_id = id, session.id
        self.decision: Plain = {}
        self._come: queue.Queue[RemoteEvent | None] = queue.Queue(HELD)
        self._is_followed = False
        self._written: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._violations: list[Plain] = []
        self._end: Plain | None = None

    def put(self, event: RemoteEvent) -> None:
        """From the client's reader: what has come waits to be taken."""
        self._come.put(event)
        if event.name == "exit":
            self._session.forget(self)

    def lost(self) -> None:
        """The connection is lost: wakes the waiting thread as soon as there is room."""
        threading.Thread(target=self._come.put, args=(None,), daemon=True).start()

    def events(self) -> Iterator[RemoteEvent]:
        """As they come; `exit` is the last."""
        if self._is_followed:
            raise PinfoldError("a command can be followed once, and this one has been")
        self._is_followed = True
        while (event := self._come.get()) is not None:
            if event.name == "violation":
                self._violations.append(event.params)
            elif event.name == "exit":
                self._end = event.params
            yield event
            if self._end is not None:
                return
        raise PinfoldError("the service has gone, and the command with it")

    def wait(self) -> RemoteResult:
        """How it ended, with everything it wrote that `events` did not give; the same each time."""
        if not self._is_followed:
            for event in self.events():
                if event.name in self._written:
                    self._written[event.name].append(event.params["data"])
        if (end := self._end) is None:
            raise PinfoldError("another caller reads this command's output, and it has not ended")
        if error := end.get("error"):
            raise ServiceError(0, error["message"], error)
        return RemoteResult(
            end["code"],
            end["signal"],
            end["timedOut"],
            end["cancelled"],
            self._joined("stdout"),
            self._joined("stderr"),
            tuple(self._violations),
            tuple(end.get("leftRunning", ())),
        )

    def _joined(self, stream: str) -> str:
        pieces = self._written[stream]
        if not self._is_base64:
            return "".join(pieces)
        return b64encode(b"".join(map(b64decode, pieces))).decode()

    def cancel(self) -> None:
        """Ends the command and everything it started."""
        self._session.call("cancel", executionId=self.id)
