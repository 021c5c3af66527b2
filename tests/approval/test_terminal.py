"""What goes to a terminal around a question."""

import io
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pinfold.approval.terminal import _Talk
from pinfold.model.permission import PermissionNeeded, Reach
from tests.web.world import question


class Lines:
    def question(self, asked: PermissionNeeded, columns: int, rows: int) -> list[str]:
        return [asked.command]

    def choices(self, asked: PermissionNeeded, reach: Reach, columns: int) -> list[str]:
        return ["n  no"]

    def is_cut(self, asked: PermissionNeeded, columns: int, rows: int) -> bool:
        return False

    def explanation(self, asked: PermissionNeeded, columns: int) -> list[str]:
        return []

    def rule_trouble(self, asked: PermissionNeeded, rule: str) -> str:
        return ""


def _pieces(screen: io.RawIOBase) -> Iterator[bytes]:
    """All that was written to a terminal, which nobody has open any more: EIO is its end."""
    with suppress(OSError):
        while piece := screen.read(4096):
            yield piece


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_text_is_shown_in_the_order_in_which_it_is_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that turns Hebrew around would swap `mv`'s operands for the eye: it is told not to."""
    monkeypatch.setenv("TERM", kind)
    ours, terminal = os.openpty()
    with open(ours, "rb", buffering=0) as screen:
        with open(terminal, "wb", buffering=0):
            talk = _Talk(terminal, Lines(), question(command="mv \u05d0 \u05d1"), 0.0)
            assert talk.reply(lambda: False) is None
        seen = b"".join(_pieces(screen)).decode()
    before, _, after = seen.partition("mv \u05d0 \u05d1")
    assert after and ("\x1b[8l" in before, "\x1b[8h" in after) == (kind != "dumb", kind != "dumb")


@pytest.mark.parametrize(("asked", "is_seen"), [(1, False), (2, True)])
def test_what_is_withdrawn_meanwhile_is_not_drawn(asked: int, is_seen: bool) -> None:
    """As where Ctrl-C has ended the command whose next question is just being drawn."""
    ours, terminal = os.openpty()
    times = iter(range(10))
    with open(ours, "rb", buffering=0) as screen:
        with open(terminal, "wb", buffering=0):
            talk = _Talk(terminal, Lines(), question(command="touch x"), 5.0)
            talk.reply(lambda: next(times) >= asked)
        drawn = b"".join(_pieces(screen)).decode()
    assert ("touch x" in drawn, "n  no" in drawn) == (is_seen, False)
