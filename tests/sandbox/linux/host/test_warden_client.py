"""What the host tells a warden arrives, or the host knows that it did not."""

import pytest

from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.host import warden_client
from pinfold.sandbox.linux.host.warden_client import WardenClient
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.warden import Hold, HostOrder, Settled


def test_what_cannot_be_sent_is_told_so() -> None:
    ours, warden = channel.pair()
    client = WardenClient(ours)
    with warden:
        sent = 0
        with pytest.raises(ConfinementError, match="could not be updated"):
            while sent < 100_000:
                client.hold((f"/{sent}",), ())
                sent += 1
        orders = [channel.receive(warden, HostOrder)[0] for _ in range(sent)]
        assert orders[-1] == Hold((f"/{sent - 1}",), ())
        client.hold(("/again",), ())
        assert channel.receive(warden, HostOrder)[0] == Hold(("/again",), ())
    client.close()


def test_a_warden_that_has_ended_is_not_waited_for() -> None:
    ours, warden = channel.pair()
    warden.close()
    client = WardenClient(ours)
    client.hold(("/a",), ())
    assert client.of(1)[-1].operation == "warden"
    client.close()


def test_a_warden_that_cannot_be_told_is_not_waited_for_either(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, warden = channel.pair()
    client = WardenClient(ours)
    with warden:
        with pytest.raises(ConfinementError):
            while True:
                client.hold(("/a" * 100,), ())
        monkeypatch.setattr(warden_client, "SETTLING", 1000.0)
        client.settle()
    client.settle()
    assert client.of(1)[-1].operation == "warden"
    client.close()


def test_whoever_waits_for_a_warden_keeps_nobody_else_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, warden = channel.pair()
    client = WardenClient(ours)
    was_locked: list[bool] = []

    def wait(*_: object) -> None:
        was_locked.append(client.lock.locked())
        channel.send(warden, Settled(1))

    monkeypatch.setattr("pinfold.sandbox.linux.host.warden_client._wait", wait)
    with warden:
        client.settle()
        client.close()
    assert was_locked == [False]
