"""What the host remembers of calls that wait: only those that somebody waits for."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.patience import wait_until

from pinfold.model.env_files import FileIdentity
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.backend import Ruling, StartRequest, Wanted
from pinfold.sandbox.linux.host.elevation import Elevating
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

    def made(self, identity: FileIdentity) -> None:
        pass

    def asks(self, _policy: SandboxPolicy) -> bool:
        return True

    def key(self, _wanted: Wanted) -> tuple[str, ...]:
        return ("the same",)

    def known(self, _wanted: Wanted) -> Ruling | None:
        return None

    def ask(self, _wanted: Wanted, _is_withdrawn: Callable[[], bool]) -> Ruling | None:
        self.answered.wait(30)
        return Ruling(False, "no")

    def is_over(self, _request: StartRequest) -> bool:
        return False


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
        (question,) = elevating.commands[7].questions.values()
        assert [call.id for call in question.calls.values()] == [0, 2000]
        assert {id_ for _, id_ in elevating.alive} == {0, 2000}
        slow.answered.set()
        assert {channel.receive(warden, CallAnswer)[0].id for _ in range(2)} == {0, 2000}
        wait_until(lambda: not elevating.alive)
    elevating.close()
    client.close()
