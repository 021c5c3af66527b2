"""A client of the service, typed, for programs that keep pinfold in a process of its own.

`Client.start()` runs `pinfold serve` and talks on its stdio; `Client.connect(path)` talks to one that
listens. Every call waits for its answer. One thread reads; what it reads for an execution waits, a few pieces
at a time, until `events` or `wait` takes it: one that nobody takes from holds up the others of its client.
"""

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import msgspec
from msgspec import Struct

from pinfold.model.errors import PinfoldError
from pinfold.model.permission import Answer
from pinfold.model.structs import ready
from pinfold.service.lines import Lines
from pinfold.service.messages import SERVICE_VERSION

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
        return str(self.data.get("kind", ""))


class Welcome(Struct, frozen=True, rename="camel"):
    service_version: str
    sandbox_supported: bool
    auto_allow: bool
    """Whether fenced commands run without a question: not for a client of an older version."""
    version: str
    methods: tuple[str, ...] = ()


class Question(Struct, frozen=True, rename="camel"):
    """A person is needed. Answer with one of `choices`."""

    request_id: str
    session_id: str
    capability: str
    command: str
    cwd: str
    choices: tuple[Answer, ...]
    reasons: tuple[Plain, ...]
    tool_call_id: str | None = None
    description: str = ""
    host: str | None = None
    port: int | None = None
    operation: str | None = None
    path: str | None = None
    program: str | None = None


class Event(Struct, frozen=True):
    """`stdout`, `stderr`, `violation` or `exit`, with what it says."""

    name: str
    params: Plain


class Ended(Struct, frozen=True):
    """How an execution ended: `code` is None where a signal ended it."""

    code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    stdout: str
    stderr: str
    violations: tuple[Plain, ...] = ()


Asked = Callable[[Question], Answer | str]


def _no(_: Question) -> Answer:
    return Answer.NO


class Client:
    """May be used from any thread. `on_permission` is called on a thread of its own for each question."""

    def __init__(
        self,
        lines: Lines,
        *,
        on_permission: Asked = _no,
        token: str = "",
        service_version: str = SERVICE_VERSION,
        asks: bool = True,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._lines, self._on_permission, self._ended = lines, on_permission, ended
        self._lock = threading.Lock()
        self._last = 0
        self._answers: dict[int, queue.SimpleQueue[Plain]] = {}
        self._executions: dict[tuple[str, str], RemoteExecution] = {}
        self._is_over = False
        self._reader = threading.Thread(target=self._read, name="pinfold-service", daemon=True)
        self._reader.start()
        try:
            answer = self.call("initialize", serviceVersion=service_version, token=token, asks=asks)
        except BaseException:
            self.close()
            raise
        self.welcome = msgspec.convert(answer, ready(Welcome))

    @classmethod
    def start(
        cls, arguments: Sequence[str] = (), *, environ: Mapping[str, str] | None = None, **given: Any
    ) -> Self:
        """Runs `pinfold serve` with these arguments; it ends with the client."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pinfold", "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=None if environ is None else dict(environ),
        )
        assert process.stdin and process.stdout  # noqa: S101

        def ended() -> None:
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]

        return cls(Lines(process.stdout.fileno(), process.stdin.fileno()), ended=ended, **given)

    @classmethod
    def connect(cls, path: str, *, environ: Mapping[str, str] | None = None, **given: Any) -> Self:
        """Talks to the service at a socket, with the token that lies in the user's state directory."""
        from pinfold.service.listener import token_file

        try:
            with open(token_file(path, os.environ if environ is None else environ)) as file:
                token = file.read()
        except OSError as error:
            raise PinfoldError(f"the token of the service at {path} cannot be read: {error}") from None
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.connect(path)
        except OSError as error:
            held.close()
            raise PinfoldError(f"{path}: no service listens there: {error.strerror}") from None
        return cls(Lines(held.fileno(), held.fileno(), held), token=token, ended=held.close, **given)

    def call(self, method: str, **params: Any) -> Any:
        """One call, and its answer; `ServiceError` if that is an error."""
        waiting: queue.SimpleQueue[Plain] = queue.SimpleQueue()
        with self._lock:
            if self._is_over:
                raise PinfoldError("the service has gone")
            self._last += 1
            number = self._last
            self._answers[number] = waiting
        said = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        if not self._lines.write(msgspec.json.encode(said) + b"\n"):
            raise PinfoldError("the service has gone")
        answer = waiting.get()
        if (error := answer.get("error")) is not None:
            raise ServiceError(error["code"], error["message"], error.get("data") or {})
        return answer.get("result")

    def create_session(self, projects: Sequence[str] = (), **given: Any) -> "RemoteSession":
        answer = self.call("createSession", projects=list(projects), **given)
        return RemoteSession(self, answer)

    def close(self) -> None:
        """Ends every session of this client."""
        self._lines.hang_up()
        self._ended()
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def expect(self, execution: "RemoteExecution") -> None:
        with self._lock:
            self._executions[execution.session_id, execution.id] = execution

    def forget(self, execution: "RemoteExecution") -> None:
        with self._lock:
            self._executions.pop((execution.session_id, execution.id), None)

    def _read(self) -> None:
        try:
            for line in self._lines:
                self._take(msgspec.json.decode(line))
        except Exception:  # noqa: BLE001, S110  (whatever came was no service's: it is over)
            pass
        with self._lock:
            self._is_over = True
            answers, executions = list(self._answers.values()), list(self._executions.values())
            self._answers.clear()
        gone = {"error": {"code": 0, "message": "the service has gone", "data": {"kind": "gone"}}}
        for waiting in answers:
            waiting.put(gone)
        for execution in executions:
            execution.lost()

    def _take(self, said: Plain) -> None:
        if "method" not in said:
            with self._lock:
                waiting = self._answers.pop(said["id"], None)
            if waiting is not None:
                waiting.put(said)
            return
        params = said.get("params") or {}
        if said["method"] == "permissionNeeded":
            threading.Thread(target=self._ask, args=(params,), daemon=True).start()
            return
        with self._lock:
            execution = self._executions.get((params.get("sessionId", ""), params.get("executionId", "")))
        if execution is not None:
            execution.put(Event(said["method"], params))

    def _ask(self, params: Plain) -> None:
        answer = Answer.NO
        try:
            answer = Answer(self._on_permission(msgspec.convert(params, ready(Question))))
        finally:
            with suppress(PinfoldError):  # it was withdrawn meanwhile
                self.call("answer", requestId=params["requestId"], answer=answer)


class RemoteSession:
    """A session that lives in the service."""

    def __init__(self, client: Client, described: Plain) -> None:
        self._client = client
        self.id: str = described["sessionId"]
        self.projects: tuple[str, ...] = tuple(described["projects"])
        self.cwd: str = described["cwd"]
        self.policy: Plain = described["policy"]
        self.notices: tuple[str, ...] = tuple(described["notices"])

    def call(self, method: str, **params: Any) -> Any:
        return self._client.call(method, sessionId=self.id, **params)

    def start(self, command: str | Sequence[str], **given: Any) -> "RemoteExecution":
        """Begins a command; `ServiceError` of kind `refused` if it may not be run."""
        execution = RemoteExecution(self, os.urandom(8).hex())
        self._client.expect(execution)
        line = command if isinstance(command, str) else list(command)
        try:
            execution.decision = self.call("execute", command=line, executionId=execution.id, **given)
        except BaseException:
            self._client.forget(execution)
            raise
        return execution

    def run(self, command: str | Sequence[str], **given: Any) -> Ended:
        return self.start(command, **given).wait()

    def check(self, command: str | Sequence[str] | None = None, **given: Any) -> Plain:
        """What would be done about a command, or about a `path`, a `host`, a `tool`."""
        if command is not None:
            given["command"] = command if isinstance(command, str) else list(command)
        answer: Plain = self.call("check", **given)
        return answer

    def cancel(self) -> None:
        """Ends whatever it runs."""
        self.call("cancel")

    def add_project(self, path: str) -> tuple[str, ...]:
        self.projects = tuple(self.call("addProject", path=path)["projects"])
        return self.projects

    def request_permission(self, **wanted: Any) -> tuple[str, ...]:
        """`write`, `read`, `hosts`, `gitWrites`, and `why`: what is there now that was not before."""
        return tuple(self.call("requestPermission", **wanted)["given"])

    def read(self, path: str, **given: Any) -> str:
        return str(self.call("readFile", path=path, **given)["text"])

    def write(self, path: str, text: str) -> bool:
        """Whether it was made, rather than replaced."""
        return bool(self.call("writeFile", path=path, text=text)["created"])

    def replace(self, path: str, blocks: Sequence[tuple[str, str]]) -> None:
        told = [{"search": search, "replace": replace} for search, replace in blocks]
        self.call("replaceInFile", path=path, blocks=told)

    def entries(self, path: str = ".") -> list[Plain]:
        return list(self.call("listFiles", path=path))

    def search(self, pattern: str, path: str = ".", *, only: str = "**") -> list[Plain]:
        return list(self.call("searchFiles", pattern=pattern, path=path, only=only))

    def close(self) -> None:
        self.call("disposeSession")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(PinfoldError):  # the client may be closed already
            self.close()


class RemoteExecution:
    """A command under way. Take its `events`, or `wait` for all of it."""

    def __init__(self, session: RemoteSession, id: str) -> None:
        self._session = session
        self.id, self.session_id = id, session.id
        self.decision: Plain = {}
        self._taken: queue.Queue[Event | None] = queue.Queue(HELD)

    def put(self, event: Event) -> None:
        self._taken.put(event)
        if event.name == "exit":
            self._session._client.forget(self)

    def lost(self) -> None:
        """Nothing comes any more; whoever waits is woken as soon as there is room."""
        threading.Thread(target=self._taken.put, args=(None,), daemon=True).start()

    def events(self) -> Iterator[Event]:
        """As they come; `exit` is the last."""
        while (event := self._taken.get()) is not None:
            yield event
            if event.name == "exit":
                return
        raise PinfoldError("the service has gone, and the command with it")

    def wait(self) -> Ended:
        written: dict[str, list[str]] = {"stdout": [], "stderr": []}
        violations: list[Plain] = []
        end: Plain = {}
        for event in self.events():
            if event.name in written:
                written[event.name].append(event.params["data"])
            elif event.name == "violation":
                violations.append(event.params)
            else:
                end = event.params
        if error := end.get("error"):
            raise ServiceError(0, error["message"], error)
        return Ended(
            end["code"],
            end["signal"],
            end["timedOut"],
            end["cancelled"],
            "".join(written["stdout"]),
            "".join(written["stderr"]),
            tuple(violations),
        )

    def cancel(self) -> None:
        self._session.call("cancel", executionId=self.id)
