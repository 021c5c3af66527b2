"""What goes between a session and the page: a question, made ready to be shown, and the answer. Pure.

The page is given texts and draws them; it knows nothing of decisions. The session that asked judges the
answer.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from pinfold.approval import wording
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reach
from pinfold.model.text_positions import Span

LONGEST = 1 << 20
"""Bytes of a line."""
MOST_COMMAND = 20_000
"""Characters of a command that are shown."""
MOST_REASONS = 50


class Piece(Struct, frozen=True):
    text: str
    marked: bool = False
    """Whether it is what the question is about."""


class PageReason(Struct, frozen=True):
    message: str
    step: str
    rule: str = ""
    where: str = ""
    remedy: str = ""


class OfferedAnswers(Struct, frozen=True):
    """The answers there are while a lasting one has this reach."""

    reach: Reach
    choices: tuple[wording.Offer, ...]
    wider: str = ""
    """What the next reach is for; empty if there is none."""


class PageQuestion(Struct, frozen=True, rename="camel"):
    session: str
    headline: str
    is_grave: bool
    """Whether a yes gives up the sandbox."""
    command: tuple[tuple[Piece, ...], ...]
    """Its lines; none where it is no command that is asked about."""
    facts: tuple[tuple[str, str], ...]
    why: tuple[PageReason, ...]
    says: str
    """The agent's own words."""
    offered: tuple[OfferedAnswers, ...]
    rules: tuple[str, ...]
    rule_key: str
    seconds: Annotated[float, Meta(ge=0, le=3600)]


class PageAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What the person said."""

    answer: Answer
    reach: Reach = Reach.COMMAND
    rules: Annotated[tuple[Annotated[str, Meta(max_length=1000)], ...], Meta(max_length=64)] = ()


class AnswerReceipt(Struct, frozen=True):
    """What came of it: with an error, the question is still open."""

    trouble: str = ""


def sheet_of(question: PermissionNeeded, seconds: float, home: str) -> PageQuestion:
    def short(path: str) -> str:
        return f"~/{path[len(home) + 1 :]}" if len(home) > 1 and path.startswith(f"{home}/") else path

    is_command = question.capability not in wording.RUNNING
    reaches = question.reaches if question.can_widen else (Reach.COMMAND,)
    is_grave = question.capability is Capability.BYPASS or (
        question.capability is Capability.RUN and not question.decision.sandboxed
    )
    return PageQuestion(
        session=question.session,
        headline=wording.headline(question, short),
        is_grave=is_grave,
        command=_lines(question.command.rstrip("\n"), wording.marks(question)) if is_command else (),
        facts=tuple(wording.circumstances(question, short)),
        why=tuple(
            PageReason(
                visible(reason.message),
                visible(reason.step),
                visible(reason.rule),
                visible(str(reason.origin)) if reason.origin else "",
                visible(reason.remedy),
            )
            for reason in wording.reasons(question)[:MOST_REASONS]
        ),
        says=visible(question.description),
        offered=tuple(
            OfferedAnswers(
                reach,
                tuple(wording.offers(question, reach, short)),
                wording.widening(question, reach, short) if len(reaches) > 1 else "",
            )
            for reach in reaches
        ),
        rules=tuple(map(visible, question.rules)),
        rule_key=question.rule_key,
        seconds=seconds,
    )


def _lines(text: str, marks: Sequence[Span]) -> tuple[tuple[Piece, ...], ...]:
    """The lines, cut into pieces that are marked and pieces that are not."""
    left_out = len(text) - MOST_COMMAND
    marked = bytearray(len(text))
    for span in marks:
        marked[span.start : span.end] = b"\1" * len(marked[span.start : span.end])
    lines: list[tuple[Piece, ...]] = []
    start = 0
    for line in text[:MOST_COMMAND].split("\n"):
        pieces: list[Piece] = []
        for position, character in enumerate(line, start):
            is_marked = bool(marked[position])
            if pieces and pieces[-1].marked == is_marked:
                pieces[-1] = Piece(pieces[-1].text + visible(character), is_marked)
            else:
                pieces.append(Piece(visible(character), is_marked))
        lines.append(tuple(pieces))
        start += len(line) + 1
    if left_out > 0:
        lines.append((Piece(f"[{left_out} characters more, which are not shown: say no if in doubt]", True),))
    return tuple(lines)


def line_of(value: Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"
