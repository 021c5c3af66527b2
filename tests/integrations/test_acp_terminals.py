"""What is kept of a terminal's output, without a command behind it."""

import time
from collections.abc import Iterator

import pytest

from pinfold.integrations.acp_terminals import Terminal
from pinfold.model.decision import Decision, Verdict
from pinfold.model.errors import ConfinementError
from pinfold.model.events import Event, Exited, Output, Stream
from pinfold.model.policy import SandboxPolicy
from pinfold.session.execution import Execution
from tests.patience import PATIENCE


class Wrote(Execution):
    def __init__(self, data: bytes) -> None:
        super().__init__(Decision(Verdict.ALLOW, (), True, SandboxPolicy()), None)
        self.data = data

    def events(self) -> Iterator[Event]:
        yield Output(Stream.STDOUT, self.data)
        yield Exited(0, None)


def text_of(data: bytes, limit: int) -> str:
    terminal = Terminal(Wrote(data), limit)
    assert terminal.ended.wait(PATIENCE)
    return terminal.text


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("abc", 3, "abc"),
        ("abc", 2, "bc"),
        ("aéb", 2, "b"),
        ("a😀b", 4, "b"),
        ("a😀b", 5, "😀b"),
        ("é", 1, ""),
        ("é", 0, ""),
    ],
)
def test_the_beginning_goes_first_by_whole_characters(text: str, limit: int, kept: str) -> None:
    assert text_of(text.encode(), limit) == kept


class Broke(Wrote):
    def events(self) -> Iterator[Event]:
        yield Output(Stream.STDOUT, self.data)
        raise ConfinementError("the sandbox died while the command was running")


def test_a_pen_that_breaks_is_told() -> None:
    terminal = Terminal(Broke(b"some\n"), 1000)
    assert terminal.ended.wait(PATIENCE)
    assert terminal.text == "some\n[the sandbox died while the command was running]\n"
    assert terminal.status == {"exitCode": None, "signal": None}


def test_bytes_that_are_no_text_are_shown_as_soon_as_text_is() -> None:
    began = time.monotonic()
    assert len(text_of(b"\x80" * (1 << 20) + b"x", 1 << 20)) == (1 << 20) - 3
    assert time.monotonic() - began < 5
