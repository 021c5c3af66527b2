"""Questions about calls that wait: how the broker joins, bounds and withdraws them."""

import threading
from collections.abc import Callable, Iterator

import pytest

from pinfold.approval.broker import ENOUGH, MOST_WAITING, TOO_MANY, CallQuestions
from pinfold.model.fair_share import fair_share
from pinfold.model.permission import MOST_ASKED, MOST_OPEN, Settlement
from tests.patience import wait_until


class Question:
    """Is answered when the test says so, with how often it was asked."""

    def __init__(self, *, holds: bool = False, is_known: bool = False, has_asked: bool = True) -> None:
        self.is_kept, self.is_known, self.has_asked = holds, is_known, has_asked
        self.asked = 0
        self.go = threading.Event()

    def known(self) -> str | None:
        return "known" if self.is_known else None

    def ask(self, is_withdrawn: Callable[[], bool]) -> tuple[str | None, bool]:
        self.asked += 1
        wait_until(lambda: self.go.is_set() or is_withdrawn())
        return None if is_withdrawn() else f"asked {self.asked}", self.has_asked

    def denied(self, settlement: Settlement) -> str:
        return settlement.by

    def failed(self, error: Exception) -> str:
        return f"failed: {error}"

    def holds(self, answer: str) -> bool:
        return self.is_kept


class Call:
    """One that waits."""

    def __init__(
        self, calls: CallQuestions, question: Question, key: object = "x", command: str = "a command"
    ) -> None:
        self.answers: list[str] = []
        self.withdraw = calls.put(command, key, question, self.answers.append)

    def answer(self) -> str:
        wait_until(lambda: bool(self.answers))
        (answer,) = self.answers
        return answer


@pytest.fixture
def calls() -> Iterator[CallQuestions]:
    calls = CallQuestions()
    yield calls
    calls.close()


def answered(*questions: Question) -> None:
    for question in questions:
        question.go.set()


def test_like_calls_are_one_question(calls: CallQuestions) -> None:
    question = Question()
    waiting = [Call(calls, question) for _ in range(3)]
    other = Question()
    apart = [Call(calls, other, "y"), Call(calls, other, command="another")]
    wait_until(lambda: other.asked == 2)
    answered(question, other)
    assert [call.answer() for call in waiting] == ["asked 1"] * 3 and question.asked == 1
    assert [call.answer() for call in apart] and other.asked == 2


@pytest.mark.parametrize("holds", [True, False])
def test_an_answer_holds_for_later_calls_as_far_as_it_says(calls: CallQuestions, holds: bool) -> None:
    question = Question(holds=holds)
    answered(question)
    Call(calls, question).answer()
    assert Call(calls, question).answer() == ("asked 1" if holds else "asked 2")


def test_an_answer_that_holds_no_more_is_asked_for_anew(calls: CallQuestions) -> None:
    question = Question(holds=True)
    answered(question)
    Call(calls, question).answer()
    question.is_kept = False
    assert Call(calls, question).answer() == "asked 2"


def test_what_nothing_waits_for_is_withdrawn_and_asked_about_anew(calls: CallQuestions) -> None:
    question = Question()
    first, second = Call(calls, question), Call(calls, question)
    wait_until(lambda: question.asked == 1)
    first.withdraw()
    second.withdraw()
    wait_until(lambda: not calls._waiting)
    answered(question)
    assert Call(calls, question).answer() == "asked 2" and not first.answers + second.answers


def test_a_call_that_comes_while_the_question_is_being_withdrawn_gets_an_answer(calls: CallQuestions) -> None:
    joined: list[Call] = []

    class Late(Question):
        def ask(self, is_withdrawn: Callable[[], bool]) -> tuple[str | None, bool]:
            self.asked += 1
            if self.asked > 1:
                return "asked again", True
            wait_until(is_withdrawn)
            joined.append(Call(calls, self))
            return None, True

    question = Late()
    first = Call(calls, question)
    wait_until(lambda: question.asked == 1)
    first.withdraw()
    wait_until(lambda: bool(joined))
    assert joined[0].answer() == "asked again" and not first.answers


def test_a_command_has_few_questions_open_and_others_wait_their_turn(calls: CallQuestions) -> None:
    questions = [Question() for _ in range(2 * MOST_OPEN)]
    waiting = [Call(calls, question, number) for number, question in enumerate(questions)]
    wait_until(lambda: sum(question.asked for question in questions) == MOST_OPEN)
    questions[MOST_OPEN].is_known = True
    answered(*questions)
    told = [call.answer() for call in waiting]
    assert told[MOST_OPEN] == "known" and set(told) == {"asked 1", "known"}
    assert [question.asked for question in questions].count(0) == 1


@pytest.mark.parametrize("has_asked", [True, False])
def test_a_command_is_denied_what_it_asks_beyond_so_many(calls: CallQuestions, has_asked: bool) -> None:
    for number in range(MOST_ASKED):
        question = Question(has_asked=has_asked)
        answered(question)
        assert Call(calls, question, number).answer() == "asked 1"
    question = Question()
    answered(question)
    told = Call(calls, question, "one more").answer()
    assert told == (ENOUGH.by if has_asked else "asked 1")
    assert Call(calls, question, "one more", "another").answer().startswith("asked")


def test_a_command_leaves_others_room(calls: CallQuestions) -> None:
    most, threads = fair_share(MOST_WAITING, 0), threading.active_count()
    questions = [Question() for _ in range(most + 1)]
    waiting = [Call(calls, question, number) for number, question in enumerate(questions)]
    assert waiting[-1].answer() == TOO_MANY.by
    assert threading.active_count() - threads <= MOST_OPEN
    other = Question()
    answered(other)
    assert Call(calls, other, command="another").answer() == "asked 1"
    for call in waiting:
        call.withdraw()
    wait_until(lambda: not calls._waiting)


def test_a_question_that_fails_is_told_and_others_live(calls: CallQuestions) -> None:
    class Fails(Question):
        def ask(self, is_withdrawn: Callable[[], bool]) -> tuple[str | None, bool]:
            raise RuntimeError("a fault")

    assert Call(calls, Fails()).answer() == "failed: a fault"
    question = Question()
    answered(question)
    assert Call(calls, question).answer() == "asked 1"


def test_a_question_that_finds_no_thread_is_told_and_asked_about_anew(
    calls: CallQuestions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    question = Question()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            Call(calls, question)
    answered(question)
    assert Call(calls, question).answer() == "asked 1"
