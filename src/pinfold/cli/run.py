"""`pinfold run`: decides, asks if need be, and runs the command inside the fence.

On a terminal the command gets one of its own; otherwise its streams are carried as they come.
"""

import os
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pinfold.approval.terminal import TerminalApprover
from pinfold.cli import SIGNALLED, interrupted
from pinfold.cli.common import add_common, port, print_json, short
from pinfold.cli.draw import tell
from pinfold.cli.question_view import Asking
from pinfold.cli.request_args import add_call, add_choices, request_from, require_part_of_machine, session_of
from pinfold.cli.signals import hear_endings, note_interrupt
from pinfold.model.codes import AskedAt
from pinfold.model.errors import PinfoldError, PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.home import home_of
from pinfold.model.permission import PermissionNeeded
from pinfold.model.request import RunCommand
from pinfold.model.violation import READ, Violation
from pinfold.policy.paths import is_covered
from pinfold.policy.shipped_protected import INSTALLED
from pinfold.session import Session
from pinfold.session.execution import Execution
from pinfold.settings.policy import expand
from pinfold.state.web_page import page_file
from pinfold.workspace.granted_paths import has_glob, look

if TYPE_CHECKING:
    from pinfold.approval import Approver
    from pinfold.web import WebApprover

DENIED, TIMED_OUT = 126, 124
SIGINT, SIGPIPE = 2, 13
INTERRUPT = b"\x03"
MOST_SHOWN = 5


def configure(parser: ArgumentParser) -> None:
    add_run(parser, "run")
    parser.add_argument("--asked-by", metavar="AGENT", help="the agent whose hook has asked about it")


def add_run(parser: ArgumentParser, verb: str) -> None:
    """What names a command to run, and how."""
    parser.usage = (
        f"pinfold {verb} [OPTION...] -- CMD [ARG...]\n       pinfold {verb} [OPTION...] -c 'shell line'"
    )
    parser.add_argument("-c", dest="shell_line", metavar="LINE", help="a shell line")
    parser.add_argument("words", nargs=REMAINDER, metavar="CMD ARG...", help="a program and its arguments")
    parser.add_argument("--write", metavar="PATH", action="append", help="a path that may be written too")
    parser.add_argument("--hide", metavar="PATH", action="append", help="a path that it cannot look into")
    parser.add_argument("--allow-domain", metavar="HOST", action="append", help="a host that passes the gate")
    parser.add_argument(
        "--publish",
        metavar="PORT",
        type=port,
        action="append",
        help="a port inside that your loopback reaches",
    )
    parser.add_argument(
        "--project", metavar="DIR", action="append", help="a project to work in; else the one around here"
    )
    add_choices(parser)
    add_call(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    command = command_of(args)
    hear_endings()
    person = TerminalApprover(Asking())
    page = _page()
    # The terminal of an agent's command is one that the agent made, if any, and types into.
    first: list[Approver] = [person] if args.asked_by is None else _agent(args.asked_by)
    approvers = [*first, *page]
    try:
        with opened(args, approvers=approvers) as session:
            require_part_of_machine(session, command)
            person.seconds = session.settings.approvals.question_timeout
            for each in page:
                each.seconds = person.seconds
            if args.json:
                return _as_json(session, command)
            _tell_wide_project(session)
            _tell_own_place(session)
            _tell_missing(session, args.write or ())
            _tell_idle_globs(session)
            code, violations = as_program(session, command, person)
            if violations:
                _tell_violations(violations if code else _without_histories(violations))
            return code
    finally:
        person.close()


def opened(args: Namespace, **given: Any) -> Session:
    """The session that the arguments ask for."""
    lists = {
        "filesystem": {"write": args.write, "hide": args.hide},
        "network": {"allow": args.allow_domain, "publish": args.publish},
    }
    return session_of(args, lists=lists, projects=args.project or (), one_command=True, **given)


def command_of(args: Namespace) -> RunCommand:
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if bool(words) == (args.shell_line is not None):
        raise PolicyError("give a program and its arguments after --, or a shell line with -c")
    return request_from(args, args.shell_line or "", tuple(words) or None)


def _agent(name: str) -> "list[Approver]":
    from pinfold.integrations.hooks import AGENTS
    from pinfold.integrations.hooks.approval_tickets import AgentApprover

    if name not in AGENTS:
        raise PolicyError(f"there is no agent `{name}`", help=f"there are: {', '.join(AGENTS)}")
    return [AgentApprover(name, os.environ)]


def _page() -> "list[WebApprover]":
    """Whoever looks at the page, if there is one."""
    if not os.path.exists(page_file(os.environ)):
        return []
    from pinfold.web import WebApprover

    return [WebApprover(os.environ, told=_tell_of_page)]


def _tell_of_page(question: PermissionNeeded) -> None:
    """Without this a run that waits looks like one that hangs."""
    from pinfold.approval.wording import headline

    tell(f"waiting for your answer on the page of `pinfold web`: {headline(question, short)}")


def _tell_wide_project(session: Session) -> None:
    """Nobody who works in their home means all of it."""
    if sys.stderr.isatty() and os.path.realpath(home_of(os.environ)) in session.roots:
        tell("your whole home is the project, so all of it may be written; name a part of it by --project")


def _tell_own_place(session: Session) -> None:
    """Who works in /usr is asked about each file."""
    for place in dict.fromkeys(map(os.path.realpath, (sys.prefix, sys.base_prefix))):
        if sys.stderr.isatty() and place in session.roots:
            tell(f"all of {visible(place)} is protected: {INSTALLED}; name a part of it by --project")


def _tell_missing(session: Session, paths: Sequence[str]) -> None:
    """What is not there cannot be opened, and the command would only hear that it is read-only there."""
    for path in paths:
        place = expand(path, session.roots[0], home_of(os.environ))
        if not has_glob(path) and not os.path.lexists(place) and not is_covered(place, session.roots):
            tell(f"--write opens nothing: {visible(place)} is not there; make it first")


def _tell_idle_globs(session: Session) -> None:
    found = look(session.settings, session.roots, home_of(os.environ))
    if found and found.notices:
        tell(visible("; ".join(found.notices)))


def _as_json(session: Session, command: RunCommand) -> int:
    from pinfold.session.serialize import result_as_plain

    result = session.run(command)
    print_json(result_as_plain(result, session.notices))
    if not result.ran:
        return DENIED
    return exit_code(result.exit_code, result.signal, result.timed_out)


def exit_code(code: int | None, signal: int | None, timed_out: bool) -> int:
    if timed_out:
        return TIMED_OUT
    return code if code is not None else SIGNALLED + (signal or 0)


def as_program(
    session: Session, command: RunCommand, person: TerminalApprover
) -> tuple[int, tuple[Violation, ...]]:
    """Runs it with our own streams: its exit code, and what it was refused."""
    from pinfold.cli import stdio
    from pinfold.cli.progress import patience

    on_terminal = stdio.is_terminal(0) and stdio.is_terminal(1) and stdio.is_in_front()
    known = session.notices
    stdin, begin_input = stdio.standard_input(person.turn) if not on_terminal else (None, lambda: None)
    with patience(session.roots, person.turn):
        execution = session.start(command, stdin=stdin, terminal=stdio.size() if on_terminal else None)
    if execution.refusal:
        _tell_refusal(command, execution)
        return DENIED, ()
    begin_input()
    # Of this start alone, such as a port that is taken; of the settings' own `pinfold status` tells.
    for notice in session.notices:
        if notice not in known:
            tell(visible(notice))
    if on_terminal:
        # The command is what Ctrl-C is for, as it is when no question stands.
        person.interrupt = lambda: _press(execution, INTERRUPT)
    try:
        if on_terminal:
            end = stdio.on_terminal(execution, person.turn, person.close)
        else:
            end = stdio.carried(execution, person.turn)
    except KeyboardInterrupt as signalled:
        execution.cancel()
        return interrupted(signalled), ()
    except BrokenPipeError:
        execution.cancel()  # whoever read us has gone, as a shell's pipe would end it
        return SIGNALLED + SIGPIPE, ()
    if on_terminal and end.signal == SIGINT:
        note_interrupt()
    for line in execution.left_running:
        tell(visible(line))
    violations = execution.violations
    if end.timed_out:
        limit = execution.decision.policy.limits.timeout
        tell(f"ended after {limit:g} s, its time limit")
    elif end.exit_code:
        from pinfold.cli.hints import hint, hopeless

        if said := hopeless(execution.decision):
            tell(said)
            violations = tuple(replace(each, remedy="") for each in violations)
        elif said := hint(execution.decision, end.exit_code, os.environ, session.cwd, session.roots):
            tell(said)
    return exit_code(end.exit_code, end.signal, end.timed_out), violations


def _tell_refusal(command: RunCommand, execution: Execution) -> None:
    settlement = execution.settlement
    # Whoever was asked at the terminal has just read why.
    if not (settlement and settlement.asked_at is AskedAt.TERMINAL):
        from pinfold.cli.draw import is_coloured
        from pinfold.cli.explain import told

        lines = told(command, execution.decision, is_coloured(sys.stderr))
        print("\n".join([*lines, ""]), file=sys.stderr)
    tell(f"not run; {visible(settlement.by)}" if settlement else "not run")


def _without_histories(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Of a command that has done its work nobody wants to hear that it could not begin a history."""
    from pinfold.settings.defaults import HISTORIES

    home = os.path.realpath(home_of(os.environ))
    kept = {expand(path, home, home) for path, _ in HISTORIES}
    return tuple(each for each in violations if each.operation == READ or each.path not in kept)


def _tell_violations(violations: tuple[Violation, ...]) -> None:
    for each in violations[:MOST_SHOWN]:
        if each.asked_at is AskedAt.TERMINAL:
            # Whoever was asked has just read the rest.
            tell(replace(each, why=each.answered).summary)
            continue
        rule = f" (`{visible(each.rule)}` is protected)" if each.rule and each.operation != "connect" else ""
        remedy = f"; to allow it: {visible(each.remedy)}" if each.remedy else ""
        tell(f"{each.summary}{rule}{remedy}")
    if len(violations) > MOST_SHOWN:
        tell(f"and {len(violations) - MOST_SHOWN} more")


def _press(execution: Execution, key: bytes) -> None:
    with suppress(PinfoldError, OSError):  # it has ended
        execution.write(key)
