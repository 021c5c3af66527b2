"""`pinfold explain`: a decision told to a person.

The line is drawn with a caret under each part that was judged; then each reason, with the step that
spoke, the rule and where it is written, and what would change the answer.
"""

from argparse import ArgumentParser, Namespace

from pinfold.cli import STDOUT
from pinfold.cli.check import answered
from pinfold.cli.common import place
from pinfold.cli.draw import draw, fold, folded, is_coloured, paint
from pinfold.cli.request_args import add_request
from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.escape_text import quoted, visible
from pinfold.model.policy import PolicyType
from pinfold.model.request import (
    CallTool,
    Connect,
    ReadFile,
    Request,
    RunCommand,
    UseBrowser,
    WriteFile,
)
from pinfold.model.settings import NetworkAccess, Settings
from pinfold.session import Session

COLOURS = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.DENY: "red"}
MOST_REASONS = 12
MARGIN = 8
"""Columns that a drawn line is kept from the edge."""


def configure(parser: ArgumentParser) -> None:
    add_request(parser)


def run(args: Namespace) -> int:
    return answered(args, _in_full)


def _in_full(request: Request, decision: Decision, session: Session) -> str:
    lines = told(request, decision, is_coloured())
    if isinstance(request, RunCommand) and decision.sandboxed and decision.verdict is not Verdict.DENY:
        lines += _asked_later(decision, session.settings)
    return "\n".join([*lines, *_notes(session.notices)])


def _asked_later(decision: Decision, settings: Settings) -> list[str]:
    """What the line alone does not show: the sandbox asks about it while the command runs."""
    later = []
    if settings.network.access is NetworkAccess.ASK:
        later.append("connects to a host that `network.allow` does not name")
    if settings.filesystem.ask and decision.policy.type is PolicyType.WORKSPACE_READWRITE:
        later += ["writes in `.git`"] if decision.policy.block_git_writes else []
        later.append("writes outside of the project")
    if not later:
        return []
    *first, last = later
    what = f"{', '.join(first)} or {last}" if first else last
    return ["", *_folded(f"  While it runs, a person is asked before it {what}.", 0, 2)]


def _notes(notices: tuple[str, ...]) -> list[str]:
    return ["", *(f"  note: {visible(notice)}" for notice in notices)] if notices else []


def told(request: Request, decision: Decision, colours: bool, width: int = 0) -> list[str]:
    """The whole story, as lines."""
    lines = [_headline(request, decision, colours)]
    width = width and width - MARGIN
    text = request.command.rstrip("\n") if isinstance(request, RunCommand) else _asked(request)
    spans = [command.span for command in decision.commands]
    if text.strip():
        lines += ["", *draw(text, spans, width=width)]
    for reason in decision.reasons[:MOST_REASONS]:
        # A part is drawn once more only where there are others beside it.
        several = reason.span is not None and draw(text, [reason.span]) != draw(text, spans)
        lines += ["", *_reason(reason, text, several, colours, width)]
    if len(decision.reasons) > MOST_REASONS:
        lines += ["", f"  and {len(decision.reasons) - MOST_REASONS} more"]
    if decision.candidates:
        lines += ["", "  not to be asked again:"]
        lines += [
            f"    pinfold rules add allow {visible(quoted(candidate))}" for candidate in decision.candidates
        ]
    return lines


def _asked(request: Request) -> str:
    """What was asked, where it is no command."""
    match request:
        case ReadFile(path):
            return f"read {path}"
        case WriteFile(path, delete):
            return f"delete {path}" if delete else f"write {path}"
        case Connect(host, port):
            return f"connect to {host}:{port}"
        case CallTool(server, tool):
            return f"call {server}:{tool}"
        case UseBrowser(action, url):
            return f"browser {action} {url}".rstrip()
    return ""


def _headline(request: Request, decision: Decision, colours: bool) -> str:
    verdict = paint(str(decision.verdict), COLOURS[decision.verdict], colours)
    if not isinstance(request, RunCommand):
        return verdict
    inside = "inside the fence" if decision.sandboxed else "outside of the fence"
    return f"{verdict}, {inside}" if decision.verdict is not Verdict.DENY else verdict


def _reason(reason: Reason, text: str, several: bool, colours: bool, width: int) -> list[str]:
    marked = (
        draw(text, [reason.span], only_marked=True, width=width) if reason.span and text and several else []
    )
    facts = {
        "step": reason.step,
        "rule": _rule(reason),
        "to change it": reason.remedy,
    }
    longest = max(map(len, facts))
    told = (f"    {name:{longest}}  {visible(value)}" for name, value in facts.items() if value)
    return [
        *(paint(line, "dim", colours) for line in marked),
        *(paint(line, "bold", colours) for line in _folded(f"  {visible(reason.message)}", width, 2)),
        *(line for fact in told for line in _folded(fact, width, longest + 6)),
    ]


def _folded(line: str, width: int, indent: int) -> list[str]:
    return fold(line, width + MARGIN, indent) if width else folded(line, STDOUT, indent)


def _rule(reason: Reason) -> str:
    where = place(reason.origin) if reason.origin else ""
    if not (reason.origin and reason.rule):
        return reason.rule or where
    return f"{reason.rule}, at {where}" if where else f"{reason.rule}, by {reason.origin.layer}"
