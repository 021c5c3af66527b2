"""Asks the person at the terminal.

Facts about terminals that shape it:
- /dev/tty is the controlling terminal, even if standard input and output are redirected. A sandboxed command
  has another one, or none: it can neither draw nor type here. We copy its output here, and hold it back while
  a question is open (`turn`).
- What it wrote before may have left the terminal in any state: in the midst of a sequence that would swallow
  our text, with another character set, invisible, scrolling in one line alone, with text or a picture where
  ours will be. So it is set right first, and emptied from there on.
- While a command runs on a terminal of its own, ours is raw: keys come one by one, unseen. A question wants
  them so as well, and for itself.
- What was typed before the question stood (or pasted, or reported by the terminal) is no answer to it: it is
  thrown away until nothing comes for a moment, and only then the prompt is drawn.
"""

import os
import select
import signal
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol

from msgspec.structs import replace

from pinfold.approval.keystrokes import EXPLAIN, INTERRUPTS, KEYS, REFUSALS, WIDER, Edited, single_key
from pinfold.approval.terminal_turn import Turn
from pinfold.model.codes import AskedAt
from pinfold.model.escape_text import visible
from pinfold.model.permission import LASTING, Answer, Capability, PermissionNeeded, Reach, Reply

TTY = "/dev/tty"
SECONDS = 120.0
QUIET = 0.25
"""Seconds without a key before a key may be an answer."""
LONGEST_QUIET = 2.0
PROMPTS = {
    Capability.CONNECT: "Allow this connection?",
    Capability.WRITE: "Allow this write?",
    Capability.READ: "Allow this read?",
}
# Ends any sequence that was begun, the sequences of a VT52, printing, and what holds drawing back; UTF-8,
# without which bytes of our characters would be controls (0x9b); plain text, the usual characters, the whole
# screen scrolls, a cursor; text in the order in which it is written (ECMA-48, BDSM), where a terminal would
# turn Hebrew around; nothing is guarded from being erased (ECMA-48, SPA; DECSCA); and the colours of the
# terminal's own settings (the last is the Linux console's), or the text might be invisible.
SET_RIGHT = (
    "\x18\x1b\\\x1b<\x1b[4i\x1b[?2026l\x1b%G\x1b[0m\x1b(B\x0f\x1b7\x1b[?69l\x1b[r\x1b8\x1b[?25h\x1b[8l"
    '\x1b[0"q\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]R\x1b\\'
)
LEAVE_WINDOW = "\x1b[?1047l"
"""Where no command is there any more, which may have left a screen of its own: nothing scrolls back there."""
EMPTY_BELOW = "\x1b[J"
"""What the command left there would stand between our lines and beside them. A line that is erased whole has
letters of the usual size again (DECDWL)."""
PICTURES = "\x1b_Ga=d,d=A,q=2\x1b\\"
"""Deletes them (kitty's graphics protocol): no text and no erasing covers them."""
AS_USUAL = "\x1b[8h"
MORE, BELOW = "more: press any key", 2
_INPUT, _OUTPUT, _LOCAL, _CHARACTERS = 0, 1, 3, 6
"""Where tcgetattr has these modes."""

_asking_here = threading.Lock()


def without_pictures(environ: Mapping[str, str]) -> str:
    """Deletes the pictures on the screen, also of the terminal around tmux or GNU screen.

    Facts: tmux takes APC for a window's title, and screen hands it on as text. Both hand on what a DCS of
    theirs has in it: in tmux's each ESC is doubled, and screen's cannot hold an ESC and `\\` together.
    """
    if environ.get("TMUX"):
        return "\x1bPtmux;" + PICTURES.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("STY"):
        return f"\x1bP{PICTURES[:-1]}\x1b\\\x1bP{PICTURES[-1]}\x1b\\"
    return PICTURES


class QuestionDrawing(Protocol):
    """Puts a question into lines that are safe to draw, none wider than `columns`."""

    def question(self, question: PermissionNeeded, columns: int, rows: int) -> list[str]: ...

    def is_cut(self, question: PermissionNeeded, columns: int, rows: int) -> bool:
        """Whether something that a yes covers is left out, or is not on the screen, until they press `e`."""

    def choices(self, question: PermissionNeeded, reach: Reach, columns: int) -> list[str]: ...

    def explanation(self, question: PermissionNeeded, columns: int) -> list[str]: ...

    def rule_trouble(self, question: PermissionNeeded, text: str) -> str:
        """Why a text cannot be a rule; empty if it can."""


class _Interrupted(Exception):  # noqa: N818
    """The person has had enough of all of it."""


class TerminalApprover:
    """May be used from any thread; one question is open at a time."""

    name = "the person at the terminal"
    asked_at = AskedAt.TERMINAL

    def __init__(
        self,
        drawing: QuestionDrawing,
        seconds: float = SECONDS,
        terminal: str = TTY,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`terminal` is one that does not control this process, and `environ` has the variables that describe
        it."""
        self._drawing = drawing
        self._terminal = terminal
        self._environ = os.environ if environ is None else environ
        self.seconds = seconds
        """How long a question stays open."""
        self.turn = Turn("" if terminal == TTY else terminal)
        """Held while a question is on the terminal; other code that draws there or reads keys takes it
        too."""
        self.interrupt: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGINT)
        """What Ctrl-C does besides saying no."""
        self._asking = _asking_here if terminal == TTY else threading.Lock()
        self._modes = allocate_lock()
        self._restore: Callable[[], None] | None = None
        """Restores the terminal's modes, while a question is open."""
        self._end_line: Callable[[], None] = lambda: None
        self._is_closed = False
        self._withdrawn: set[str] = set()
        """Questions that were withdrawn, and that are still open or wait for their turn."""

    def withdraw(self, question: PermissionNeeded) -> None:
        """Takes a question off the terminal. From any thread."""
        self._withdrawn.add(question.request_id)

    def is_there(self) -> bool:
        """Whether there is a terminal at all."""
        try:
            os.close(os.open(self._terminal, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def __call__(self, question: PermissionNeeded) -> Reply | None:
        deadline = time.monotonic() + self.seconds
        # One at a time: with two questions on the screen, an answer to one would be taken for the other's.
        if not self._asking.acquire(timeout=self.seconds):
            return self._late()
        try:
            return self._ask(question, deadline)
        except _Interrupted:
            self.interrupt()
            return Reply(Answer.NO, why="interrupted it")
        finally:
            self._asking.release()
            self._withdrawn.discard(question.request_id)

    def close(self) -> None:
        """Asks no more questions: ends the open one, and restores the terminal's modes."""
        with self._modes:
            self._is_closed = True
            if self._restore:
                with suppress(OSError):  # the terminal has gone
                    self._end_line()
            self._give_back()

    def _give_back(self) -> None:
        if self._restore:
            self._restore()
            self._restore = None

    def _late(self) -> Reply:
        return Reply(Answer.NO, why=f"gave no answer within {self.seconds:g} seconds")

    def _ask(self, question: PermissionNeeded, deadline: float) -> Reply | None:
        try:
            terminal = os.open(self._terminal, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            return self._ask_at(terminal, question, deadline)
        finally:
            os.close(terminal)

    def _ask_at(self, terminal: int, question: PermissionNeeded, deadline: float) -> Reply:
        def is_gone() -> bool:
            return self._is_closed or question.request_id in self._withdrawn

        _wait_for_foreground(terminal, deadline, is_gone)
        if _is_background(terminal) or not self.turn.take(lambda: is_gone() or time.monotonic() > deadline):
            return self._late()
        try:
            with self._keys_alone(terminal):
                left = max(1.0, deadline - time.monotonic())
                dialog = _Dialog(terminal, self._drawing, question, left, self._environ)
                reply = dialog.reply(is_gone)
            if reply is None and not self._is_closed:
                # Only now: a person who sees that the question has gone may type for the command again.
                is_late = question.request_id not in self._withdrawn
                _write(terminal, "\r\n" if is_late else "it is not wanted any more\r\n")
            return self._late() if reply is None else reply
        finally:
            self.turn.give_up()

    @contextmanager
    def _keys_alone(self, terminal: int) -> Iterator[None]:
        """Keys come one by one, without echo, Ctrl-C among them. Restores the mode afterwards."""
        import termios

        before = termios.tcgetattr(terminal)
        asking = [*before]
        asking[_INPUT] |= termios.ICRNL
        asking[_OUTPUT] |= termios.OPOST | termios.ONLCR
        asking[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        asking[_CHARACTERS] = [*before[_CHARACTERS]]
        asking[_CHARACTERS][termios.VMIN], asking[_CHARACTERS][termios.VTIME] = 1, 0
        with self._modes:
            if not self._is_closed:
                self._restore = lambda: _set(terminal, before)
                self._end_line = lambda: _write(terminal, "\n")
                _set(terminal, asking)
        try:
            yield
        finally:
            with self._modes:
                self._give_back()


class _Dialog:
    """One question on a terminal that is ours for now."""

    def __init__(
        self,
        terminal: int,
        drawing: QuestionDrawing,
        question: PermissionNeeded,
        seconds: float,
        environ: Mapping[str, str],
    ) -> None:
        self._terminal, self._drawing, self._question = terminal, drawing, question
        self._environ = environ
        self._deadline = time.monotonic() + seconds
        self._is_dumb = environ.get("TERM", "dumb") == "dumb"
        self._whole = question
        self._reach = question.reaches[0]
        self._poll = select.poll()
        self._poll.register(terminal, select.POLLIN)
        self._is_withdrawn: Callable[[], bool] = lambda: False

    def reply(self, is_withdrawn: Callable[[], bool]) -> Reply | None:
        """What the person says; None if they say nothing in time."""
        if is_withdrawn():
            return Reply(Answer.NO)
        self._is_withdrawn = is_withdrawn
        try:
            return self._said_in_time()
        finally:
            with suppress(OSError):
                self._write("" if self._is_dumb else AS_USUAL)

    def _said_in_time(self) -> Reply | None:
        columns, rows = self._size()
        if self._drawing.is_cut(self._question, columns, rows):
            self._question = replace(self._question, choices=(Answer.NO,))  # until all of it was shown
        is_alone = self._question.capability not in PROMPTS
        text = self._cleared(is_alone) + _text(self._drawing.question(self._question, columns, rows))
        # To draw and to be quiet take a while, in which the terminal may have been given back: what is
        # written then lands in another program's lines, or in steps where those are raw.
        if self._is_withdrawn():
            return Reply(Answer.NO)
        self._write(text)
        self._quiet()
        if self._is_withdrawn():
            return None
        drawn = self._draw_choices()
        while (key := self._key()) is not None:
            if key in INTERRUPTS:
                self._write("^C\n")
                raise _Interrupted
            if key in REFUSALS:
                return self._said(Answer.NO)
            if key == EXPLAIN:
                lines = ["", *self._drawing.explanation(self._whole, self._size()[0]), ""]
                self._write("\n")
                if self._has_shown(lines, in_parts=self._question is not self._whole):
                    self._question = self._whole
                    drawn = self._draw_choices()
            elif key == WIDER and self._question.can_widen:
                self._reach = self._question.next_reach(self._reach)
                drawn = self._draw_choices(over=drawn)
            elif self._keys.get(key) is Answer.RULE:
                if rules := self._worded():
                    return Reply(Answer.RULE, rules=rules)
                drawn = self._draw_choices()
            elif key in self._keys:
                return self._said(self._keys[key])
        return None

    def _cleared(self, is_alone: bool) -> str:
        """What makes room for the question: a new line, with nothing on it or below it."""
        if self._is_dumb:
            return "\n"
        window = LEAVE_WINDOW if is_alone else ""
        return f"{SET_RIGHT}{window}{without_pictures(self._environ)}\r\n{EMPTY_BELOW}"

    def _has_shown(self, lines: list[str], *, in_parts: bool) -> bool:
        """Whether all of it was; what does not fit is shown in parts, since not every screen scrolls back."""
        step = max(1, self._size()[1] - BELOW) if in_parts else len(lines)
        for start in range(0, len(lines), step):
            if start and not self._goes_on():
                return False
            self._write(_text(lines[start : start + step]))
        return True

    def _goes_on(self) -> bool:
        """Waits for any key; False if time is up before."""
        self._write(MORE)
        while not self._is_over():
            piece = self._read(0.25)
            if piece == b"":
                return False
            if piece and any(interrupt.encode() in piece for interrupt in INTERRUPTS):
                self._write("^C\n")
                raise _Interrupted
            if piece:
                self._write("\n" if self._is_dumb else "\r\x1b[K")
                return True
        return False

    @property
    def _keys(self) -> dict[str, Answer]:
        offered = self._question.offered(self._reach)
        return {key: answer for answer, key in KEYS.items() if answer in offered}

    def _said(self, answer: Answer) -> Reply:
        self._write(f"{answer}\n" if self._is_dumb else f"\r{self._wanted()} {answer}\x1b[K\n")
        return Reply(answer, self._reach if answer in LASTING else Reach.COMMAND)

    def _draw_choices(self, over: int = 0) -> int:
        """How many lines it took; `over` says how many to draw over."""
        lines = self._drawing.choices(self._question, self._reach, self._size()[0])
        up = f"\x1b[{over}A\r\x1b[J" if over and not self._is_dumb else "\n"
        self._write((up if over or self._is_dumb else "") + _text(lines))
        return len(lines)

    def _wanted(self) -> str:
        return PROMPTS.get(self._question.capability, "Run it?")

    def _prompt(self) -> str:
        # The keys are in the lines above; here is what a narrow terminal still shows.
        keys = [*self._keys, *([WIDER] if self._question.can_widen else []), EXPLAIN]
        return (
            f"{self._wanted()} [{' '.join(keys)}] no in {max(0, round(self._deadline - time.monotonic()))} s "
        )

    def _key(self) -> str | None:
        """The next key; the seconds that are left count down meanwhile."""
        shown = ""
        while not self._is_over():
            prompt = self._prompt()
            if prompt != shown and not (shown and self._is_dumb):
                self._write(prompt if self._is_dumb else f"\r{prompt}\x1b[K")
                shown = prompt
            piece = self._read(0.25)
            if piece == b"":
                return "n"  # the terminal has gone
            if piece and piece.startswith(b"\x1b"):
                self._quiet()
            elif piece and (key := single_key(piece)) is not None:
                return key
        return None

    def _worded(self) -> tuple[str, ...]:
        """The rules as the person wants them; none if they would rather choose again."""
        self._write("\n")
        worded = []
        for rule in self._question.rules:
            text = self._edit(f"add to {self._question.rule_key}: ", rule)
            if not text:
                return ()
            worded.append(text)
        return tuple(worded)

    def _edit(self, prompt: str, text: str) -> str:
        self._write(
            _text(["", *self._folded("Enter adds it to your settings, after any changes; Esc goes back.")])
        )
        line = Edited(text)
        while not self._is_over():
            self._write(self._line(prompt, line.text))
            if (piece := self._read(1.0)) == b"":
                return ""
            if not piece:
                continue
            line.type(piece)
            if line.is_interrupted:
                self._write("^C\n")
                raise _Interrupted
            if line.is_left or (line.is_done and not line.text.strip()):
                self._write("\n")
                return ""
            if line.is_done:
                self._write(self._line(prompt, line.text) + "\n")
                if not (trouble := self._drawing.rule_trouble(self._question, line.text)):
                    return line.text.strip()
                self._write(_text(self._folded(visible(trouble))))
                line = Edited(line.text)
        return ""

    def _line(self, prompt: str, text: str) -> str:
        room = max(8, self._size()[0] - len(prompt) - 2)
        shown = visible(text)[-room:]
        return f"\r{prompt}{shown}" + (" " * 8 + "\b" * 8 if self._is_dumb else "\x1b[K")

    def _folded(self, sentence: str) -> list[str]:
        from textwrap import wrap

        return wrap(sentence, self._size()[0] - 1, break_on_hyphens=False)

    def _quiet(self) -> None:
        """Until nothing comes for a moment: what comes now was not typed at what is read now."""
        import termios

        end = time.monotonic() + LONGEST_QUIET
        while time.monotonic() < end and self._read(QUIET):
            continue
        termios.tcflush(self._terminal, termios.TCIFLUSH)

    def _read(self, seconds: float) -> bytes | None:
        """What was typed; None if nothing was, empty bytes if the terminal has gone."""
        if not self._poll.poll(max(0.0, min(seconds, self._deadline - time.monotonic())) * 1000):
            return None
        try:
            return os.read(self._terminal, 1024)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline or self._is_withdrawn()

    def _size(self) -> tuple[int, int]:
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self._terminal)
            if columns > 0 and rows > 0:
                return columns, rows
        return 80, 24

    def _write(self, text: str) -> None:
        _write(self._terminal, text)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _write(terminal: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    poll = select.poll()
    poll.register(terminal, select.POLLOUT)
    while data and poll.poll(SECONDS * 1000):
        data = data[os.write(terminal, data) :]


def _is_background(terminal: int) -> bool:
    """Whether a shell runs this process in the background. The kernel stops it there when it sets the
    terminal's modes, and a stopped process does not even end by SIGTERM."""
    with suppress(OSError):
        return os.tcgetpgrp(terminal) != os.getpgrp()
    return False


def _wait_for_foreground(terminal: int, deadline: float, is_over: Callable[[], bool]) -> None:
    import termios

    if not _is_background(terminal):
        return
    with suppress(termios.error, OSError):
        if not termios.tcgetattr(terminal)[_LOCAL] & termios.TOSTOP:
            left = round(deadline - time.monotonic())
            said = f"a command in the background has a question; `fg` shows it; no in {left} s"
            _write(terminal, f"\r\npinfold: {said}\r\n")
    while _is_background(terminal) and time.monotonic() < deadline and not is_over():
        time.sleep(0.1)


def _set(terminal: int, modes: list[object]) -> None:
    import termios

    with suppress(termios.error, OSError):  # the terminal has gone
        termios.tcflush(terminal, termios.TCIFLUSH)
        termios.tcsetattr(terminal, termios.TCSANOW, modes)  # type: ignore[arg-type]
