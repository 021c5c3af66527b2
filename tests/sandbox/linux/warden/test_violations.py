"""The warden's reports of denials, and what the host makes of them: bounded at both ends."""

from pinfold.model.codes import ViolationCode
from pinfold.model.protected_names import NameRule
from pinfold.model.violation import Violation
from pinfold.sandbox.linux.host.warden_client import COMMANDS as KEPT
from pinfold.sandbox.linux.host.warden_client import WardenClient
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.warden import Denial
from pinfold.sandbox.linux.warden.violations import COMMANDS, PATHS, ViolationLog


def both() -> tuple[ViolationLog, WardenClient]:
    ours, theirs = channel.pair()
    return ViolationLog(theirs), WardenClient(ours)


def add(records: ViolationLog, tag: int, path: str, operation: str = "open") -> None:
    records.add(tag, operation, path, NameRule(".vscode", "why"), "sh", 7)


def test_an_operation_on_a_path_is_one_record_with_a_count() -> None:
    records, client = both()
    for _ in range(5):
        add(records, 1, "/a")
    add(records, 1, "/a", "mkdir")
    add(records, 2, "/b")
    found = client.of(1)
    assert found[0] == Violation("open", "/a", ".vscode", "why", "sh", 7, True, ViolationCode.PROTECTED, 4)
    assert [(each.operation, each.times) for each in found] == [("open", 4), ("mkdir", 1)]
    assert client.of(1) == ()
    assert [each.path for each in client.of(2)] == ["/b"]
    records.host.close()
    client.close()


def test_the_persons_answer_is_reported() -> None:
    records, client = both()
    closed = NameRule("", "it is closed; a test said no", code=ViolationCode.OUTSIDE)
    records.add(1, "open", "/a", closed, "sh", 7, Denial("a test said no", "terminal"))
    records.add(1, "open", "/b", closed, "sh", 7, Denial("nobody can grant that", code="never"), "a remedy")
    first, second = client.of(1)
    assert (first.answered, first.asked_at, first.code) == ("a test said no", "terminal", "outside")
    assert (second.asked_at, second.code, second.remedy) == ("", "never", "a remedy")
    records.host.close()
    client.close()


def test_paths_beyond_the_cap_are_one_record() -> None:
    records, client = both()
    for number in range(PATHS + 1000):
        add(records, 1, f"/{number}")
    found = client.of(1)
    assert len(found) == PATHS + 1
    assert (found[-1].path, found[-1].times) == ("", 512)
    records.host.close()
    client.close()


def test_a_host_that_does_not_read_does_not_block_the_warden() -> None:
    records, client = both()
    for number in range(20_000):
        add(records, number, "/some/path" * 10)
    assert len(records.seen) == COMMANDS
    client.of(-1)
    assert 0 < len(client.found) <= KEPT
    client.close()
    add(records, 1, "/nobody reads")
    records.host.close()


def test_odd_names_arrive() -> None:
    records, client = both()
    add(records, 1, "/\udcff\n\u200c")
    assert client.of(1)[0].path == "/\udcff\n\u200c"
    records.host.close()
    client.close()
