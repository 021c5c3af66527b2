"""`pinfold check` and `pinfold explain`: what would be decided about a request. Nothing is run.

`check` prints one line. `explain` draws the command with a caret under each part that was judged. Then it
lists each reason with its step, its rule, where the rule is written, and what would change the answer.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from pinfold.cli.carets import draw
from pinfold.cli.judged_arguments import add_request, request_of, require_part_of_machine, session_of
from pinfold.cli.output import caller, fold, fold_for_terminal, is_coloured, origin_text, paint, print_json
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
from pinfold.session.permission_requests import named
from pinfold.session.request import as_request
from pinfold.session.serialize import decision_as_plain

EXIT = {Verdict.ALLOW: 0, Verdict.ASK: 10, Verdict.DENY: 11}
COLOURS = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.DENY: "red"}
MOST_REASONS = 12
MARGIN = 8
"""Columns between a drawn line and the edge."""


def configure(parser: ArgumentParser) -> None:
    add_request(parser)


def check(args: Namespace) -> int:
    return _print_decision(args, _one_line)


def run(args: Namespace) -> int:
    return _print_decision(args, _in_full)


def _print_decision(args: Namespace, text_of: Callable[[Request, Decision, Session], str]) -> int:
    """Prints the decision about the request in the arguments; returns the exit code for it."""
    request, session = request_of(args), session_of(args)
    require_part_of_machine(session, request)
    decision = session.check(request)
    if args.json:
        wants = session.judge_at(session.cwd).foreseen(as_request(request), decision)
        print_json({**decision_as_plain(decision, session.notices), "foreseen": wants})
    else:
        print(text_of(request, decision, session))
    return EXIT[decision.verdict]


def _one_line(request: Request, decision: Decision, session: Session) -> str:
    wants = _wants(request, decision, session)
    line = f"{decision.verdict}: {visible(decision.reasons[0].message)}"
    return f"{line}; it will want: {wants}" if wants else line


def _wants(request: Request, decision: Decision, session: Session) -> str:
    """What the line will want beyond its start, by name."""
    wants = session.judge_at(session.cwd).foreseen(as_request(request), decision)
    return "; ".join(visible(named(each)) for each in wants)


def _in_full(request: Request, decision: Decision, session: Session) -> str:
    lines = explanation_lines(request, decision, is_coloured())
    if isinstance(request, RunCommand) and decision.sandboxed and decision.verdict is not Verdict.DENY:
        if wants := _wants(request, decision, session):
            lines += ["", *_folded(f"  It will want: {wants}.", 0, 2)]
        lines += _asked_later(decision, session.settings)
    return "\n".join([*lines, *_notes(session.notices)])


def _asked_later(decision: Decision, settings: Settings) -> list[str]:
    """What the sandbox will ask about while the command runs, which the line alone does not show."""
    later = []
    if settings.network.access is NetworkAccess.ASK:
        later.append("connects to a host that is not in `network.allow`")
    if settings.filesystem.ask and decision.policy.type is PolicyType.WORKSPACE_READWRITE:
        later += ["writes to `.git`"] if decision.policy.block_git_writes else []
        later.append("writes outside the project")
    if not later:
        return []
    *first, last = later
    what = f"{', '.join(first)} or {last}" if first else last
    return ["", *_folded(f"  While it runs, pinfold asks you before it {what}.", 0, 2)]


def _notes(notices: tuple[str, ...]) -> list[str]:
    return ["", *(f"  note: {visible(notice)}" for notice in notices)] if notices else []


def explanation_lines(request: Request, decision: Decision, colours: bool, width: int = 0) -> list[str]:
    """A decision with its reasons, as lines for a person."""
    lines = [_headline(request, decision, colours)]
    width = width and width - MARGIN
    text = request.command.rstrip("\n") if isinstance(request, RunCommand) else _request_text(request)
    spans = [command.span for command in decision.commands]
    if text.strip():
        lines += ["", *draw(text, spans, width=width)]
    for reason in decision.reasons[:MOST_REASONS]:
        # A part is drawn once more only where the line has others.
        several = reason.span is not None and draw(text, [reason.span]) != draw(text, spans)
        lines += ["", *_reason(reason, text, several, colours, width)]
    if len(decision.reasons) > MOST_REASONS:
        lines += ["", f"  and {len(decision.reasons) - MOST_REASONS} more reasons, which `--json` lists"]
    if decision.candidates:
        lines += ["", "  to allow it without a question from now on:"]
        lines += [
            f"    pinfold rules add allow {visible(quoted(candidate))}" for candidate in decision.candidates
        ]
    return lines


def _request_text(request: Request) -> str:
    """A request that is not a command, in words."""
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
    if not isinstance(request, RunCommand) or decision.verdict is Verdict.DENY:
        return verdict
    return f"{verdict}, {'in' if decision.sandboxed else 'outside'} the sandbox"


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
    rows = (f"    {name:{longest}}  {visible(value)}" for name, value in facts.items() if value)
    return [
        *(paint(line, "dim", colours) for line in marked),
        *(paint(line, "bold", colours) for line in _folded(f"  {visible(reason.message)}", width, 2)),
        *(line for row in rows for line in _folded(row, width, longest + 6)),
    ]


def _folded(line: str, width: int, indent: int) -> list[str]:
    return fold(line, width + MARGIN, indent) if width else fold_for_terminal(line, caller().stdout, indent)


def _rule(reason: Reason) -> str:
    where = origin_text(reason.origin) if reason.origin else ""
    if not (reason.origin and reason.rule):
        return reason.rule or where
    return f"{reason.rule}, at {where}" if where else f"{reason.rule}, by {reason.origin.layer}"
