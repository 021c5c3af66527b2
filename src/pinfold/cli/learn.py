"""`pinfold learn`: runs a command as `run` does, and proposes the fewest settings that would have allowed it.

The proposal is a change of the user's settings file, shown as a diff, which only a person at a terminal
accepts. There is no option to accept it: the author of the command could then write the settings. Without a
terminal the proposal is printed, and nothing is changed.
"""

import os
import sys
import termios
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinfold.approval.terminal import (
    AS_USUAL,
    EMPTY_BELOW,
    LEAVE_WINDOW,
    QUIET,
    SET_RIGHT,
    TTY,
    TerminalApprover,
    without_pictures,
)
from pinfold.cli import STDERR
from pinfold.cli.judged_arguments import require_part_of_machine
from pinfold.cli.output import fold_for_terminal, print_json, short_path
from pinfold.cli.question_view import QuestionView
from pinfold.cli.run import DENIED, add_run, command_from_args, exit_code, open_session, run_on_own_streams
from pinfold.cli.signals import end_on_signals
from pinfold.model.escape_text import visible
from pinfold.model.request import RunCommand
from pinfold.policy.learning import NotProposed
from pinfold.session import Session
from pinfold.session.learn import Learned, Listener, accept, chosen, learn

MOST_SHOWN = 20
YES, EACH, NO = "y", "e", "n"
ENOUGH = "pinfold: this change (it applies to all your commands and projects) would have allowed everything:"
NOT_ENOUGH = (
    "pinfold: this change (it applies to all your commands and projects) would have allowed everything "
    "except the items listed below:"
)
ANSWERS = {"y": YES, "yes": YES, "e": EACH, "each": EACH}


def configure(parser: ArgumentParser) -> None:
    add_run(parser, "learn")


def run(args: Namespace) -> int:
    command = command_from_args(args, "pinfold learn -c 'make test'")
    end_on_signals()
    person = TerminalApprover(QuestionView())
    listener = Listener(person)
    try:
        with open_session(args, approvers=[listener], notes_reads=True) as session:
            require_part_of_machine(session, command)
            person.seconds = session.settings.approvals.question_timeout
            if args.json:
                return _as_json(session, listener, command)
            code, violations = run_on_own_streams(session, command, person)
            _propose(session, learn(session, listener, violations), person)
            return code
    finally:
        person.close()


def _as_json(session: Session, listener: Listener, command: RunCommand) -> int:
    from pinfold.session.serialize import result_as_plain

    result = session.run(command)
    learned = learn(session, listener, result.violations)
    print_json({**result_as_plain(result, session.notices), "learned": _as_plain(learned)})
    return exit_code(result.exit_code, result.signal, result.timed_out) if result.ran else DENIED


def _as_plain(learned: Learned) -> dict[str, object]:
    from pinfold.session.serialize import writable

    proposal = learned.proposal
    return {
        "file": learned.file or None,
        "diff": writable(_diff(learned, learned.file)),
        "entries": proposal.entries,
        "makes": proposal.new_directories,
        "notProposed": [
            {
                "operation": left.record.operation,
                "what": [writable(path) for path in left.record.paths],
                "program": writable(left.record.program) or None,
                "why": writable(left.why),
            }
            for left in proposal.not_proposed
        ],
        "notes": [writable(note) for note in learned.notes],
    }


def _diff(learned: Learned, name: str) -> str:
    from pinfold.cli.install import diff

    is_changed = learned.after != (learned.before or "")
    return diff(learned.before, learned.after, name) if learned.file and is_changed else ""


def _propose(session: Session, learned: Learned, person: TerminalApprover) -> None:
    """Prints the proposal, and asks at a terminal whether to write it."""
    if not _diff(learned, "") or not person.is_there():
        print(
            _proposal_text(learned, asks=False, fold=lambda line: fold_for_terminal(line, STDERR)),
            file=sys.stderr,
        )
        return
    with person.turn, _terminal() as terminal:
        terminal.write(_proposal_text(learned, asks=True, fold=terminal.fold))
        answer = terminal.answer("write this to your settings? [y]es, [e]ach separately, [n]o: ")
        if answer == EACH:
            entries = learned.proposal.entries
            kept = [
                entry
                for entry in entries
                if terminal.answer(f"  {entry.key}: {visible(entry.value)}? [y]es, [n]o: ") == YES
            ]
            learned = chosen(session, learned, kept)
            answer = YES if kept else NO
        if answer == YES and accept(learned):
            terminal.write(f"changed {visible(short_path(learned.file))}")
        else:
            terminal.write("nothing was changed")


def _proposal_text(
    learned: Learned, *, asks: bool, fold: Callable[[str], list[str]] = lambda line: [line]
) -> str:
    """The proposal as text. `fold` wraps sentences; a diff is not wrapped."""
    proposal = learned.proposal
    changes = _diff(learned, short_path(learned.file))
    lines: list[str] = []
    if changes:
        lines += [
            "",
            *fold(NOT_ENOUGH if proposal.not_proposed else ENOUGH),
            *(visible(line) for line in changes.splitlines()),
        ]
    if proposal.not_proposed:
        too = " also" if changes else ""
        lines += ["", *fold(f"pinfold: the command{too} tried this, which no proposal allows:")]
        lines += (
            part for left in proposal.not_proposed[:MOST_SHOWN] for part in fold(f"  {_left_text(left)}")
        )
    if len(proposal.not_proposed) > MOST_SHOWN:
        lines.append(f"  and {len(proposal.not_proposed) - MOST_SHOWN} more, which `--json` lists")
    if not changes and not proposal.not_proposed and learned.was_seen:
        lines += fold("pinfold: your settings already allow everything that the command tried")
    lines += (part for note in learned.notes for part in fold(f"note: {visible(note)}"))
    if changes and not asks:
        lines += fold(
            "pinfold: nothing is changed; to accept this, run it at a terminal, or edit your settings"
        )
    return "\n".join(lines)


def _left_text(left: NotProposed) -> str:
    record = left.record
    what = ", ".join(visible(short_path(path)) for path in record.paths) or "it"
    program = f" ({visible(record.program)})" if record.program else ""
    return f"{record.operation} {what}{program}: {visible(left.why)}"


@contextmanager
def _terminal() -> "Iterator[_Terminal]":
    descriptor = os.open(TTY, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        terminal = _Terminal(descriptor)
        try:
            yield terminal
        finally:
            terminal.restore()
    finally:
        os.close(descriptor)


class _Terminal:
    """Asks a person for whole lines: the command has ended, and the shell's terminal modes are back.

    Preconditions: the turn is held, so that no other thread reads what is typed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        # The command's output may have left the terminal in any state.
        cleared = SET_RIGHT + LEAVE_WINDOW + without_pictures(os.environ) + EMPTY_BELOW
        self._put("" if self._is_dumb else cleared)

    def restore(self) -> None:
        self._put("" if self._is_dumb else AS_USUAL)

    def write(self, text: str) -> None:
        self._put(f"{text}\n")

    def fold(self, line: str) -> list[str]:
        return fold_for_terminal(line, self._descriptor)

    def answer(self, prompt: str) -> str:
        """What was typed after this prompt appeared; no for anything that is not an answer."""
        time.sleep(QUIET)
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        self._put(prompt)
        try:
            line = os.read(self._descriptor, 1024).decode("utf-8", "replace")
        except KeyboardInterrupt:
            line = ""
        if not line.endswith("\n"):
            self.write("")
        return ANSWERS.get(line.strip().lower(), NO)

    def _put(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._descriptor, data) :]
