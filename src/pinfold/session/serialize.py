"""A session's values as other programs read them: plain, in camelCase, the same by every face.

The command line, the service and MCP clients all get decisions, results, questions and refusals as these
objects. Text that was not UTF-8 is made readable here, since JSON cannot hold it.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.errors import FileRefused
from pinfold.model.permission import PermissionNeeded, Settlement

if TYPE_CHECKING:
    from pinfold.model.violation import Violation
    from pinfold.session.result import Result

Plain = dict[str, Any]


def decision_as_plain(decision: Decision, notices: tuple[str, ...] = ()) -> Plain:
    from pinfold.policy.json_format import to_executor
    from pinfold.policy.level import level_of

    return {
        "decision": decision.verdict,
        "level": level_of(decision).value,
        "sandboxed": decision.sandboxed,
        "reasons": [reason_as_plain(reason) for reason in decision.reasons],
        "commands": [
            {
                "argv": [writable(word) for word in command.argv],
                "text": writable(command.text),
                "span": command.span,
                "computed": command.computed,
            }
            for command in decision.commands
        ],
        "candidates": [writable(candidate) for candidate in decision.candidates],
        "policy": to_executor(decision.policy),
        "widening": decision.widening,
        "notices": notices,
    }


def reason_as_plain(reason: Reason) -> Plain:
    return {
        "step": reason.step,
        "rule": writable(reason.rule) or None,
        "message": writable(reason.message),
        "span": reason.span,
        "verdict": reason.verdict,
        "where": str(reason.origin) if reason.origin else None,
        "remedy": writable(reason.remedy) or None,
    }


def result_as_plain(result: "Result", notices: tuple[str, ...] = ()) -> Plain:
    """How a command went, or why it did not."""
    return {
        "exitCode": result.exit_code,
        "signal": result.signal,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "timedOut": result.timed_out,
        "cancelled": result.cancelled,
        "truncated": result.truncated,
        "refusal": writable(result.refusal) or None,
        "violations": [violation_as_plain(each) for each in result.violations],
        "needed": question_as_plain(result.needed) if result.needed else None,
        "leftRunning": [writable(each) for each in result.left_running],
        "enforcement": result.enforcement,
        "answer": result.settlement,
        **decision_as_plain(result.decision, notices),
    }


def violation_as_plain(violation: "Violation") -> Plain:
    from msgspec.structs import asdict

    told = asdict(violation)
    return {key: writable(value) if isinstance(value, str) else value for key, value in told.items()}


def question_as_plain(question: PermissionNeeded) -> Plain:
    """What a person is asked: `SandboxPermissionNeeded`. `effects` says what each answer would grant."""
    from pinfold.approval import wording

    return {
        "requestId": question.request_id,
        "sessionId": question.session,
        "toolCallId": question.tool_call_id or None,
        "capability": question.capability,
        "command": writable(question.command),
        "cwd": writable(question.cwd),
        "description": writable(question.description),
        "choices": question.choices,
        "host": question.host or None,
        "port": question.port or None,
        "operation": question.operation or None,
        "path": writable(question.path) or None,
        "program": writable(question.program) or None,
        "rules": [writable(rule) for rule in question.rules],
        "headline": wording.headline(question, str),
        "wanted": wording.wanted(question, str),
        "effects": {each.answer: each.effect for each in wording.offers(question, question.reaches[0], str)},
        **decision_as_plain(question.decision),
    }


DENIED = (
    "do not try it again in another spelling; do the task without it, or tell the person what prevents it"
)
SAID_NO = (
    "the person said no: do not ask for the same again; do the task without it, or ask them what they would"
    " rather have"
)
UNASKED = "no person could be asked: do the task without it, or tell the person what you need and why"
ELSEWHERE = "choose another path, or another way; the same call would be refused again"


def refusal_as_plain(decision: Decision, settlement: Settlement | None) -> Plain:
    """Why something was not done, and what the caller may do next."""
    from pinfold.session.result import refusal_of

    reason = decision.reasons[0]
    said_no = settlement is not None and settlement.is_refusal
    return {
        "kind": "refused",
        "verdict": decision.verdict,
        "step": reason.step,
        "rule": writable(reason.rule) or None,
        "where": str(reason.origin) if reason.origin else None,
        "message": writable(refusal_of(decision, settlement)),
        "remedy": writable(reason.remedy) or None,
        "next": DENIED if decision.verdict is Verdict.DENY else SAID_NO if said_no else UNASKED,
        "answer": settlement,
    }


def file_refusal_as_plain(refused: FileRefused) -> Plain:
    """Why a file tool did not do something, with the path."""
    path, message = writable(refused.path), writable(str(refused))
    if refused.decision is not None:
        return {**refusal_as_plain(refused.decision, refused.settlement), "path": path, "message": message}
    return {
        "kind": "refused",
        "verdict": Verdict.DENY,
        "step": refused.rule,
        "rule": None,
        "where": None,
        "message": message,
        "remedy": writable(refused.remedy) or None,
        "next": writable(refused.remedy) or ELSEWHERE,
        "answer": None,
        "path": path,
    }


def writable(text: str) -> str:
    """The text without lone surrogates, which Python uses for bytes that were not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def all_writable(value: object) -> object:
    """A value with `writable` applied to every text in it."""
    match value:
        case str():
            return writable(value)
        case dict():
            return {all_writable(key): all_writable(each) for key, each in value.items()}
        case list() | tuple():
            return [all_writable(each) for each in value]
        case Struct():
            return all_writable(to_builtins(value))
    return value
