"""What the host remembers of calls that wait: only those that somebody waits for."""

import threading
from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

from tests.patience import wait_until

from pinfold.approval.broker import CallQuestions
from pinfold.model.env_files import FileIdentity
from pinfold.model.permission import Settlement
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.backend import Ruling, Wanted
from pinfold.sandbox.linux.host.waiting_calls import Elevating
from pinfold.sandbox.linux.host.warden_client import WardenClient
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.file_change import ChangedEntry, FileChange
from pinfold.sandbox.linux.protocol.warden import CallAnswer, CallAsked, CallWithdrawn

CHANGE = FileChange("open", (ChangedEntry("/d", (1, 2), b"new", None),), (1, 0o644, 0o022))


def asked(number: int) -> CallAsked:
    return CallAsked(number, 7, 1, "sh", "", "", "outside", False, CHANGE)


class Slow:
    """Says yes when it is told to, and is asked about the same thing by every call."""

    notes_reads = False

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.calls = CallQuestions()

    def made(self, identity: FileIdentity) -> None:
        pass

    def asks(self, _policy: SandboxPolicy) -> bool:
        return True

    def known(self, _wanted: Wanted) -> Ruling | None:
        return None

    def put(
        self,
        command: Hashable,
        wanted: Wanted,
        obstacle: Callable[[], Ruling | None],
        answered: Callable[[Ruling], None],
    ) -> Callable[[], None]:
        return self.calls.put(command, "the same", Question(self.answered), answered)


class Question:
    def __init__(self, answered: threading.Event) -> None:
        self.answered = answered

    def known(self) -> Ruling | None:
        return None

    def ask(self, _is_withdrawn: Callable[[], bool]) -> tuple[Ruling | None, bool]:
        self.answered.wait(30)
        return Ruling(False, "no"), True

    def denied(self, settlement: Settlement) -> Ruling:
        return Ruling(False, settlement.by)

    def failed(self, error: Exception) -> Ruling:
        raise error

    def holds(self, _answer: Ruling) -> bool:
        return True


def test_callers_that_have_gone_are_not_remembered() -> None:
    ours, warden = channel.pair()
    client, slow = WardenClient(ours), Slow()
    keeper: Any = SimpleNamespace(ask=lambda _: None)
    elevating = Elevating(slow, keeper)
    granter: Any = SimpleNamespace(ask=lambda _: (0, None), close=lambda: None)
    elevating.granter = granter
    elevating.attend(client, SandboxPolicy())
    with warden:
        channel.send(warden, asked(0))
        for number in range(1, 2000):
            channel.send(warden, asked(number))
            channel.send(warden, CallWithdrawn(number))
        channel.send(warden, asked(2000))
        wait_until(lambda: elevating.alive.get((client, 2000)) is not None)
        (asker,) = slow.calls._askers.values()
        (question,) = asker.questions.values()
        assert len(question.waiting) == 2
        assert {id_ for _, id_ in elevating.alive} == {0, 2000}
        slow.answered.set()
        assert {channel.receive(warden, CallAnswer)[0].id for _ in range(2)} == {0, 2000}
        wait_until(lambda: not elevating.alive)
    elevating.close()
    slow.calls.close()
    client.close()
