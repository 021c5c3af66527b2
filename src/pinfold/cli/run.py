"""`pinfold run`: decides about a command, asks if needed, and runs it in the sandbox.

On a terminal the command gets a terminal of its own; otherwise its output is passed on as it comes.
"""

import os
import signal
import sys
from argparse import REMAINDER, SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pinfold.approval.terminal import TerminalApprover
from pinfold.approval.terminal_turn import Turn
from pinfold.cli import SIGNALLED, interrupted_code
from pinfold.cli.arguments import add_common, filled, port
from pinfold.cli.judged_arguments import (
    add_call,
    add_choices,
    request_from,
    require_part_of_machine,
    session_of,
)
from pinfold.cli.output import caller, for_caller, print_json, report, short_path
from pinfold.cli.question_view import QuestionView
from pinfold.cli.signals import end_on_signals
from pinfold.model.agent_variables import AgentVariables
from pinfold.model.codes import AskedAt
from pinfold.model.errors import PinfoldError, PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.events import Exited
from pinfold.model.home import home_of
from pinfold.model.permission import PermissionNeeded
from pinfold.model.request import RunCommand
from pinfold.model.violation import READ, Violation
from pinfold.policy.paths import is_covered
from pinfold.policy.shipped_protected import PINFOLD_INSTALLED
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
WIDENING = ("write", "allow_domain", "publish", "network", "sandbox_policy", "settings")
"""Options that may let a command do more. A hook writes none of them into an agent's line."""
PATIENCE = 1.0
"""Seconds without a note while a command begins."""


def configure(parser: ArgumentParser) -> None:
    add_run(parser, "run")
    parser.add_argument(
        "--session",
        metavar="NAME",
        type=filled,
        help="a session that goes on after the command: the first run makes it, later ones join it",
    )
    parser.add_argument("--asked-by", metavar="AGENT", help="the agent whose hook judged the command already")
    parser.add_argument("--conversation", metavar="ID", default="", help="the agent's conversation")
    parser.add_argument("--offer", metavar="TOKEN", default="", help=SUPPRESS)
    parser.add_argument(
        "--background", action="store_true", help="no time limit, but one that --timeout or the settings set"
    )


def add_run(parser: ArgumentParser, verb: str) -> None:
    """Adds the arguments that name a command and how to run it."""
    parser.usage = (
        f"pinfold {verb} [OPTION...] -- CMD [ARG...]\n       pinfold {verb} [OPTION...] -c 'shell line'"
    )
    parser.add_argument("-c", dest="shell_line", metavar="LINE", help="a shell line")
    parser.add_argument("words", nargs=REMAINDER, metavar="CMD ARG...", help="a program and its arguments")
    parser.add_argument("--write", metavar="PATH", action="append", help="a path it may also write")
    parser.add_argument("--hide", metavar="PATH", action="append", help="a path to hide from it")
    parser.add_argument("--allow-domain", metavar="HOST", action="append", help="a host it may connect to")
    parser.add_argument(
        "--publish",
        metavar="PORT",
        type=port,
        action="append",
        help="a port in the sandbox to open on 127.0.0.1",
    )
    parser.add_argument(
        "--project",
        metavar="DIR",
        action="append",
        help="a project to work in, in place of the one around here",
    )
    add_choices(parser)
    add_call(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    if args.session is not None:
        from pinfold.cli.sessions import run_in_service

        return run_in_service(args)
    if args.asked_by is not None:
        _require_words_of_a_hook(args)
    command = command_from_args(args)
    end_on_signals()
    person = TerminalApprover(QuestionView())
    page = _page()
    # The terminal of an agent's command belongs to the agent, which could type the answer itself.
    first: list[Approver] = [person] if args.asked_by is None else _agent(args.asked_by)
    approvers = [*first, *page]
    try:
        # What an agent's command asks for, the agent's project may have set.
        environ = os.environ if args.asked_by is None else AgentVariables(os.environ)
        with open_session(args, approvers=approvers, environ=environ) as session:
            code = run_in(session, args, command, person, page)
    finally:
        person.close()
    if args.asked_by is None and _is_person_reading():
        from pinfold.cli.sessions import leave_service

        leave_service()
    return code


def _require_words_of_a_hook(args: Namespace) -> None:
    """An agent may write such a line by itself, and its own rules may let all of them run (`plan_rule`)."""
    from pinfold.integrations.hooks.rewrite import PLAN_POLICY

    given = [name for name in WIDENING if getattr(args, name) is not None]
    if args.policy not in (None, PLAN_POLICY):
        given.append("policy")
    if given:
        option = given[0].replace("_", "-")
        raise PolicyError(
            f"--asked-by is for lines of a hook, which have no --{option}; leave one of them out"
        )


def run_in(
    session: Session,
    args: Namespace,
    command: RunCommand,
    person: TerminalApprover,
    page: "Sequence[WebApprover]",
) -> int:
    """Runs the command that the arguments name, and says what is to be said of it."""
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
    code, violations = run_on_own_streams(session, command, person, is_background=args.background)
    for line in violation_lines(violations, failed=code != 0):
        report(line)
    return code


def open_session(args: Namespace, **given: Any) -> Session:
    """Opens the session that the arguments describe."""
    return session_of(args, lists=lists_of(args), projects=args.project or (), one_command=True, **given)


def lists_of(args: Namespace) -> dict[str, dict[str, object]]:
    """Settings that the arguments add to."""
    return {
        "filesystem": {"write": args.write, "hide": args.hide},
        "network": {"allow": args.allow_domain, "publish": args.publish},
    }


def command_from_args(args: Namespace, example: str = "pinfold run -c 'make test'") -> RunCommand:
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if bool(words) == (args.shell_line is not None):
        raise PolicyError(
            "give either a program and its arguments after --, or a shell line with -c",
            help=f"for example: {example}",
        )
    return request_from(args, args.shell_line or "", tuple(words) or None)


def _agent(name: str) -> "list[Approver]":
    from pinfold.integrations.hooks import AGENTS
    from pinfold.integrations.hooks.approval_tickets import AgentApprover

    if name not in AGENTS:
        raise PolicyError(f"unknown agent `{name}`", help=f"the agents are: {', '.join(AGENTS)}")
    return [AgentApprover(name, os.environ)]


def _page() -> "list[WebApprover]":
    """The person at the page of `pinfold web`, if that runs."""
    if not os.path.exists(page_file(os.environ)):
        return []
    from pinfold.web import WebApprover

    return [WebApprover(os.environ, told=tell_of_page)]


def tell_of_page(question: PermissionNeeded) -> None:
    """Prints where to answer: a run that waits without a word looks like one that hangs."""
    from pinfold.approval.wording import headline

    report(f"answer this on the page of `pinfold web`: {headline(question, short_path)}")


def _is_person_reading() -> bool:
    """Whether a person reads the messages."""
    err = caller().err
    return err is not None and err.isatty()


def _tell_wide_project(session: Session) -> None:
    """Warns if the whole home directory is the project, which is rarely meant."""
    if _is_person_reading() and os.path.realpath(home_of(caller().environ)) in session.roots:
        report(
            "the project is your whole home directory, so the command may write anywhere in it; "
            "use --project DIR to narrow it"
        )


def _tell_own_place(session: Session) -> None:
    """Warns if the project is where Python is installed: each write there would be a question."""
    for place in dict.fromkeys(map(os.path.realpath, (sys.prefix, sys.base_prefix))):
        if _is_person_reading() and place in session.roots:
            report(
                f"all of {visible(place)} is protected: {PINFOLD_INSTALLED}; use --project DIR to narrow it"
            )


def _tell_missing(session: Session, paths: Sequence[str]) -> None:
    """Warns about `--write` paths that do not exist: the command would only see a read-only file system."""
    for path in paths:
        place = expand(path, session.roots[0], home_of(caller().environ))
        if not has_glob(path) and not os.path.lexists(place) and not is_covered(place, session.roots):
            report(f"--write has no effect: {visible(place)} does not exist; create it first")


def _tell_idle_globs(session: Session) -> None:
    found = look(session.settings, session.roots, home_of(caller().environ))
    if found and found.notices:
        report(visible("; ".join(found.notices)))


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


def run_on_own_streams(
    session: Session, command: RunCommand, person: TerminalApprover, *, is_background: bool = False
) -> tuple[int, tuple[Violation, ...]]:
    """Runs the command on our own streams; returns its exit code and its violations."""
    from pinfold.cli import command_streams

    one = caller()
    on_terminal = (
        command_streams.is_terminal(one.stdin)
        and command_streams.is_terminal(one.stdout)
        and one.is_in_front()
    )
    known = session.notices
    stdin, begin_input = (
        command_streams.standard_input(person.turn) if not on_terminal else (None, lambda: None)
    )
    with progress_notes(session.roots, person.turn):
        execution = one.started(
            session,
            command,
            stdin=stdin,
            terminal=command_streams.size() if on_terminal else None,
            is_background=is_background or on_terminal,  # a person at a terminal ends it when they like
        )
    if execution.refusal:
        _tell_refusal(command, execution)
        return DENIED, ()
    begin_input()
    # Only notices of this start, such as a port in use; `pinfold status` lists those of the settings.
    for notice in session.notices:
        if notice not in known:
            report(visible(notice))
    if on_terminal:
        # Ctrl-C at a question also reaches the command, as it does while no question is open.
        person.interrupt = lambda: _press(execution, INTERRUPT)
    try:
        if on_terminal:
            end = command_streams.carry_on_terminal(execution, person.turn, person.close)
        else:
            end = command_streams.carry_streams(execution, person.turn)
    except KeyboardInterrupt as interrupt:
        execution.cancel()
        return interrupted_code(interrupt), ()
    except BrokenPipeError:
        execution.cancel()  # the reader of our output has gone; a shell's pipe would end the command too
        return SIGNALLED + SIGPIPE, ()
    if one.is_cancelled:
        return exit_code(end.exit_code, end.signal, end.timed_out), ()
    if on_terminal and end.signal == SIGINT:
        one.note_interrupt()
    lines, violations = ending_lines(session, execution, end, one.environ)
    for line in lines:
        report(line)
    return exit_code(end.exit_code, end.signal, end.timed_out), violations


def ending_lines(
    session: Session, execution: Execution, end: Exited, environ: Mapping[str, str]
) -> tuple[list[str], tuple[Violation, ...]]:
    """What is to be said of a command that has ended, and the violations that are to be reported."""
    lines = [visible(line) for line in execution.left_running]
    violations = execution.violations
    if end.timed_out:
        limit = execution.decision.policy.limits.timeout
        lines.append(f"stopped after {limit:g} s, its time limit; --timeout SECONDS sets another")
    elif end.exit_code:
        from pinfold.cli.hints import hint, hopeless

        if text := hopeless(execution.decision):
            lines.append(text)
            violations = tuple(replace(each, remedy="") for each in violations)
        elif text := hint(execution.decision, end.exit_code, environ, session.cwd, session.roots):
            lines.append(text)
    return lines, violations


def _tell_refusal(command: RunCommand, execution: Execution) -> None:
    settlement = execution.settlement
    # A person who was asked at the terminal has just read why.
    if not (settlement and settlement.asked_at is AskedAt.TERMINAL):
        from pinfold.cli.output import is_coloured

        err = caller().err
        print("\n".join(refusal_lines(command, execution, is_coloured(err))), file=err)
    report(not_run(execution))


def refusal_lines(command: RunCommand, execution: Execution, coloured: bool) -> list[str]:
    """Why a command is not run, with the part of the line that it is about."""
    from pinfold.cli.explain import explanation_lines

    return [*explanation_lines(command, execution.decision, coloured), ""]


def not_run(execution: Execution) -> str:
    return f"not run; {visible(execution.settlement.by)}" if execution.settlement else "not run"


def _without_histories(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Drops failed attempts to write a history file: not worth a line after a command that succeeded."""
    from pinfold.settings.defaults import HISTORIES

    home = os.path.realpath(home_of(caller().environ))
    kept = {expand(path, home, home) for path, _ in HISTORIES}
    return tuple(each for each in violations if each.operation == READ or each.path not in kept)


def violation_lines(violations: tuple[Violation, ...], *, failed: bool) -> Iterator[str]:
    """A line for each of the first violations. `failed` says whether the command did."""
    violations = violations if failed or not violations else _without_histories(violations)
    for each in violations[:MOST_SHOWN]:
        if each.asked_at is AskedAt.TERMINAL:
            # A person who was asked at the terminal has just read the rest.
            yield replace(each, why=each.answered).summary
            continue
        rule = f" (`{visible(each.rule)}` is protected)" if each.rule and each.operation != "connect" else ""
        remedy = f"; to allow it: {visible(each.remedy)}" if each.remedy else ""
        yield f"{each.summary}{rule}{remedy}"
    if len(violations) > MOST_SHOWN:
        yield f"and {len(violations) - MOST_SHOWN} more, which `--json` lists"


def _press(execution: Execution, key: bytes) -> None:
    with suppress(PinfoldError, OSError):  # it has ended
        execution.write(key)


@contextmanager
def progress_notes(roots: Sequence[str], turn: Turn) -> Iterator[None]:
    """Meanwhile, tells a person at the terminal once what takes so long: a hook of theirs, or the search of
    their project for hidden and protected files. Not while a question holds the terminal's `turn`.

    A timer signal of the process rings in the main thread, between two steps of the search. A thread would
    have to be started for every command, and hardly one takes that long.

    Preconditions: the main thread, unless it is for a client of the service: that has threads anyway.
    """
    if not _is_person_reading():
        yield
        return

    def ring(*_: object) -> None:
        if not turn.locked():
            report(_what_takes_long(roots))

    if caller().is_remote:
        from threading import Timer

        timer = Timer(PATIENCE, for_caller(ring))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _what_takes_long(roots: Sequence[str]) -> str:
    from pinfold.session.hooks import awaited

    if awaited:
        hooks = ", ".join(f"`{visible(name)}`" for name in awaited)
        return f"waiting for {hooks}, which `hooks.before_command` names"
    where = ", ".join(visible(short_path(root)) for root in roots)
    return f"searching {where} for hidden and protected files; a smaller --project takes less time"
