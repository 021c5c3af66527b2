"""`pinfold check`: allow, ask or deny, for programs and for people in a hurry."""

from argparse import ArgumentParser, Namespace

from pinfold.cli.common import print_json
from pinfold.cli.requests import add_request, request_of, session_of
from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.visible import visible

EXIT = {Verdict.ALLOW: 0, Verdict.ASK: 10, Verdict.DENY: 11}


def configure(parser: ArgumentParser) -> None:
    add_request(parser)


def run(args: Namespace) -> int:
    session = session_of(args)
    decision = session.check(request_of(args))
    if args.json:
        print_json(as_json(decision, session.notices))
    else:
        print(f"{decision.verdict}: {visible(decision.reasons[0].message)}")
    return EXIT[decision.verdict]


def as_json(decision: Decision, notices: tuple[str, ...]) -> dict[str, object]:
    """A decision as other programs read it."""
    from pinfold.policy.convert import to_executor

    return {
        "decision": decision.verdict,
        "sandboxed": decision.sandboxed,
        "reasons": [_reason(reason) for reason in decision.reasons],
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


def _reason(reason: Reason) -> dict[str, object]:
    return {
        "step": reason.step,
        "rule": writable(reason.rule) or None,
        "message": writable(reason.message),
        "span": reason.span,
        "verdict": reason.verdict,
        "where": str(reason.origin) if reason.origin else None,
        "remedy": writable(reason.remedy) or None,
    }


def writable(text: str) -> str:
    """The text without lone surrogates, which stand for bytes that were not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
