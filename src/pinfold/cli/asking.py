"""A question as a person at a terminal is shown it: what is wanted, why, and what each answer would do."""

import os
from typing import TYPE_CHECKING

from pinfold.cli.common import short
from pinfold.cli.draw import draw
from pinfold.model.decision import Verdict
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reach
from pinfold.model.request import Connect, Request, RunCommand, WriteFile
from pinfold.model.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 100
MOST_REASONS = 4
FEWEST_LINES = 6
BELOW = 18
"""Lines that stand below the command: reasons, choices, the prompt."""
Facts = list[tuple[str, str]]


class Asking:
    """INVARIANT: whatever comes from elsewhere is drawn in visible characters (`model.visible`)."""

    def question(self, question: PermissionNeeded, columns: int, rows: int) -> list[str]:
        from rich.rule import Rule
        from rich.text import Text

        width = min(columns, WIDEST)
        command = [Text(line) for line in _command(question, width, max(FEWEST_LINES, rows - BELOW))]
        return _drawn(
            [
                Rule("pinfold asks", style="yellow", align="left", characters="-" if _is_plain() else "─"),
                Text(_headline(question), style="bold"),
                Text(),
                *(command if question.capability not in (Capability.CONNECT, Capability.WRITE) else ()),
                _table(_facts(question)),
                Text(),
            ],
            width,
        )

    def choices(self, question: PermissionNeeded, reach: Reach, columns: int) -> list[str]:
        from rich.text import Text

        return _drawn([_table(_answers(question, reach), "bold"), Text()], min(columns, WIDEST))

    def explanation(self, question: PermissionNeeded, columns: int) -> list[str]:
        from pinfold.cli.explain import told

        width = min(columns, WIDEST)
        lines = told(_request(question), question.decision, colours=not _is_plain(), width=width)
        return lines if not question.command else [*lines, "", *_whole(question, width)]

    def rule_trouble(self, question: PermissionNeeded, text: str) -> str:
        if question.capability is Capability.CONNECT:
            from pinfold.policy.hosts import require_pattern as check
        else:
            from pinfold.shell.shape import shape as check  # type: ignore[assignment]
        try:
            check(text.strip())
        except ValueError as error:
            return f"that is no rule: {error}"
        return ""


def _is_plain() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"


def _request(question: PermissionNeeded) -> Request:
    match question.capability:
        case Capability.CONNECT:
            return Connect(question.host, question.port)
        case Capability.WRITE:
            return WriteFile(question.path)
    return RunCommand(question.command)


def _headline(question: PermissionNeeded) -> str:
    match question.capability:
        case Capability.CONNECT:
            return f"connect to {visible(question.host)}:{question.port}"
        case Capability.WRITE:
            return f"{_deed(question)} {visible(short(question.path))}"
        case Capability.BYPASS:
            return "run this without the fence: it may read, change and send whatever you can"
        case Capability.WIDEN:
            return "run this with more than your own policy gives"
    return "run this inside the fence" if question.decision.sandboxed else "run this outside of the fence"


def _deed(question: PermissionNeeded) -> str:
    from pinfold.session.elevation import DONE

    return "write in" if _is_git(question) else DONE.get(question.operation, visible(question.operation))


def _is_git(question: PermissionNeeded) -> bool:
    """Of git it is asked for the whole repository, whichever file comes first."""
    from pinfold.session.elevation import GIT_STEP

    return any(reason.step == GIT_STEP for reason in question.decision.reasons)


def _command(question: PermissionNeeded, width: int, most: int) -> list[str]:
    """The command with the parts marked that the reasons are about."""
    decision = question.decision
    spans = [reason.span for reason in decision.reasons if reason.span]
    marked = spans or [command.span for command in decision.commands]
    lines = draw(question.command.rstrip("\n"), marked, width=width - 8)
    if len(lines) <= most:
        return [*lines, ""]
    return [*lines[:most], f"  ... and {len(lines) - most} more lines, which `e` shows", ""]


def _whole(question: PermissionNeeded, width: int) -> list[str]:
    """The command and nothing left out, however long its lines are."""
    from rich.text import Text

    lines = [Text(f"  {visible(line)}") for line in question.command.split("\n")]
    return _drawn([Text("the whole command:"), *lines], width)


def _facts(question: PermissionNeeded) -> Facts:
    decision = question.decision
    reasons = [reason for reason in decision.reasons if reason.verdict is not Verdict.ALLOW]
    facts: Facts = []
    if question.capability in (Capability.CONNECT, Capability.WRITE):
        facts.append(("wanted by", visible(question.command)))
        if question.program:
            facts.append(("program", visible(question.program)))
    if question.cwd:
        facts.append(("in", visible(short(question.cwd))))
    names = ["why", *[""] * MOST_REASONS]
    told = dict.fromkeys(visible(reason.message) for reason in reasons[:MOST_REASONS])
    facts += list(zip(names, told, strict=False))
    if len(reasons) > MOST_REASONS:
        facts.append(("", f"and {len(reasons) - MOST_REASONS} more, which `e` shows"))
    if question.description:
        facts.append(("agent says", visible(question.description)))
    return facts


def _answers(question: PermissionNeeded, reach: Reach) -> Facts:
    what = _what(question, reach)
    rules = ", ".join(f"`{visible(rule)}`" for rule in question.rules)
    told = {
        Answer.ONCE: ("y", "once", _this_time(question)),
        Answer.SESSION: ("s", "session", f"{what}, while this session lasts"),
        Answer.ALWAYS: ("a", "always", f"{what}, in later sessions too"),
        Answer.RULE: ("r", "rule", f"edit and add {rules} to `{question.rule_key}`: not asked again"),
        Answer.NO: ("n", "no", "not this time (also Enter, Ctrl-C, and when time is up)"),
    }
    order = (Answer.ONCE, Answer.SESSION, Answer.ALWAYS, Answer.RULE, Answer.NO)
    rows = [told[answer] for answer in order if answer in question.choices]
    if len(question.reaches) > 1 and Answer.SESSION in question.choices:
        rows.append(("w", "wider", f"s and a then count for {_next(question, reach)}"))
    rows.append(("e", "explain", "every reason, where it is written, and the whole command"))
    return [(f"{key}  {word:7}", effect) for key, word, effect in rows]


def _this_time(question: PermissionNeeded) -> str:
    if question.capability is Capability.CONNECT:
        return "this run of the command may connect to it"
    return "this run of the command may do it" if question.capability is Capability.WRITE else "run it now"


def _what(question: PermissionNeeded, reach: Reach) -> str:
    may = _may(question)
    if reach is Reach.DIRECTORY:
        return f"any command may change what is in {visible(short(os.path.dirname(question.path)))}"
    if reach is Reach.TARGET:
        return f"any command may {may}"
    is_running = question.capability in (Capability.CONNECT, Capability.WRITE)
    return f"this very command may {may}" if is_running else "this very command, here"


def _may(question: PermissionNeeded) -> str:
    """What a lasting answer would let be done: of a change that is not a write, just that."""
    if question.capability is Capability.CONNECT:
        return "connect to it"
    from pinfold.policy.elevation import is_write

    return "change it" if _is_git(question) or is_write(question.operation) else "do just this"


def _next(question: PermissionNeeded, reach: Reach) -> str:
    reaches = question.reaches
    wider = reaches[(reaches.index(reach) + 1) % len(reaches)]
    if wider is Reach.DIRECTORY:
        return f"what is in {visible(short(os.path.dirname(question.path)))}"
    return {Reach.TARGET: "any command", Reach.COMMAND: "this very command again"}[wider]


def _table(rows: Facts, style: str = "dim") -> "RenderableType":
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(f"  {name}", value)
    return table


def _drawn(parts: "list[RenderableType]", width: int) -> list[str]:
    from io import StringIO

    from rich.console import Console

    plain = _is_plain()
    sheet = Console(
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
        sheet.print(part, soft_wrap=False)
    assert isinstance(sheet.file, StringIO)  # noqa: S101  (for mypy)
    return [line.rstrip() for line in sheet.file.getvalue().splitlines()]
