"""`pinfold check`: allow, ask or deny, for programs and for people in a hurry."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from pinfold.cli.common import print_json
from pinfold.cli.request_args import add_request, request_of, require_part_of_machine, session_of
from pinfold.model.decision import Decision, Verdict
from pinfold.model.escape_text import visible
from pinfold.model.request import Request
from pinfold.session import Session
from pinfold.session.serialize import decision_as_plain

EXIT = {Verdict.ALLOW: 0, Verdict.ASK: 10, Verdict.DENY: 11}


def configure(parser: ArgumentParser) -> None:
    add_request(parser)


def run(args: Namespace) -> int:
    return answered(args, _in_a_line)


def answered(args: Namespace, tell: Callable[[Request, Decision, Session], str]) -> int:
    """Prints what would be done about what the arguments ask for, to a person as `tell` has it; the exit
    code that says the same."""
    request, session = request_of(args), session_of(args)
    require_part_of_machine(session, request)
    decision = session.check(request)
    if args.json:
        print_json(decision_as_plain(decision, session.notices))
    else:
        print(tell(request, decision, session))
    return EXIT[decision.verdict]


def _in_a_line(_request: Request, decision: Decision, _session: Session) -> str:
    return f"{decision.verdict}: {visible(decision.reasons[0].message)}"
