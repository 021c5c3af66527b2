"""What of a command's connections is written down: never more than a bounded number of rows."""

from pinfold.audit.journal import MOST_COMMANDS, MOST_OF_NONE, MOST_OF_ONE, Repeats


def test_repeats_are_told_as_often_as_they_double() -> None:
    repeats = Repeats()
    assert [repeats.count("p.1", "h") for _ in range(9)] == [1, 2, 0, 4, 0, 0, 0, 8, 0]
    assert repeats.count("p.1", "other") == 1 and repeats.count("p.2", "h") == 1


def test_what_differs_each_time_is_one_in_the_end() -> None:
    for tag, most in (("p.1", MOST_OF_ONE), ("", MOST_OF_NONE)):
        repeats = Repeats()
        told = sum(1 for number in range(100_000) if repeats.count(tag, number))
        assert most < told < most + 20
        assert repeats.count("p.2", 1) == 1, "another command has its own"


def test_memory_is_bounded() -> None:
    repeats = Repeats()
    for number in range(10_000):
        repeats.count(f"p.{number}", "h")
    assert len(repeats._counts) == MOST_COMMANDS


def test_each_new_grant_is_told() -> None:
    repeats = Repeats()
    assert all(repeats.count("1", number, is_grant=True) == 1 for number in range(2 * MOST_OF_ONE))
    assert repeats.count("1", 0, is_grant=True) == 2 and repeats.count("1", 0, is_grant=True) == 0
