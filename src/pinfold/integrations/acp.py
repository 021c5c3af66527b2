"""ACP, version 1: between an editor and its agent, so that what the agent runs and touches is in the sandbox.

Facts (agentclientprotocol.com, version 1; one JSON-RPC object a line):
- The agent asks the editor to run things (`terminal/*`) and to read and write files (`fs/*`), and for
  permission (`session/request_permission`). Version 2 has none of the first two: agents do it themselves.
- A terminal's output is kept up to `outputByteLimit`; its beginning goes first, whole characters at a time.
- A tool call may show a terminal by its id (`session/update`).
- Either side may take a request back by `$/cancel_request`, which the other need not know (RFD "request
  cancellation").

What this means for us: `terminal/*` and `fs/*` are answered here, by a session for each of the agent's; the
editor never hears of them, and where it would show a terminal of ours it is given its text. Everything else
passes through as it is. No other version than 1 passes. The editor's person answers our questions. An
agent's own question about a command that is denied is answered with its rejection; no other one is, since we
cannot know that the agent will run it here. An agent that runs things by itself is not held by this: as soon
as it reports a command that no terminal was made for, it is stopped (`acp_bypasses`).

INVARIANT: the agent cannot answer our questions. It never sees their ids, cannot guess them, and may use none
that looks like one.
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from pinfold.approval import Approver, wording
from pinfold.integrations.acp_bypasses import OwnRuns
from pinfold.integrations.acp_terminals import Terminal
from pinfold.integrations.markdown import verbatim, verbatim_line
from pinfold.model.decision import Verdict
from pinfold.model.errors import FileRefused, PinfoldError
from pinfold.model.escape_text import visible
from pinfold.model.permission import LONGEST_QUESTION, Answer, Capability, PermissionNeeded
from pinfold.session import Session
from pinfold.session.request import as_command, as_request
from pinfold.session.serialize import file_refusal_as_plain, refusal_as_plain

VERSION = 1
KEPT = 1 << 20
"""Bytes of a terminal's output, where the agent sets no limit of its own."""
REFUSED, INVALID, FAILED = -32001, -32602, -32002
NO_METHOD = -32601
CANCEL = "$/cancel_request"
OURS = "pinfold-"
"""How the ids of our own requests begin."""

OPTIONS = {
    Answer.ONCE: ("Allow once", "allow_once"),
    Answer.SESSION: ("Allow for this session", "allow_always"),
    Answer.ALWAYS: ("Always allow", "allow_always"),
    Answer.RULE: ("Always allow, as a rule", "allow_always"),
    Answer.NO: ("Reject", "reject_once"),
}
Send = Callable[[dict[str, Any]], object]


class _Fault(Exception):  # noqa: N818  (an answer to the agent)
    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.data = code, dict(data or {})


class _EditorQuestion:
    """A question on its way to the editor, and what came back."""

    def __init__(self, question: PermissionNeeded) -> None:
        self.question = question
        self.said: dict[str, Any] = {}
        self.settled = threading.Event()


class Proxy:
    """`editor` and `agent` send a message to either; `from_editor` and `from_agent` take what came."""

    name = "the person at the editor"

    def __init__(
        self,
        open_session: Callable[[str, Approver], Session],
        editor: Send,
        agent: Send,
        stop: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`stop` ends the agent, for the reason that it is given."""
        self._open, self._editor, self._agent, self._stop = open_session, editor, agent, stop
        self._own_runs = OwnRuns()
        self._stopped = ""
        """Why the agent was stopped: from then on nothing passes."""
        self._waiting: dict[str, Any] = {}
        """Requests of the editor that the agent has not answered, by their keys."""
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._sessions: dict[str, Session] = {}
        self._ids: dict[str, str] = {}
        """Our session -> the agent's name for it."""
        self._terminals: dict[tuple[str, str], Terminal] = {}
        self._creating: dict[str, str] = {}
        """Requests of the editor that make a session, by their ids, and the directory each is for."""
        self._initializing = ""
        self._questions: dict[str, _EditorQuestion] = {}

    # From the editor

    def from_editor(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), _table(message.get("params"))
        if self._stopped:
            if method is not None and "id" in message:
                self._editor(_error(message["id"], FAILED, self._stopped, {"kind": "failed"}))
            return
        if method is not None and (key := _key(message.get("id"))):
            self._waiting[key] = message["id"]
        elif method is None:
            self._own_runs.answered(message)
        if method is None and str(message.get("id", "")).startswith(OURS):
            self._answered(message)
            return
        if method == "initialize":
            self._initializing = _key(message.get("id"))
            capabilities = {**_table(params.get("clientCapabilities"))}
            capabilities |= {"terminal": True, "fs": {"readTextFile": True, "writeTextFile": True}}
            message = {**message, "params": {**params, "clientCapabilities": capabilities}}
            if params.get("protocolVersion") != VERSION:
                message["params"]["protocolVersion"] = VERSION
        elif method == "session/new" and (key := _key(message.get("id"))):
            self._creating[key] = str(params.get("cwd", ""))
        elif method in ("session/load", "session/resume"):
            try:
                self._begin(str(params.get("sessionId", "")), str(params.get("cwd", "")))
            except PinfoldError as error:
                self._editor(_error(message.get("id"), FAILED, str(error), {"kind": "failed"}))
                return
        self._agent(message)

    def _answered(self, message: dict[str, Any]) -> None:
        with self._lock:
            waiting = self._questions.pop(message["id"], None)
        if waiting is not None:
            waiting.said = message
            waiting.settled.set()

    # From the agent

    def from_agent(self, message: dict[str, Any]) -> None:
        if self._stopped:
            return
        method = message.get("method")
        if not isinstance(method, str):
            self._waiting.pop(_key(message.get("id")), None)
            self._editor(self._result(message))
            return
        if method == "terminal/create":
            self._own_runs.made(_table(message.get("params")))
        elif method == "session/request_permission":
            self._own_runs.asked(message)
        # A request that is an answer as well would be taken for either, by one editor or another.
        message = {key: value for key, value in message.items() if key not in ("result", "error")}
        if str(message.get("id", "")).startswith(OURS):
            said = f"ids that begin with `{OURS}` are not yours"
            self._agent(_error(message.get("id"), INVALID, said, {"kind": "invalid"}))
        elif method.startswith(("terminal/", "fs/")):
            threading.Thread(target=self._serve, args=(message,), name="pinfold-acp", daemon=True).start()
        elif method == "session/request_permission" and (option := self._rejection(message)):
            outcome = {"outcome": {"outcome": "selected", "optionId": option}}
            self._agent({"jsonrpc": "2.0", "id": message.get("id"), "result": outcome})
        elif method == "session/update":
            self._editor(self._shown(message))
            if ran := self._own_runs.updated(_table(message.get("params"))):
                self._end(ran)
        else:
            self._editor(message)

    def _end(self, command: str) -> None:
        """The agent runs commands by itself: each waiting request gets the reason why it is stopped."""
        self._stopped = (
            f"the agent ran `{visible(command)}` by itself, outside of the sandbox, and was stopped: pinfold"
            " acp holds agents that use the editor's terminals; for this one, use its hooks (`pinfold"
            " install`), and start it without pinfold acp"
        )
        for number in self._waiting.values():
            self._editor(_error(number, FAILED, self._stopped, {"kind": "failed"}))
        self._waiting.clear()
        self._stop(self._stopped)

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        number, result = message.get("id"), message.get("result")
        if not (key := _key(number)):
            return message
        if key == self._initializing and isinstance(result, dict):
            self._initializing = ""
            if result.get("protocolVersion") != VERSION:
                said = f"pinfold acp speaks version {VERSION} of ACP, and the agent does not"
                return _error(number, FAILED, said, {"kind": "failed"})
        if key in self._creating:
            directory = self._creating.pop(key)
            if isinstance(result, dict) and "sessionId" in result:
                try:
                    self._begin(str(result["sessionId"]), directory)
                except PinfoldError as error:
                    return _error(number, FAILED, str(error), {"kind": "failed"})
        return message

    def _begin(self, name: str, directory: str) -> None:
        if name in self._sessions:
            return
        session = self._open(directory, self)
        self._ids[session.id] = name
        self._sessions[name] = session

    def _serve(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        try:
            result = self._done(message["method"], _table(message.get("params")))
            answer = {"jsonrpc": "2.0", "id": number, "result": result}
        except _Fault as fault:
            answer = _error(number, fault.code, str(fault), fault.data)
        except FileRefused as refused:
            told = file_refusal_as_plain(refused)
            answer = _error(number, REFUSED, told["message"], told)
        except PinfoldError as error:
            answer = _error(number, FAILED, str(error), {"kind": "failed"})
        except Exception as error:  # noqa: BLE001  (the agent gets every error as an answer)
            answer = _error(number, FAILED, f"{type(error).__name__}: {error}", {"kind": "failed"})
        if "id" in message:
            self._agent(msgspec.to_builtins(answer))

    def _done(self, method: str, params: dict[str, Any]) -> Any:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            raise _Fault(INVALID, "there is no such session", {"kind": "no_session"})
        if method == "fs/read_text_file":
            line, limit = params.get("line"), params.get("limit")
            return {
                "content": session.files.read(_text(params, "path"), first_line=line or 1, lines=limit).text
            }
        if method == "fs/write_text_file":
            session.files.write(_text(params, "path"), _text(params, "content"))
            return {}
        if method == "terminal/create":
            return {"terminalId": self._created(session, params)}
        return self._of_terminal(method, params)

    def _created(self, session: Session, params: dict[str, Any]) -> str:
        words = [_text(params, "command"), *(params.get("args") or ())]
        # Agents send whole lines as the command; with arguments beside it, it is a program.
        request = as_command(words if len(words) > 1 else words[0], params.get("cwd"))
        variables = map(_table, params.get("env") or ())
        added = {_text(each, "name"): _text(each, "value") for each in variables}
        execution = session.start(request, environment={**session.environ, **added} if added else None)
        if execution.refusal:
            told = refusal_as_plain(execution.decision, execution.settlement)
            raise _Fault(REFUSED, f"{told['message']}; {told['next']}", told)
        limit = params.get("outputByteLimit")
        kept = max(0, limit) if isinstance(limit, int) else KEPT
        name = f"terminal-{next(self._numbers)}"
        self._terminals[str(params["sessionId"]), name] = Terminal(execution, kept)
        return name

    def _of_terminal(self, method: str, params: dict[str, Any]) -> Any:
        key = (str(params["sessionId"]), str(params.get("terminalId")))
        terminal = self._terminals.get(key)
        if terminal is None:
            raise _Fault(INVALID, "there is no such terminal", {"kind": "no_terminal"})
        match method:
            case "terminal/output":
                told = {"output": terminal.text, "truncated": terminal.is_truncated}
                return {**told, "exitStatus": terminal.status} if terminal.status else told
            case "terminal/wait_for_exit":
                terminal.ended.wait()
                return terminal.status
            case "terminal/kill":
                terminal.kill()
            case "terminal/release":
                self._terminals.pop(key, None)
                terminal.kill()
            case _:
                raise _Fault(NO_METHOD, f"there is no method `{method}`")
        return {}

    # Questions

    def _rejection(self, message: dict[str, Any]) -> str:
        """The option that rejects, where what the agent asks about is denied anyway."""
        params = _table(message.get("params"))
        session = self._sessions.get(str(params.get("sessionId")))
        command = _table(_table(params.get("toolCall")).get("rawInput")).get("command")
        if session is None or not command:
            return ""
        with suppress(PinfoldError, TypeError, ValueError):
            if session.check(as_request(command)).verdict is Verdict.DENY:
                options = [_table(each) for each in params.get("options") or ()]
                found = (each.get("optionId") for each in options if each.get("kind") == "reject_once")
                return str(next(found, None) or "")
        return ""

    def __call__(self, question: PermissionNeeded) -> Answer | None:
        name = self._ids.get(question.session)
        if name is None:
            return None
        number = f"{OURS}{secrets.token_hex(16)}"
        asked = _EditorQuestion(question)
        with self._lock:
            self._questions[number] = asked
        self._editor(_asked(number, name, question))
        if not asked.settled.wait(LONGEST_QUESTION):
            self.withdraw(question)
        return _answer(asked)

    def withdraw(self, question: PermissionNeeded) -> None:
        """From any thread: the editor need not answer it any more."""
        with self._lock:
            found = [
                number
                for number, each in self._questions.items()
                if each.question.request_id == question.request_id
            ]
            gone = [(number, self._questions.pop(number)) for number in found]
        for number, asked in gone:
            self._editor({"jsonrpc": "2.0", "method": CANCEL, "params": {"requestId": number}})
            asked.settled.set()

    def _shown(self, message: dict[str, Any]) -> dict[str, Any]:
        """Terminals of ours are shown as their text: the editor knows nothing of them."""
        params = _table(message.get("params"))
        update = _table(params.get("update"))
        content = update.get("content")
        if not isinstance(content, list):
            return message
        told = [self._text_of(params.get("sessionId"), each) for each in content]
        return {**message, "params": {**params, "update": {**update, "content": told}}}

    def _text_of(self, session: Any, content: Any) -> Any:
        if not isinstance(content, dict) or content.get("type") != "terminal":
            return content
        terminal = self._terminals.get((str(session), str(content.get("terminalId"))))
        text = terminal.text if terminal else ""
        return {"type": "content", "content": {"type": "text", "text": text}}

    def close(self) -> None:
        with self._lock:
            questions = list(self._questions.values())
        for each in questions:
            each.settled.set()
        for session in self._sessions.values():
            session.close()


def _key(number: object) -> str:
    """What an editor may know a request by: 1 and 1.0 are one, and to some "1" too; empty for no id."""
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        return ""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


def _answer(asked: _EditorQuestion) -> Answer | None:
    """None if the editor cannot ask a person."""
    error, result = asked.said.get("error"), asked.said.get("result")
    if isinstance(error, dict) and error.get("code") == NO_METHOD:
        return None
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return Answer.NO  # cancelled, malformed, late, or something of a version we do not know
    chosen = outcome.get("optionId")
    return Answer(chosen) if chosen in tuple(asked.question.choices) else Answer.NO


def _asked(number: str, session: str, question: PermissionNeeded) -> dict[str, Any]:
    command = visible(question.command)
    lines = [wording.headline(question, str), f"command: {command}", f"in: {visible(question.cwd)}"]
    lines += [f"it may {each}" for each in wording.wanted(question, str)]
    lines += [visible(reason.message) for reason in question.decision.reasons]
    if question.description:
        lines.append(f"the agent says: {visible(question.description)}")
    for offer in wording.offers(question, question.reaches[0], str):
        effect = f"add {wording.rules(question)} to `{question.rule_key}`"
        lines.append(f"{OPTIONS[offer.answer][0]}: {effect if offer.answer is Answer.RULE else offer.effect}")
    call = {
        "toolCallId": f"{OURS}{question.request_id}",
        "title": verbatim_line(_title(question)),
        "kind": "execute",
        "status": "pending",
        "rawInput": {"command": command, "cwd": visible(question.cwd)},
        "content": [{"type": "content", "content": {"type": "text", "text": verbatim(lines)}}],
    }
    options = [
        {"optionId": str(answer), "name": name, "kind": kind}
        for answer, (name, kind) in OPTIONS.items()
        if answer in question.choices
    ]
    params = {"sessionId": session, "toolCall": call, "options": options}
    return {"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}


def _title(question: PermissionNeeded) -> str:
    """What is wanted, before the agent's own words: some editors show nothing else."""
    command = visible(question.command)
    if question.capability is Capability.RUN and question.decision.sandboxed:
        return command
    wanted = wording.headline(question, str)
    if question.operation in wording.FOR_THE_SESSION:
        return "; ".join((wanted, *wording.wanted(question, str)))
    if question.decision.widening:
        wanted += f" ({'; '.join(wording.wanted(question, str))})"
    if wanted == command:  # a file tool's use, which is called by what it does
        return wanted
    between = ", for " if question.capability in wording.RUNNING else ": "
    return f"{wanted}{between}{command}"


def _table(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one: a peer may send anything."""
    return value if isinstance(value, dict) else {}


def _text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise _Fault(INVALID, f"`{name}` is missing or not a string", {"kind": "invalid"})
    return value


def _error(number: Any, code: int, message: str, data: Mapping[str, Any]) -> dict[str, Any]:
    error = {"code": code, "message": message, "data": dict(data)}
    return {"jsonrpc": "2.0", "id": number, "error": error}
