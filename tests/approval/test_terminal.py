"""What goes to a terminal around a question."""

import fcntl
import io
import os
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pinfold.approval.terminal import EMPTY_BELOW, _Dialog, without_pictures
from pinfold.model.permission import Answer, PermissionNeeded, Reach, Reply
from tests.patience import PATIENCE
from tests.web.page_world import question


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


def _drawn(asked: PermissionNeeded) -> str:
    """All that is written about a question that nobody answers."""
    ours, terminal = os.openpty()
    with open(ours, "rb", buffering=0) as screen:
        with open(terminal, "wb", buffering=0):
            assert _Dialog(terminal, Lines(), asked, 0.0, os.environ).reply(lambda: False) is None
        return b"".join(_pieces(screen)).decode()


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_text_is_shown_in_the_order_in_which_it_is_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that turns Hebrew around would swap `mv`'s operands for the eye: it is told not to."""
    monkeypatch.setenv("TERM", kind)
    seen = _drawn(question(command="mv \u05d0 \u05d1"))
    before, _, after = seen.partition("mv \u05d0 \u05d1")
    assert after and ("\x1b[8l" in before, "\x1b[8h" in after) == (kind != "dumb", kind != "dumb")


SPOILT = {
    "UTF-8 taken away": "\x1b%G",
    "printing": "\x1b[4i",
    "drawing held back": "\x1b[?2026l",
    "margins at the sides": "\x1b[?69l",
    "another palette": "\x1b]104\x1b\\",
    "text in the colour of the ground": "\x1b]110\x1b\\",
    "a ground in the colour of text": "\x1b]111\x1b\\",
    "a console's palette": "\x1b]R\x1b\\",
    "the sequences of a VT52": "\x18\x1b\\\x1b<",
    "text that erasing spares": '\x1b[0"q',
    "a picture over the question": "\x1b_Ga=d,d=A,q=2\x1b\\",
    "text where the question will be": "\r\n\x1b[J",
}
AROUND = {
    "tmux": ({"TMUX": "/tmp/tmux-0/default,1,0"}, "\x1bPtmux;\x1b\x1b_Ga=d,d=A,q=2\x1b\x1b\\\x1b\\"),
    "GNU screen": ({"STY": "1.pts-0"}, "\x1bP\x1b_Ga=d,d=A,q=2\x1b\x1b\\\x1bP\\\x1b\\"),
}


@pytest.mark.parametrize("mended", SPOILT.values(), ids=SPOILT)
def test_what_a_command_did_to_the_terminal_is_mended_before_a_question(
    mended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    seen = _drawn(question(command="touch x"))
    before, _, after = seen.partition("touch x")
    assert after and mended in before and before.endswith(EMPTY_BELOW)


@pytest.mark.parametrize(("environ", "deleted"), AROUND.values(), ids=AROUND)
def test_pictures_of_the_terminal_around_this_one_are_deleted_too(
    environ: dict[str, str], deleted: str
) -> None:
    assert without_pictures(environ) == deleted


class Long(Lines):
    """Ten lines that a yes grants, of which five fit."""

    def is_cut(self, asked: PermissionNeeded, columns: int, rows: int) -> bool:
        return True

    def choices(self, asked: PermissionNeeded, reach: Reach, columns: int) -> list[str]:
        return [f"may be answered with {' '.join(asked.choices)}"]

    def explanation(self, asked: PermissionNeeded, columns: int) -> list[str]:
        return [f"line {number}" for number in range(10)]


def test_what_does_not_fit_is_shown_in_parts_before_a_yes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may have left the terminal on a screen that does not scroll back."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_Dialog, "_quiet", lambda _: None)
    ours, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("=HHHH", 8, 80, 0, 0))
    modes = termios.tcgetattr(terminal)
    modes[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
    told: list[Reply | None] = []
    with open(ours, "r+b", buffering=0) as screen, open(terminal, "r+b", buffering=0):
        asked = question(command="touch x", choices=(Answer.NO, Answer.ONCE))
        dialog = _Dialog(terminal, Long(), asked, PATIENCE, os.environ)
        thread = threading.Thread(target=lambda: told.append(dialog.reply(lambda: False)))
        thread.start()
        seen = ""
        for key, awaited, not_yet in (
            (b"", "answered with no\r\n", "once"),
            (b"e", "line 4", "line 5"),
            (b"x", "line 9", "once" * 2),
            (b"y", "once\x1b[K", "\0"),
        ):
            screen.write(key)
            while awaited not in seen:
                seen += screen.read(4096).decode()
            assert not_yet not in seen
        thread.join(PATIENCE)
    assert told == [Reply(Answer.ONCE)]


@pytest.mark.parametrize(("asked", "is_seen"), [(1, False), (2, True)])
def test_what_is_withdrawn_meanwhile_is_not_drawn(asked: int, is_seen: bool) -> None:
    """As where Ctrl-C has ended the command whose next question is just being drawn."""
    ours, terminal = os.openpty()
    times = iter(range(10))
    with open(ours, "rb", buffering=0) as screen:
        with open(terminal, "wb", buffering=0):
            dialog = _Dialog(terminal, Lines(), question(command="touch x"), 5.0, os.environ)
            dialog.reply(lambda: next(times) >= asked)
        drawn = b"".join(_pieces(screen)).decode()
    assert ("touch x" in drawn, "n  no" in drawn) == (is_seen, False)
