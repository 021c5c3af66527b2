"""A client of the service, typed, for programs that keep pinfold in a process of its own.

`Client.start()` runs `pinfold serve` and talks on its stdio; `Client.connect(path)` talks to one that
listens. Every call waits for its answer, and one thread reads. What it has opened there is in `remote`.
"""

import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import msgspec
from msgspec import Struct

from pinfold.isolated import isolated_environment, own_command
from pinfold.kernel.socket_info import user_of
from pinfold.model.errors import PinfoldError
from pinfold.model.load_structs import ready
from pinfold.model.permission import Answer
from pinfold.service import socket_trust
from pinfold.service.lines import LineStream
from pinfold.service.messages import SERVICE_VERSION
from pinfold.service.remote_session import Plain, RemoteEvent, RemoteExecution, RemoteSession, ServiceError


class Welcome(Struct, frozen=True, rename="camel"):
    """What the service says of itself."""

    service_version: str
    sandbox_supported: bool
    auto_allow: bool
    """Whether sandboxed commands run without a question: not for a client of an older version."""
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
    rules: tuple[str, ...] = ()
    """What an answer of `rule` would add to the user's settings."""
    headline: str = ""
    """What is asked, in words."""
    wanted: tuple[str, ...] = ()
    """Each thing that a yes grants beyond the policy in force."""
    effects: dict[str, str] = {}
    """An answer -> what it would grant."""


STRANGER = "what listens there does not prove that it is your service"
Asked = Callable[[Question], Answer | str]


def _no(_: Question) -> Answer:
    return Answer.NO


class Client:
    """May be used from any thread. `on_permission` is called on a thread of its own for each question."""

    def __init__(
        self,
        lines: LineStream,
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
            proven = {"proof": self._proof(token)} if token else {}
            answer = self.call("initialize", serviceVersion=service_version, asks=asks, **proven)
        except BaseException:
            self.close()
            raise
        self.welcome = msgspec.convert(answer, ready(Welcome))

    def _proof(self, token: str) -> str:
        """That we know the token; the service has proven that it does. Nothing else is said before."""
        nonce = socket_trust.new_nonce()
        try:
            told = self.call("challenge", nonce=nonce)
            service_nonce, theirs = str(told["nonce"]), str(told["proof"])
        except (ServiceError, LookupError, TypeError) as error:
            raise PinfoldError(f"{STRANGER}: {error}") from None
        expected = socket_trust.proof_of(token, socket_trust.SERVICE, nonce, service_nonce)
        if not socket_trust.is_nonce(service_nonce) or not socket_trust.is_same(theirs, expected):
            raise PinfoldError(f"{STRANGER}; nothing was sent to it")
        return socket_trust.proof_of(token, socket_trust.CLIENT, nonce, service_nonce)

    @classmethod
    def start(
        cls, arguments: Sequence[str] = (), *, environ: Mapping[str, str] | None = None, **given: Any
    ) -> Self:
        """Runs `pinfold serve` with these arguments; it ends with the client."""
        process = subprocess.Popen(
            own_command("serve", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=isolated_environment(os.environ if environ is None else environ),
        )
        stdin, stdout = process.stdin, process.stdout
        assert stdin and stdout  # noqa: S101

        def ended() -> None:
            with suppress(OSError):
                stdin.close()
            process.wait()
            stdout.close()

        return cls(LineStream(stdout.fileno(), stdin.fileno()), ended=ended, **given)

    @classmethod
    def connect(cls, path: str, *, environ: Mapping[str, str] | None = None, **given: Any) -> Self:
        """Talks to the service at a socket, with the token that lies in the user's state directory."""
        from pinfold.service.listener import token_file

        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.connect(path)
        except OSError as error:
            held.close()
            raise PinfoldError(f"{path}: no service listens there: {error.strerror}") from None
        try:
            if user_of(held) != os.geteuid():
                raise PinfoldError(f"{path}: another user listens there")
            with open(token_file(path, os.environ if environ is None else environ)) as file:
                token = file.read()
            if not token:
                raise PinfoldError(f"the token of the service at {path} is empty; start the service again")
        except PinfoldError:
            held.close()
            raise
        except OSError as error:
            held.close()
            raise PinfoldError(f"the token of the service at {path} cannot be read: {error}") from None
        return cls(LineStream(held.fileno(), held.fileno(), held), token=token, ended=held.close, **given)

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

    def create_session(self, projects: Sequence[str] = (), **given: Any) -> RemoteSession:
        """Opens a session, with the other parameters of `createSession`; a person may be asked first."""
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

    def expect(self, execution: RemoteExecution) -> None:
        """What comes for this execution is handed to it from now on."""
        with self._lock:
            self._executions[execution.session_id, execution.id] = execution

    def forget(self, execution: RemoteExecution) -> None:
        """Nothing comes for it any more."""
        with self._lock:
            self._executions.pop((execution.session_id, execution.id), None)

    def _read(self) -> None:
        try:
            for line in self._lines:
                self._take(msgspec.json.decode(line))
        except Exception:  # noqa: BLE001, S110  (what came was no service's: the connection is over)
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
            execution.put(RemoteEvent(said["method"], params))

    def _ask(self, params: Plain) -> None:
        answer = Answer.NO
        try:
            question = msgspec.convert(params, ready(Question))
            said = Answer(self._on_permission(question))
            if said not in question.choices:
                raise PinfoldError(f"`{said}` was not offered; there are: {', '.join(question.choices)}")
            answer = said
        finally:
            with suppress(PinfoldError):  # it was withdrawn meanwhile
                self.call("answer", requestId=params["requestId"], answer=answer)
