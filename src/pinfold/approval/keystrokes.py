"""What was typed, as keys. Pure.

Facts about terminals: a key is one byte, or one UTF-8 character, or a sequence that begins with escape and
comes in one piece (an arrow is `ESC [ A`). What a terminal reports on its own, because a program's output
made it (where the cursor is, what the window is called), comes as if it were typed, and begins with escape
too.

What this means for us: a piece that begins with escape, or holds more than one key, answers no question. Only
a key that comes alone does; Enter may follow it.
"""

from pinfold.model.permission import Answer

KEYS = {Answer.ONCE: "y", Answer.SESSION: "s", Answer.ALWAYS: "a", Answer.RULE: "r", Answer.NO: "n"}
"""What each answer is given by, at a terminal and on the page."""
WIDER, EXPLAIN = "w", "e"
INTERRUPTS = ("\x03", "\x1c")
"""Ctrl-C and Ctrl-\\."""
ESCAPE = "\x1b"
REFUSALS = ("", "\x04", KEYS[Answer.NO])
"""Enter, Ctrl-D and the key itself."""


def single_key(piece: bytes) -> str | None:
    """The key that came alone; an empty text is Enter; None if it was something else."""
    if any(interrupt.encode() in piece for interrupt in INTERRUPTS):
        return INTERRUPTS[0]
    text = piece.decode("utf-8", "replace")
    if text.strip("\r\n") == "":
        return ""
    text = text.rstrip("\r\n")
    return text if len(text) == 1 and text != ESCAPE else None


class Edited:
    """A line that is being typed over a proposed one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_done = self.is_left = self.is_interrupted = False

    def type(self, piece: bytes) -> None:
        text = piece.decode("utf-8", "replace")
        if any(interrupt in text for interrupt in INTERRUPTS):
            self.is_interrupted = True
        elif text.startswith(ESCAPE):
            self.is_left = text == ESCAPE  # more than that is an arrow, or a terminal's report
        else:
            for character in text:
                self._type(character)

    def _type(self, character: str) -> None:
        if self.is_done:
            return
        if character in "\r\n":
            self.is_done = True
        elif character in "\x7f\b":
            self.text = self.text[:-1]
        elif character == "\x15":  # Ctrl-U
            self.text = ""
        elif character == "\x04":
            self.is_left = True
        elif character.isprintable():
            self.text += character
