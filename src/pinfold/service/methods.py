"""What a client may ask, and what it has by that: its sessions, and what runs in them."""

import os
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from pinfold.model.permission import PermissionNeeded
from pinfold.model.request import CallTool, Connect, ReadFile, Request, WriteFile
from pinfold.model.tool_parameters import ToolParameters
from pinfold.service import messages as said
from pinfold.service import socket_trust
from pinfold.service.client_approver import ClientApprover, Tell
from pinfold.service.executions import ServiceExecution, command_of
from pinfold.service.file_methods import FILE_CALLS, FileCall
from pinfold.service.messages import Fault
from pinfold.service.socket_trust import require_out_of_reach
from pinfold.session import Session
from pinfold.session.serialize import decision_as_plain, refusal_as_plain

if TYPE_CHECKING:
    from pinfold.approval import Approver

MOST_SESSIONS = 1024


class Service:
    """What all clients of this process share."""

    def __init__(
        self,
        *,
        settings: str | Mapping[str, object] | None = None,
        cwd: str | None = None,
        overrides: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        sandbox_supported: bool = True,
        token: str = "",
        others: "Sequence[Approver]" = (),
    ) -> None:
        """`others` are asked if the client cannot ask a person."""
        self.settings, self.cwd, self.overrides = settings, cwd, dict(overrides or {})
        self.environ = environ
        self.sandbox_supported = sandbox_supported
        self.token = token
        self.socket = ""
        """Where it listens; empty on stdio."""
        self.others = tuple(others)

    def open(self, asked: said.CreateSession, auto_allow: bool, questions: ClientApprover) -> Session:
        overrides = self.overrides
        if not auto_allow:
            sandbox = overrides.get("sandbox")
            given = sandbox if isinstance(sandbox, Mapping) else {}
            overrides = {**overrides, "sandbox": {**given, "auto_allow": False}}
        session = Session(
            asked.projects,
            settings=self.settings,
            cwd=asked.cwd or (None if asked.projects or asked.resume else self.cwd),
            overrides=overrides,
            environ=self.environ,
            approvers=[questions, *self.others],
            conversation=asked.conversation,
            generation=asked.generation,
            model=asked.model,
            resume=asked.resume,
        )
        try:
            self.require_socket_out_of_reach((*session.roots, *session.policy.additional_readwrite_paths))
        except BaseException:
            session.close()
            raise
        return session

    def require_socket_out_of_reach(self, writable: Sequence[str]) -> None:
        """Raises if commands that write in these places could answer in our place."""
        if self.socket:
            require_out_of_reach(self.socket, writable, os.environ if self.environ is None else self.environ)


class StartedCall(NamedTuple):
    """A call that has more to tell once it is answered."""

    answer: dict[str, Any]
    tell: Callable[[], None]


class ClientCalls:
    """One client's. May be used from any thread."""

    def __init__(self, service: Service, tell: Tell) -> None:
        self._service, self._tell = service, tell
        self._lock = Lock()
        self._sessions: dict[str, Session] = {}
        self._executing: dict[tuple[str, str], ServiceExecution] = {}
        self._is_closed = False
        self.is_known = not service.token
        """Whether the client may ask for more than `challenge` and `initialize`."""
        self._expected = ""
        """What proves that the client knows the token; empty while it was not challenged."""
        self._auto_allow = False
        self._questions = ClientApprover(tell, self._call_of)

    def close(self) -> None:
        """The client is gone: its questions are withdrawn, and its sessions end."""
        with self._lock:
            self._is_closed = True
            sessions, self._sessions = list(self._sessions.values()), {}
        self._questions.close()
        closing = [Thread(target=session.close, daemon=True) for session in sessions]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def challenge(self, asked: said.Challenge) -> dict[str, Any]:
        """Proves to the client that we know the token, and tells it what it is to prove that with."""
        token = self._service.token
        if not token:
            raise Fault(
                said.INVALID_PARAMS, "invalid", "this connection needs no `challenge`: call `initialize`"
            )
        if not socket_trust.is_nonce(asked.nonce):
            raise Fault(said.INVALID_PARAMS, "invalid", "`nonce` is 32 bytes as 64 lowercase hex digits")
        nonce = socket_trust.new_nonce()
        self._expected = socket_trust.proof_of(token, socket_trust.CLIENT, asked.nonce, nonce)
        return {
            "nonce": nonce,
            "proof": socket_trust.proof_of(token, socket_trust.SERVICE, asked.nonce, nonce),
        }

    def initialize(self, asked: said.Initialize) -> dict[str, Any]:
        if not self.is_known:
            expected, self._expected = self._expected, ""
            if not expected or not socket_trust.is_same(asked.proof, expected):
                remedy = "call `challenge` first, and send its proof as docs/service.md describes"
                raise Fault(said.NOT_YOU, "unauthorized", "no valid proof of the token", remedy=remedy)
        self.is_known = True
        self._questions.asks = asked.asks
        self._auto_allow = _number(asked.service_version) >= _number(said.SERVICE_VERSION)
        from pinfold import __version__

        return {
            "serviceVersion": said.SERVICE_VERSION,
            "sandboxSupported": self._service.sandbox_supported,
            "autoAllow": self._auto_allow,
            "version": __version__,
            "methods": sorted(METHODS),
        }

    def create_session(self, asked: said.CreateSession) -> dict[str, Any]:
        from pinfold.session.permission_requests import ask_for_first_projects

        session = self._service.open(asked, self._auto_allow, self._questions)
        try:
            first = ask_for_first_projects(session, self._service.cwd)
        except BaseException:
            session.close()
            raise
        if first and not first.is_granted:
            session.close()
            raise _refused(refusal_as_plain(first.decision, first.settlement))
        with self._lock:
            has_room = not self._is_closed and len(self._sessions) < MOST_SESSIONS
            if has_room:
                self._sessions[session.id] = session
        if not has_room:
            session.close()
            raise Fault(said.BUSY, "busy", f"a client has at most {MOST_SESSIONS} sessions")
        return self._described(session)

    def execute(self, asked: said.Execute) -> StartedCall:
        session = self.session(asked.session_id)
        executing = ServiceExecution(session, asked, asked.execution_id or os.urandom(8).hex())
        if executing.command.policy is not None:
            self._service.require_socket_out_of_reach(executing.command.policy.additional_readwrite_paths)
        key = (session.id, executing.id)
        with self._lock:
            if key in self._executing:
                raise Fault(said.INVALID_PARAMS, "invalid", f"there is an execution `{executing.id}` already")
            self._executing[key] = executing
        try:
            started = executing.start()
        except BaseException:
            self._forget(key)
            raise

        def tell() -> None:
            try:
                executing.tell(self._tell)
            except Exception as error:  # noqa: BLE001  (the pen broke, or pinfold has a bug: the client learns it)
                about = {"sessionId": session.id, "executionId": executing.id}
                failed = said.fault_of(error).data
                self._tell("exit", {**about, "code": None, "signal": None, "error": failed})
            finally:
                self._forget(key)

        return StartedCall(started, tell)

    def _forget(self, key: tuple[str, str]) -> None:
        with self._lock:
            self._executing.pop(key, None)

    def cancel(self, asked: said.Cancel) -> dict[str, Any]:
        self.session(asked.session_id)
        with self._lock:
            chosen = [
                each
                for (session, name), each in self._executing.items()
                if session == asked.session_id and asked.execution_id in ("", name)
            ]
        lines = {each.line for each in chosen}
        for each in chosen:
            each.cancel()
        self._questions.withdraw_all(
            lambda question: question.session == asked.session_id and question.command in lines, "cancelled"
        )
        return {"cancelled": [each.id for each in chosen]}

    def dispose_session(self, asked: said.OfSession) -> dict[str, Any]:
        session = self.session(asked.session_id)
        with self._lock:
            self._sessions.pop(session.id, None)
        self._questions.withdraw_all(
            lambda question: question.session == session.id, "the session is disposed of"
        )
        session.close()
        return {}

    def add_project(self, asked: said.AddProject) -> dict[str, Any]:
        from pinfold.session.permission_requests import ask_for_project

        session = self.session(asked.session_id)
        self._service.require_socket_out_of_reach([asked.path])
        asked_for = ask_for_project(session, asked.path)
        if not asked_for.is_granted:
            raise _refused(refusal_as_plain(asked_for.decision, asked_for.settlement))
        return {**self._described(session), "answer": asked_for.settlement}

    def request_permission(self, asked: said.RequestPermission) -> dict[str, Any]:
        from pinfold.session.permission_requests import ask_for_permission

        self._service.require_socket_out_of_reach(asked.write)
        asked_for = ask_for_permission(self.session(asked.session_id), asked)
        if not asked_for.is_granted:
            raise _refused(refusal_as_plain(asked_for.decision, asked_for.settlement))
        return {"given": asked_for.given, "answer": asked_for.settlement}

    def answer(self, asked: said.GiveAnswer) -> dict[str, Any]:
        self._questions.answer(asked.request_id, asked.answer)
        return {}

    def check(self, asked: said.Check) -> dict[str, Any]:
        session = self.session(asked.session_id)
        return decision_as_plain(session.check(_request(asked)), session.notices)

    def session(self, id: str) -> Session:
        with self._lock:
            found = self._sessions.get(id)
        if found is None:
            raise Fault(said.NO_SESSION, "no_session", f"this client has no session `{id}`")
        return found

    def _described(self, session: Session) -> dict[str, Any]:
        from pinfold.policy.json_format import to_executor

        return {
            "sessionId": session.id,
            "projects": session.roots,
            "cwd": session.cwd,
            "policy": to_executor(session.policy),
            "notices": session.notices,
        }

    def _call_of(self, question: PermissionNeeded) -> str:
        with self._lock:
            return next(
                (
                    each.id
                    for (session, _), each in reversed(self._executing.items())
                    if session == question.session and each.line == question.command
                ),
                "",
            )


Method = Callable[[ClientCalls, Any], dict[str, Any] | list[Any] | StartedCall]


def _of_files(use: FileCall) -> Method:
    return lambda calls, asked: use(calls.session(asked.session_id), asked)


METHODS: dict[str, tuple[type[ToolParameters], Method, bool]] = {
    # The last says whether it is answered at once, before the next line is read.
    "challenge": (said.Challenge, ClientCalls.challenge, True),
    "initialize": (said.Initialize, ClientCalls.initialize, True),
    "createSession": (said.CreateSession, ClientCalls.create_session, False),
    "disposeSession": (said.OfSession, ClientCalls.dispose_session, False),
    "execute": (said.Execute, ClientCalls.execute, False),
    "cancel": (said.Cancel, ClientCalls.cancel, True),
    "addProject": (said.AddProject, ClientCalls.add_project, False),
    "requestPermission": (said.RequestPermission, ClientCalls.request_permission, False),
    "answer": (said.GiveAnswer, ClientCalls.answer, True),
    "check": (said.Check, ClientCalls.check, False),
    **{name: (params, _of_files(use), False) for name, (params, use) in FILE_CALLS.items()},
}


def _request(asked: said.Check) -> Request:
    given = [each for each in (asked.command, asked.path, asked.host, asked.tool) if each is not None]
    if len(given) != 1:
        raise Fault(said.INVALID_PARAMS, "invalid", "`check` is about one of: command, path, host, tool")
    if asked.path is not None:
        writes = asked.access != "read"
        return WriteFile(asked.path, asked.access == "delete") if writes else ReadFile(asked.path)
    if asked.host is not None:
        return Connect(asked.host, asked.port)
    if asked.tool is not None:
        return CallTool(asked.server, asked.tool)
    return command_of(asked)


def _refused(told: dict[str, Any]) -> Fault:
    return Fault(said.REFUSED, told.pop("kind"), told.pop("message"), **told)


def _number(version: str) -> int:
    digits = version.removeprefix("v").partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else 0
