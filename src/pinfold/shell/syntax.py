"""Text to syntax tree: mvdan/sh, asked through the `shfmt` program of the shfmt-py wheel.

This module decides which texts go to shfmt: not those whose tree `fast_parser` knows. It keeps a few shfmt
processes started and waiting for a caller that asks often (`Parser(warm=True)`): then a parse costs only
itself. `shfmt` handles each process.

It also decides how much of a broken text is still judged (`read_lines`).

Facts about bash, each one tried: bash reads a text (`-c`, `eval`, standard input) line by line, and runs a
list of commands as soon as it has read its last line. `bash -c $'rm -rf D\nif then'` deletes D.
`rm D; if then` does not: the error is on the line of the command. dash does both alike.

What this means for us: trouble in a text says nothing about the lines before it. `read_lines` returns the
longest start of whole lines that has a tree, and the trouble beside it.

Accepted: shfmt also refuses what bash refuses only while it runs (`$((1 +))`), and there the commands of the
same line run too. The trouble says that the rest is unknown.

A NUL is refused here: shfmt takes it for a character of the text, where bash drops it.
"""

import _thread
import os
import sys
import time
from _weakrefset import WeakSet
from collections.abc import Callable
from typing import Self

import msgspec
from msgspec import Struct

from pinfold.model.errors import PinfoldError
from pinfold.shell.fast_parser import plain_tree
from pinfold.shell.shfmt import (
    NoAnswer,
    ParserTrouble,
    Process,
    SyntaxTrouble,
    Trouble,
    abandon,
    ask,
    end,
    start,
)
from pinfold.shell.tree_text import Node

TRIES = 32
_ONE_BY_ONE = 16
"""After this many tries the start is halved each time, so that the first lines are tried in any case."""


class ReadLines(Struct, frozen=True):
    text: str
    """The start of the text that has `tree`; the whole text if there is no trouble."""
    tree: Node
    trouble: Trouble | None = None


def read_lines(text: str, load: Callable[[str], Node]) -> ReadLines:
    """The tree of `text`, or of the longest start of whole lines that has one."""
    try:
        return ReadLines(text, load(text))
    except Trouble as trouble:
        return _before(text, trouble, load)


def lines_before(text: str, offset: int | None) -> int:
    """How many whole lines come before the offset; before the last line, if the offset is unknown."""
    return text.count("\n", 0, offset) if offset is not None else text.rstrip("\n").count("\n")


def _before(text: str, trouble: Trouble, load: Callable[[str], Node]) -> ReadLines:
    lines = text.split("\n")
    count = lines_before(text, trouble.offset)
    for tried in range(TRIES):
        start = "".join(line + "\n" for line in lines[:count])
        if not start.strip():
            break
        try:
            return ReadLines(start, load(start), trouble)
        except Trouble as again:
            fewer = count - 1 if tried < _ONE_BY_ONE else count // 2
            count = min(fewer, lines_before(start, again.offset))
    return ReadLines("", {}, trouble)


SPARE = 3
"""Waiting processes: enough for the texts inside of a line, and for a line that follows at once."""
REFILL_DELAY = 0.004
"""Seconds that the caller gets to finish before new processes are started."""
MAX_CHARACTERS = 10_000


def load_tree(text: str) -> Node:
    """The tree of `text`, from a shfmt started for it alone; a second one, should the first die."""
    data = _encode(text)
    if (tree := plain_tree(text)) is not None:
        return tree
    ended: list[Process] = []
    try:
        try:
            return _decode(ask(start(), data, ended))
        except NoAnswer:
            return _decode(ask(start(), data, ended))
    finally:
        for process in ended:
            end(process)


class Parser:
    """Asks shfmt; with `warm`, keeps a few of it started and waiting for the next texts.

    Any number of threads may share one. After a fork the child starts its own.
    """

    def __init__(self, *, warm: bool = False) -> None:
        self._lock = _thread.allocate_lock()
        self._waiting: list[Process] = []
        self._is_refilling = False
        self._ended: list[Process] = []
        self._warm = warm
        if warm:
            _warm_parsers.add(self)
            self._refill()

    def load_tree(self, text: str) -> Node:
        if not self._warm:
            return load_tree(text)
        data = _encode(text)
        if (tree := plain_tree(text)) is not None:
            return tree
        process = self._take()
        try:
            if process:
                try:
                    return _decode(ask(process, data, self._ended))
                except ParserTrouble:
                    pass  # something killed it, or a forked copy of this process holds its stdin open
            return _decode(ask(start(), data, self._ended))
        finally:
            self._refill_soon()

    def close(self) -> None:
        """Ends the waiting processes; the parser stays usable, but starts a process for each text."""
        self._warm = False
        while process := self._take():
            end(process)
        self._reap()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # When the interpreter ends, modules are half unloaded; the process ends with its stdin.
        if not is_finalizing() and getattr(self, "_waiting", None):
            self.close()

    def _take(self) -> Process | None:
        with self._lock:
            return self._waiting.pop(0) if self._waiting else None

    def _forget(self) -> None:
        """In a forked copy: drops the processes, which are the parent's children."""
        self._lock = _thread.allocate_lock()  # another thread may have held it during the fork
        inherited = [*self._ended, *self._waiting]
        self._ended, self._waiting, self._is_refilling = [], [], False
        for process in inherited:
            abandon(process)

    def _reap(self) -> None:
        while True:
            try:
                process = self._ended.pop()
            except IndexError:
                return
            end(process)

    def _refill(self) -> None:
        self._reap()
        while self._warm and len(self._waiting) < SPARE:
            try:
                process = start()
            except PinfoldError:
                break  # parsing the next text will fail too, and report it
            with self._lock:
                if self._warm:
                    self._waiting.append(process)
                    continue
            end(process)
        self._is_refilling = False

    def _refill_later(self) -> None:
        time.sleep(REFILL_DELAY)
        self._refill()

    def _refill_soon(self) -> None:
        # On a thread, and later: starting a process takes as long as the whole parse does.
        if self._is_refilling:
            return
        self._is_refilling = True
        try:
            _thread.start_new_thread(self._refill_later, ())
        except RuntimeError:
            self._is_refilling = False  # no thread can start, or the interpreter is ending


_warm_parsers: WeakSet[Parser] = WeakSet()


def _forget_parents() -> None:
    for parser in list(_warm_parsers):
        parser._forget()


os.register_at_fork(after_in_child=_forget_parents)


def _encode(text: str) -> bytes:
    if len(text) > MAX_CHARACTERS:
        raise SyntaxTrouble(f"longer than {MAX_CHARACTERS} characters")
    if "\0" in text:
        raise SyntaxTrouble("contains a NUL character", text.index("\0"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SyntaxTrouble("contains characters that are not valid UTF-8", error.start) from None


def _decode(answer: bytes) -> Node:
    try:
        tree = msgspec.json.decode(answer)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise SyntaxTrouble("its syntax tree cannot be read") from None
    if not isinstance(tree, dict) or tree.get("Type") != "File":
        raise SyntaxTrouble("its syntax tree cannot be read")
    return tree
