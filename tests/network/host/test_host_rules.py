"""What a session answers its gate about hosts."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pinfold.approval.broker import Desk
from pinfold.model.decision import Decision, Verdict
from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import NetworkAccess, NetworkSettings, Settings
from pinfold.network.host import host_rules
from pinfold.network.host.host_rules import HostRules
from pinfold.network.host_decision import HostDecision
from pinfold.policy.connect import check_host
from pinfold.policy.network_scope import PenReach
from pinfold.sandbox.backend import StartRequest
from tests.patience import PATIENCE, wait_until


class World:
    """A session that asks about every host, and a person who waits until the test lets them answer."""

    def __init__(self) -> None:
        self.answer, self.asked = Answer.ONCE, list[tuple[str, int]]()
        self.go = threading.Event()
        self.desk = Desk([self.person])
        settings = Settings(network=NetworkSettings(access=NetworkAccess.ASK))
        stub: Any = SimpleNamespace(id="s", environ={}, settings=settings, settings_files=(), desk=self.desk)
        commands = {
            f"7.{entry}": StartRequest(f"program {entry}", SandboxPolicy(), "/", entry=entry)
            for entry in (1, 2)
        }
        self.rules = HostRules(stub, {"7": PenReach(SandboxPolicy(), ())}, commands)

    def person(self, question: PermissionNeeded) -> Answer:
        self.asked.append((question.host, question.port))
        self.go.wait(PATIENCE)
        return self.answer


class Connection:
    def __init__(self, world: World, port: int = 443, tag: str = "7.1") -> None:
        self.said: list[HostDecision] = []
        self.withdraw = world.rules.open("a.test", port, tag, True, self.said.append)

    @property
    def verdicts(self) -> list[Verdict]:
        return [each.verdict for each in self.said]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.go.set()
    world.desk.calls.close()


def test_a_connection_that_is_asked_about_is_decided_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[str] = []

    def counted(host: str, *given: Any) -> Decision:
        decided.append(host)
        return check_host(host, *given)

    monkeypatch.setattr(host_rules, "check_host", counted)
    world.go.set()
    connection = Connection(world)
    wait_until(lambda: connection.verdicts == [Verdict.ASK, Verdict.ALLOW])
    assert decided == ["a.test"] and world.asked == [("a.test", 443)]


def test_connections_of_a_command_to_a_host_are_one_question(world: World) -> None:
    connections = [Connection(world) for _ in range(5)]
    other = Connection(world, tag="7.2")
    wait_until(lambda: len(world.asked) == 2)
    world.go.set()
    for connection in (*connections, other):
        wait_until(lambda connection=connection: connection.verdicts == [Verdict.ASK, Verdict.ALLOW])  # type: ignore[misc]
    assert len(world.asked) == 2


def test_another_port_waits_and_is_then_asked_about(world: World) -> None:
    first = Connection(world)
    wait_until(lambda: world.asked == [("a.test", 443)])
    second = Connection(world, 22)
    world.answer = Answer.NO
    world.go.set()
    wait_until(lambda: second.verdicts == [Verdict.ASK, Verdict.DENY])
    assert first.verdicts == [Verdict.ASK, Verdict.DENY] and world.asked == [("a.test", 443), ("a.test", 22)]


def test_a_connection_that_is_withdrawn_while_another_port_is_asked_about_is_not_asked_about(
    world: World,
) -> None:
    Connection(world)
    wait_until(lambda: len(world.asked) == 1)
    second = Connection(world, 22)
    assert second.withdraw
    second.withdraw()
    world.go.set()
    later = Connection(world, 80)
    wait_until(lambda: later.verdicts == [Verdict.ASK, Verdict.ALLOW])
    assert world.asked == [("a.test", 443), ("a.test", 80)] and second.verdicts == [Verdict.ASK]


def test_without_leave_to_ask_it_is_only_decided(world: World) -> None:
    said: list[HostDecision] = []
    assert world.rules.open("a.test", 443, "7.1", False, said.append) is None
    assert world.rules.open("a.test", None, "", False, said.append) is None
    assert [each.verdict for each in said] == [Verdict.ASK, Verdict.ASK] and not world.asked
