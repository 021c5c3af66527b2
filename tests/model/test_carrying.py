"""What wardens and the gate say to each other: bytes and back."""

import pytest

from pinfold.model.carrying import JOIN, LONGEST, OPEN, PROXY, Answer, Wish, parse_answer, parse_wish


@pytest.mark.parametrize(
    "wish", [Wish(OPEN, 7, 1 << 62, 65535, "2606:4700::1"), Wish(JOIN, 1 << 63), Wish(PROXY, tag=3)]
)
def test_a_wish_is_read_as_it_was_written(wish: Wish) -> None:
    assert parse_wish(wish.encoded()) == wish


@pytest.mark.parametrize("answer", [Answer(1), Answer(2, 111, "a.test", "*.test", "it is\0 denied: ä")])
def test_an_answer_is_read_as_it_was_written(answer: Answer) -> None:
    assert parse_answer(answer.encoded()) == answer


def test_an_answer_that_is_too_long_is_cut() -> None:
    data = Answer(1, 111, "a.test", "", "ä" * LONGEST).encoded()
    assert len(data) == LONGEST and parse_answer(data).host == "a.test"
