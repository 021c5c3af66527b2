"""One execution of a client: started, reported as it goes, cancelled."""

import base64
import codecs
from _thread import allocate_lock
from collections.abc import Callable
from typing import Any

from pinfold.model.events import Exited, Output, Stream
from pinfold.model.request import RunCommand
from pinfold.service.client_approver import Tell
from pinfold.service.messages import INVALID_PARAMS, REFUSED, Check, Execute, Fault
from pinfold.session import Session
from pinfold.session.execution import Execution
from pinfold.session.request import as_command, judged_line, with_variables
from pinfold.session.serialize import (
    decision_as_plain,
    question_as_plain,
    refusal_as_plain,
    violation_as_plain,
    writable,
)


def command_of(asked: Execute | Check) -> RunCommand:
    """The request that a call's own fields make."""
    from pinfold.policy.json_format import from_json

    if asked.command is None:
        raise Fault(INVALID_PARAMS, "invalid", "there is no command")

    words = asked.command
    return as_command(
        RunCommand(
            words if isinstance(words, str) else "",
            argv=None if isinstance(words, str) else words,
            cwd=asked.cwd,
            description=asked.description,
            policy=None if asked.sandbox_policy is None else from_json(asked.sandbox_policy),
            disable_sandbox=asked.dangerously_disable_sandbox,
        ),
        timeout=asked.timeout,
    )


class ServiceExecution:
    """May be cancelled from any thread, also before it has begun."""

    def __init__(self, session: Session, asked: Execute, id: str) -> None:
        self.session, self.asked, self.id = session, asked, id
        self.command = with_variables(command_of(asked), asked.environment, session.environ)
        self._lock = allocate_lock()
        self._execution: Execution | None = None
        self._is_cancelled = False

    @property
    def line(self) -> str:
        return judged_line(self.command)

    def start(self) -> dict[str, Any]:
        """Decided, and begun; `Fault` if it was refused."""
        stdin = None if self.asked.stdin is None else self.asked.stdin.encode()
        execution = self.session.start(
            self.command,
            stdin=stdin,
            environment=self.asked.environment,
            is_withdrawn=lambda: self._is_cancelled,
        )
        if execution.refusal:
            told = refusal_as_plain(execution.decision, execution.settlement)
            told |= {"decision": decision_as_plain(execution.decision), "executionId": self.id}
            raise Fault(REFUSED, told.pop("kind"), told.pop("message"), **told)
        with self._lock:
            self._execution = execution
            is_cancelled = self._is_cancelled
        if is_cancelled:
            execution.cancel()
        notices = self.session.notices
        return {
            "executionId": self.id,
            "answer": execution.settlement,
            **decision_as_plain(execution.decision, notices),
        }

    def tell(self, tell: Tell) -> None:
        """Sends its events, to the end. A client that has gone ends the command."""
        assert self._execution is not None  # noqa: S101  (`start` was called)
        about = {"sessionId": self.asked.session_id, "executionId": self.id}
        text = {stream: self._teller() for stream in Stream}
        for event in self._execution.events():
            if isinstance(event, Output):
                data = text[event.stream](event.data, False)
                is_there = not data or tell(event.stream, {**about, "data": data})
            else:
                for stream in Stream:
                    if rest := text[stream](b"", True):
                        tell(stream, {**about, "data": rest})
                is_there = self._tell_end(tell, about, event)
            if not is_there:
                self._execution.cancel()

    def _tell_end(self, tell: Tell, about: dict[str, Any], end: Exited) -> bool:
        assert self._execution is not None  # noqa: S101
        for violation in self._execution.violations:
            tell("violation", {**about, **violation_as_plain(violation)})
        told: dict[str, Any] = {
            "code": end.exit_code,
            "signal": end.signal,
            "timedOut": end.timed_out,
            "cancelled": end.cancelled,
        }
        if self._execution.left_running:
            told["leftRunning"] = [writable(each) for each in self._execution.left_running]
        if self._execution.needed:
            told["needed"] = question_as_plain(self._execution.needed)
        return tell("exit", {**about, **told})

    def _teller(self) -> Callable[[bytes, bool], str]:
        """Text, whose characters may come in pieces; or bytes as they are."""
        if self.asked.encoding == "base64":
            return lambda data, _: base64.b64encode(data).decode()
        return codecs.getincrementaldecoder("utf-8")("replace").decode

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            execution = self._execution
        if execution is not None:
            execution.cancel()
