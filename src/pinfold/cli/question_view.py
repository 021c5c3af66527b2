"""Draws a question at a terminal: what is wanted, why, and what each answer would do."""

import os
from typing import TYPE_CHECKING

from pinfold.approval import wording
from pinfold.approval.keystrokes import EXPLAIN, WIDER
from pinfold.cli.carets import draw, spaced, unspaced
from pinfold.cli.output import short_path
from pinfold.model.decision import StepCode
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reach
from pinfold.model.request import Connect, Request, RunCommand, WriteFile
from pinfold.session.request import rule_trouble

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 100
MOST_REASONS = 4
FEWEST_LINES = 6
BELOW = 18
"""Lines below the command: reasons, choices and the prompt."""
AROUND = 2
"""Lines before the question and after the choices."""
LONGEST_FACT = 240
"""Characters of a fact that are shown before the person presses `e`."""
UNSEEN = "  not all of this fits on the screen: press `e` to see it in parts, then answer"
PLACE = "in"
"""The fact that says where a command runs, as `wording.circumstances` names it."""
GRANTING_NOTHING = ("wanted by", "agent says")
"""Facts that do not change what a yes grants."""
Facts = list[tuple[str, str]]


class QuestionView:
    """INVARIANT: text from elsewhere is drawn in visible characters (`model.escape_text`). However long it
    is, what is wanted is on the screen together with the choices."""

    def question(self, question: PermissionNeeded, columns: int, rows: int) -> list[str]:
        from rich.text import Text

        lines = self._lines(question, columns, rows)
        below = self._shown_again(question, lines, columns, rows)
        if below is None or question.choices == (Answer.NO,):  # other answers come after `e`
            return [*lines, *_drawn([Text(UNSEEN), _headline(question), Text()], min(columns, WIDEST))]
        return [*lines, *below]

    def _lines(self, question: PermissionNeeded, columns: int, rows: int) -> list[str]:
        from rich.rule import Rule
        from rich.text import Text

        width = min(columns, WIDEST)
        command = [Text(spaced(line)) for line in _command(question, width, _most_lines(rows))]
        return _drawn(
            [
                Rule("pinfold asks", style="yellow", align="left", characters="-" if _is_plain() else "─"),
                _headline(question),
                Text(),
                *(command if question.capability not in wording.RUNNING else ()),
                _table([(name, _cut(name, value)) for name, value in _facts(question)]),
                Text(),
            ],
            width,
        )

    def is_cut(self, question: PermissionNeeded, columns: int, rows: int) -> bool:
        return self._shown_again(question, self._lines(question, columns, rows), columns, rows) is None

    def _shown_again(
        self, question: PermissionNeeded, lines: list[str], columns: int, rows: int
    ) -> list[str] | None:
        """What stands once more between the question's lines and the choices, where not all lines are on the
        screen; None if a yes covers something that would not be on it."""
        from rich.text import Text

        width = min(columns, WIDEST)
        is_running = question.capability in wording.RUNNING
        if not is_running and len(_command_lines(question, width)) > _most_lines(rows):
            return None
        if self._fits(question, lines, columns, rows):
            return []
        if question.decision.widening or question.source:
            return None
        if is_running:  # the headline is all that is granted
            return _drawn([_headline(question), Text()], width)
        command = [Text(spaced(line)) for line in _command(question, width, _most_lines(rows))]
        place = _table([fact for fact in _facts(question) if fact[0] == PLACE])
        again = _drawn([_headline(question), Text(), *command, place, Text()], width)
        return again if self._fits(question, again, columns, rows) else None

    def _fits(self, question: PermissionNeeded, lines: list[str], columns: int, rows: int) -> bool:
        below = len(self.choices(question, question.reaches[0], columns)) + AROUND
        return len(lines) + below <= rows

    def choices(self, question: PermissionNeeded, reach: Reach, columns: int) -> list[str]:
        from rich.text import Text

        return _drawn([_table(_answers(question, reach), "bold"), Text()], min(columns, WIDEST))

    def explanation(self, question: PermissionNeeded, columns: int) -> list[str]:
        from pinfold.cli.explain import explanation_lines

        width = min(columns, WIDEST)
        lines = explanation_lines(_request(question), question.decision, colours=not _is_plain(), width=width)
        return [*lines, "", *_whole(question, width)]

    def rule_trouble(self, question: PermissionNeeded, text: str) -> str:
        return rule_trouble(question, text)


def _headline(question: PermissionNeeded) -> "RenderableType":
    from rich.text import Text

    return Text(spaced(wording.headline(question, short_path)), style="bold")


def _is_plain() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"


def _request(question: PermissionNeeded) -> Request:
    match question.capability:
        case Capability.CONNECT:
            return Connect(question.host, question.port)
        case Capability.WRITE:
            return WriteFile(question.path)
    return RunCommand(question.command)


def _command(question: PermissionNeeded, width: int, most: int) -> list[str]:
    """The command, with carets under the parts that the reasons are about."""
    lines = _command_lines(question, width)
    if len(lines) <= most:
        return [*lines, ""]
    return [
        *lines[:most],
        f"  ... and {len(lines) - most} more lines: press `e` to see them, then answer",
        "",
    ]


def _command_lines(question: PermissionNeeded, width: int) -> list[str]:
    return draw(question.command.rstrip("\n"), wording.marks(question), width=width - 8, whole=True)


def _whole(question: PermissionNeeded, width: int) -> list[str]:
    """The whole command, every fact that was cut, and the headline again."""
    from rich.text import Text

    lines = [Text(spaced(f"  {visible(line)}")) for line in question.command.split("\n")]
    command = [Text("the whole command:"), *lines, Text()] if question.command else []
    is_all = bool(question.decision.widening or question.source)
    facts = [(name, value) for name, value in _facts(question) if is_all or len(value) > LONGEST_FACT]
    return _drawn([*command, _table(facts), _headline(question)], width)


def _cut(name: str, fact: str) -> str:
    """Cuts a long fact, unless a yes depends on it."""
    if name not in GRANTING_NOTHING or len(fact) <= LONGEST_FACT:
        return fact
    return f"{fact[:LONGEST_FACT]} … (press `e` for all of it)"


def _most_lines(rows: int) -> int:
    return max(FEWEST_LINES, rows - BELOW)


def _facts(question: PermissionNeeded) -> Facts:
    reasons = wording.reasons(question)
    facts = wording.circumstances(question, short_path)
    if question.decision.widening:  # `circumstances` lists them one by one
        reasons = [reason for reason in reasons if reason.step is not StepCode.WIDENING]
    names = ["why", *[""] * MOST_REASONS]
    explanation_lines = dict.fromkeys(visible(reason.message) for reason in reasons[:MOST_REASONS])
    facts += list(zip(names, explanation_lines, strict=False))
    if len(reasons) > MOST_REASONS:
        facts.append(("", f"and {len(reasons) - MOST_REASONS} more (press `e`)"))
    if question.description:
        facts.append(("agent says", visible(question.description)))
    return facts


def _answers(question: PermissionNeeded, reach: Reach) -> Facts:
    also = {Answer.NO: " (also Enter, Ctrl-C, and when time is up)"}
    rows = [
        (offer.key, str(offer.answer), offer.effect + also.get(offer.answer, ""))
        for offer in wording.offers(question, reach, short_path)
    ]
    if question.can_widen:
        after = wording.widening(question, reach, short_path)
        word = "narrower" if question.is_widest(reach) else "wider"
        rows.append((WIDER, word, f"show answers that apply to {after}"))
    rows.append((EXPLAIN, "explain", "every reason, where it is written, and the whole command"))
    return [(f"{key}  {word:7}", effect) for key, word, effect in rows]


def _table(rows: Facts, style: str = "dim") -> "RenderableType":
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(f"  {name}", spaced(value))
    return table


def _drawn(parts: "list[RenderableType]", width: int) -> list[str]:
    from io import StringIO

    from rich.console import Console

    plain = _is_plain()
    console = Console(
        file=StringIO(),
        width=width - 1,
        force_terminal=not plain,
        no_color=plain,
        color_system=None if plain else "standard",
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for part in parts:
        console.print(part, soft_wrap=False)
    assert isinstance(console.file, StringIO)  # noqa: S101  (for mypy)
    return [line.rstrip() for line in unspaced(console.file.getvalue()).splitlines()]
