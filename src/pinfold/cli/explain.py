"""`pinfold explain`: a decision told to a person.

The line is drawn with a caret under each part that was judged; then each reason, with the step that
spoke, the rule and where it is written, and what would change the answer.
"""

from argparse import ArgumentParser, Namespace

from pinfold.cli.check import EXIT, print_json
from pinfold.cli.common import place
from pinfold.cli.draw import draw, is_coloured, paint
from pinfold.cli.requests import add_request, request_of, session_of
from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.request import Request, RunCommand
from pinfold.model.visible import visible

COLOURS = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.DENY: "red"}
MOST_REASONS = 12


def configure(parser: ArgumentParser) -> None:
    add_request(parser)


def run(args: Namespace) -> int:
    request = request_of(args)
    decision = session_of(args).check(request)
    if args.json:
        print_json(decision)
    else:
        print("\n".join(told(request, decision, is_coloured())))
    return EXIT[decision.verdict]


def told(request: Request, decision: Decision, colours: bool) -> list[str]:
    """The whole story, as lines."""
    lines = [_headline(request, decision, colours)]
    text = request.command if isinstance(request, RunCommand) else ""
    if text.strip():
        lines += ["", *draw(text, [command.span for command in decision.commands])]
    for reason in decision.reasons[:MOST_REASONS]:
        lines += ["", *_reason(reason, text, len(decision.commands) > 1, colours)]
    if len(decision.reasons) > MOST_REASONS:
        lines += ["", f"  and {len(decision.reasons) - MOST_REASONS} more"]
    if decision.candidates:
        lines += ["", "  not to be asked again, add one of these to `commands.allow`:"]
        lines += [f"    pinfold rules add allow {_argument(candidate)}" for candidate in decision.candidates]
    return lines


def _headline(request: Request, decision: Decision, colours: bool) -> str:
    verdict = paint(str(decision.verdict), COLOURS[decision.verdict], colours)
    if not isinstance(request, RunCommand):
        return verdict
    inside = "inside the fence" if decision.sandboxed else "outside of the fence"
    return f"{verdict}, {inside}" if decision.verdict is not Verdict.DENY else verdict


def _reason(reason: Reason, text: str, several: bool, colours: bool) -> list[str]:
    marked = draw(text, [reason.span])[-2:] if reason.span and text and several else []
    facts = {
        "step": reason.step,
        "rule": _rule(reason),
        "to change it": reason.remedy,
    }
    width = max(map(len, facts))
    return [
        *(paint(line, "dim", colours) for line in marked),
        f"  {paint(visible(reason.message), 'bold', colours)}",
        *(f"    {name:{width}}  {visible(value)}" for name, value in facts.items() if value),
    ]


def _rule(reason: Reason) -> str:
    if not reason.origin:
        return reason.rule
    where = place(reason.origin)
    return f"{reason.rule}, at {where}" if where else f"{reason.rule}, by {reason.origin.layer}"


def _argument(candidate: str) -> str:
    shown = visible(candidate)
    return "'" + shown.replace("'", "'\\''") + "'" if not shown.isalnum() else shown
