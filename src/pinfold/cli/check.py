"""`pinfold check`: allow, ask or deny, for programs and for people in a hurry."""

from argparse import ArgumentParser, Namespace

from pinfold.cli.common import print_json
from pinfold.cli.requests import add_request, request_of, require_part_of_machine, session_of
from pinfold.model.decision import Verdict
from pinfold.model.visible import visible
from pinfold.session.plain import decision_as_plain

EXIT = {Verdict.ALLOW: 0, Verdict.ASK: 10, Verdict.DENY: 11}


def configure(parser: ArgumentParser) -> None:
    add_request(parser)


def run(args: Namespace) -> int:
    request, session = request_of(args), session_of(args)
    require_part_of_machine(session, request)
    decision = session.check(request)
    if args.json:
        print_json(decision_as_plain(decision, session.notices))
    else:
        print(f"{decision.verdict}: {visible(decision.reasons[0].message)}")
    return EXIT[decision.verdict]
