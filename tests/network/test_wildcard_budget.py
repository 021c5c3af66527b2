"""Names below a wildcard are a store that fills up slowly."""

from pathlib import Path

from pinfold.network.wildcard_budget import WildcardBudget


def test_names_run_out_and_come_back() -> None:
    budget = WildcardBudget(3, 2.0)
    assert [budget.has_room("*.a.test", f"{n}.a.test", 10.0) for n in range(5)] == [True] * 3 + [False] * 2
    assert budget.has_room("*.a.test", "0.a.test", 10.0), "one that was seen before is nothing new"
    assert budget.has_room("*.b.test", "0.b.test", 10.0), "another rule has a store of its own"
    assert not budget.has_room("*.a.test", "x.a.test", 10.0)
    assert budget.has_room("*.a.test", "x.a.test", 12.0)
    assert not budget.has_room("*.a.test", "y.a.test", 12.0)


def test_names_that_are_written_out_are_not_counted() -> None:
    budget = WildcardBudget(0, 2.0)
    assert budget.has_room("a.test", "a.test", 0.0) and budget.has_room("", "b.test", 0.0)
    assert not budget.has_room("*.a.test:443", "b.a.test", 0.0)


def test_sessions_share_one_budget(tmp_path: Path) -> None:
    path = f"{tmp_path}/names.sqlite"
    found = [WildcardBudget(3, 2.0, path).has_room("*.a.test", f"{n}.a.test", 10.0) for n in range(5)]
    assert found == [True] * 3 + [False] * 2
    assert WildcardBudget(3, 2.0, path).has_room("*.a.test", "0.a.test", 10.0)
    assert not WildcardBudget(3, 2.0, path).has_room("*.a.test", "x.a.test", 5.0), "a clock that was set back"
    assert (
        sum(WildcardBudget(3, 2.0, path).has_room("*.a.test", f"l{n}.a.test", 10_000.0) for n in range(9))
        == 3
    )


def test_a_file_that_cannot_be_used_is_a_no(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"no database" * 100)
    for name in ("broken", "missing/names"):
        budget = WildcardBudget(3, 2.0, f"{tmp_path}/{name}")
        assert not budget.has_room("*.a.test", "0.a.test", 10.0)
        assert f"{tmp_path}/{name}" in budget.trouble, "it is not that there were too many"
