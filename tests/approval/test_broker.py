"""The desk: what is asked, what is not asked again, and what of it a new session knows."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.approval.broker import Desk
from pinfold.approval.chain import WITHDRAWN
from pinfold.approval.store import Store
from pinfold.model.decision import Decision, Reason, StepCode, Verdict, Widening
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reach, Reply
from pinfold.model.policy import PolicyType, SandboxPolicy
from tests.approval.questions import DECISION, Footing, Person, question
from tests.patience import wait_until

CONNECT: dict[str, Any] = {"capability": Capability.CONNECT, "host": "a.example", "port": 443}
WRITE: dict[str, Any] = {
    "capability": Capability.WRITE,
    "operation": "openat",
    "path": "/d/e/file",
    "directory": "/d/e",
}


def desk_with(
    answer: Answer | Reply, path: Path | None = None, footing: Footing | None = None
) -> tuple[Desk, Person]:
    person = Person(answer)
    return Desk([person], footing or Footing(), Store(str(path / "approvals.json")) if path else None), person


# A session of one command


def test_an_answer_for_a_session_of_one_command_is_not_stored(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "approvals.json"))
    person = Person(Reply(Answer.SESSION, Reach.TARGET))
    desk = Desk([person], Footing(), store, one_command=True)
    assert desk.ask(question(run="1", **CONNECT)).answer is Answer.SESSION
    assert desk.ask(question(run="1", command="another", **CONNECT)).answer is Answer.SESSION
    assert [each.ends_session for each in person.asked] == [True]
    assert not store.answers()


def test_once_holds_in_the_second_run_of_a_sessions_one_command() -> None:
    person = Person(Answer.ONCE)
    desk = Desk([person], Footing(), one_command=True)
    assert [desk.ask(question(run=run, **CONNECT)).answer for run in "12"] == [Answer.ONCE, Answer.ONCE]
    assert len(person.asked) == 1


def test_what_would_be_once_is_not_offered_as_session() -> None:
    only = question(ends_session=True, **CONNECT)
    assert Answer.SESSION not in only.offered(Reach.COMMAND)
    assert Answer.SESSION in only.offered(Reach.TARGET)
    assert question(**CONNECT).offered(Reach.COMMAND) == tuple(Answer)


# One run


@pytest.mark.parametrize("answer", tuple(Answer))
def test_within_a_run_any_answer_is_final(answer: Answer) -> None:
    desk, person = desk_with(answer)
    for _ in range(3):
        assert desk.ask(question(run="1", rules=("touch",), **CONNECT)).answer is answer
    assert len(person.asked) == 1


@pytest.mark.parametrize("answer", [Answer.NO, Answer.ONCE])
def test_another_run_is_asked_about_anew(answer: Answer) -> None:
    desk, person = desk_with(answer)
    desk.ask(question(run="1"))
    desk.ask(question(run="2"))
    assert len(person.asked) == 2


@pytest.mark.parametrize("answer", tuple(Answer))
def test_a_yes_for_a_run_ends_with_it(answer: Answer) -> None:
    """And then it is for what waits for it alone. Whoever is asked is told what asks."""
    footing = Footing()
    desk, person = desk_with(answer, footing=footing)
    desk.ask(question(run="1", rules=("touch",), **CONNECT))
    footing.over.add("1")
    asks = answer in (Answer.ONCE, Answer.RULE)
    for turn in range(2):
        wanted = question(run="1", rules=("touch",), **CONNECT)
        assert (desk.known(wanted) is None) is asks
        assert desk.ask(wanted).answer is answer
        assert len(person.asked) == (turn + 2 if asks else 1)
    told = ["has ended" in each.decision.reasons[-1].message for each in person.asked]
    assert told == [False, *([True, True] if asks else [])]


def test_what_is_said_of_something_left_running_is_for_the_same_command(tmp_path: Path) -> None:
    footing = Footing()
    desk, person = desk_with(Answer.SESSION, tmp_path, footing)
    footing.over.add("1")
    for run in ("1", "2"):
        desk.ask(question(run=run, **CONNECT))
    assert len(person.asked) == 1


def test_what_was_withdrawn_has_no_answer_yet() -> None:
    desk, person = desk_with(Answer.ONCE)
    person.gate.clear()
    assert desk.ask(question(run="1"), lambda: bool(person.asked)).answer is Answer.NO
    person.gate.set()
    assert desk.ask(question(run="1")).answer is Answer.ONCE and len(person.asked) == 2


# Longer


@pytest.mark.parametrize("answer", [Answer.SESSION, Answer.ALWAYS])
def test_a_lasting_answer_holds_for_other_runs(answer: Answer, tmp_path: Path) -> None:
    desk, person = desk_with(answer, tmp_path)
    first, second = desk.ask(question(run="1")), desk.ask(question(run="2"))
    assert not first.remembered and second.remembered and second.answer is answer
    assert len(person.asked) == 1


def test_always_holds_in_another_session_and_session_does_not(tmp_path: Path) -> None:
    for answer, again in ((Answer.ALWAYS, 0), (Answer.SESSION, 1)):
        first, _ = desk_with(answer, tmp_path)
        first.ask(question(session="one", command=str(answer)))
        later, person = desk_with(Answer.NO, tmp_path)
        later.ask(question(session="two", command=str(answer)))
        assert len(person.asked) == again


def test_a_session_that_is_resumed_has_its_answers_again(tmp_path: Path) -> None:
    desk_with(Answer.SESSION, tmp_path)[0].ask(question(session="one"))
    resumed, person = desk_with(Answer.NO, tmp_path)
    assert resumed.ask(question(session="one")).answer is Answer.SESSION and not person.asked
    elsewhere = Footing()
    elsewhere.projects = ("/other",)
    desk, person = desk_with(Answer.NO, tmp_path, elsewhere)
    assert desk.ask(question(session="one")).answer is Answer.NO and person.asked


def because(reason: Reason) -> Decision:
    return replace(DECISION, reasons=(reason,))


OTHER = [
    {"command": "touch y"},
    {"cwd": "/other"},
    {"program": "other"},
    {"capability": Capability.WIDEN},
    {"operation": "rename"},
    {"path": "/w/x"},
    {"host": "b.example"},
    {"port": 80},
    {"decision": replace(DECISION, sandboxed=False)},
    {"decision": replace(DECISION, widening=(Widening("additional_readwrite_paths", "/x"),))},
    {"decision": replace(DECISION, policy=SandboxPolicy(type=PolicyType.WORKSPACE_READONLY))},
    {"decision": because(Reason(StepCode.ASK_RULES, "why", Verdict.ASK))},
    {"decision": because(Reason(StepCode.OTHERWISE, "why", Verdict.ASK, rule="touch"))},
    {"decision": because(Reason(StepCode.OTHERWISE, "why", Verdict.ASK, arguments=("/w/bin/touch",)))},
]


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_whatever_differs_is_asked_about(other: dict[str, Any]) -> None:
    desk, person = desk_with(Answer.ALWAYS)
    desk.ask(question())
    desk.ask(question(**other))
    assert len(person.asked) == 2


def test_other_words_for_the_same_are_not_asked_about() -> None:
    desk, person = desk_with(Answer.ALWAYS)
    desk.ask(question())
    reworded = Reason(StepCode.OTHERWISE, "another wording", Verdict.ASK, remedy="another remedy")
    desk.ask(question(decision=because(reworded)))
    assert len(person.asked) == 1


def test_other_settings_are_another_footing_and_the_old_ones_the_same(tmp_path: Path) -> None:
    footing = Footing()
    desk, person = desk_with(Answer.ALWAYS, tmp_path, footing)
    for settings, asked in (("a", 1), ("b", 2), ("a", 2)):
        footing.now = settings
        desk.ask(question())
        assert len(person.asked) == asked


def test_an_answer_expires(tmp_path: Path) -> None:
    footing = Footing()
    footing.keep = 0.05
    desk, person = desk_with(Answer.ALWAYS, tmp_path, footing)
    desk.ask(question())
    time.sleep(0.06)
    desk.ask(question())
    assert len(person.asked) == 2


def test_a_revoked_answer_holds_no_more(tmp_path: Path) -> None:
    desk, person = desk_with(Answer.SESSION, tmp_path)
    desk.ask(question(run="1", **CONNECT))
    (answer,) = Store(str(tmp_path / "approvals.json")).answers()
    assert Store(str(tmp_path / "approvals.json")).remove([answer.id])
    desk.ask(question(run="1", **CONNECT))
    assert len(person.asked) == 2


def test_what_is_not_offered_is_not_taken_from_memory() -> None:
    desk, person = desk_with(Answer.ALWAYS)
    desk.ask(question())
    person.answer = Answer.NO
    assert desk.ask(question(choices=(Answer.NO, Answer.ONCE))).answer is Answer.NO


def test_leaving_the_fence_is_never_remembered() -> None:
    desk, person = desk_with(Answer.ALWAYS)
    for _ in range(2):
        assert desk.ask(question(capability=Capability.BYPASS)).answer is Answer.ONCE
    assert len(person.asked) == 2


# How far


def test_an_answer_for_a_host_is_for_any_command_where_a_person_said_so() -> None:
    for reach, again in ((Reach.COMMAND, 1), (Reach.TARGET, 0)):
        desk, person = desk_with(Reply(Answer.SESSION, reach))
        desk.ask(question(command="curl", **CONNECT))
        desk.ask(question(command="wget", **CONNECT))
        assert len(person.asked) == 1 + again
        desk.ask(question(command="curl", **{**CONNECT, "port": 80}))
        assert len(person.asked) == 2 + again


@pytest.mark.parametrize(
    ("path", "is_covered"),
    [
        ("/d/e/other", True),
        ("/d/e/deeper/file", True),
        ("/d/e", False),
        ("/d/else", False),
        ("/d/e/../f", False),
        ("/d/e/..", False),
        ("/d/file", False),
    ],
)
def test_a_directory_is_what_lies_in_it(path: str, is_covered: bool) -> None:
    desk, person = desk_with(Reply(Answer.ALWAYS, Reach.DIRECTORY))
    desk.ask(question(**WRITE))
    desk.ask(question(command="another", **{**WRITE, "operation": "rename", "path": path}))
    assert len(person.asked) == (1 if is_covered else 2)


@pytest.mark.parametrize(
    ("asked", "reach"),
    [({}, Reach.TARGET), (CONNECT, Reach.DIRECTORY), ({**WRITE, "directory": ""}, Reach.DIRECTORY)],
)
def test_a_reach_that_is_not_offered_is_a_no(asked: dict[str, Any], reach: Reach) -> None:
    desk, _ = desk_with(Reply(Answer.SESSION, reach))
    assert desk.ask(question(**asked)).answer is Answer.NO


# Rules


def test_a_rule_is_written_as_it_was_worded() -> None:
    footing = Footing()
    desk, person = desk_with(Answer.RULE, footing=footing)
    desk.ask(question(rules=("touch",)))
    person.answer = Reply(Answer.RULE, rules=("a.example",))
    desk.ask(question(rules=("a.example:443",), **CONNECT))
    assert footing.written == [("commands.allow", ("touch",)), ("network.allow", ("a.example",))]


def test_a_rule_that_cannot_be_written_is_a_yes_for_once() -> None:
    desk, _ = desk_with(Answer.RULE, footing=Footing(file=""))
    assert desk.ask(question(rules=("touch",))).answer is Answer.ONCE
    assert "there is no file" in desk.notices[0]


# At once


def test_who_asks_the_same_meanwhile_waits_for_the_answer() -> None:
    desk, person = desk_with(Answer.NO)
    person.gate.clear()
    said: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: said.append(desk.ask(question(run="1")).answer)) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: person.asked)
    person.gate.set()
    for thread in threads:
        thread.join(30)
    assert said == [Answer.NO] * 20 and len(person.asked) == 1


def test_who_asks_something_else_does_not_wait() -> None:
    desk, person = desk_with(Answer.ONCE)
    person.gate.clear()
    slow = threading.Thread(target=desk.ask, args=(question(command="slow"),))
    slow.start()
    wait_until(lambda: person.asked)
    desk.approvers = (Person(Answer.NO),)
    assert desk.ask(question(command="quick")).answer is Answer.NO
    person.gate.set()
    slow.join(30)


def test_an_approver_that_fails_leaves_nobody_waiting() -> None:
    class Fails(Person):
        def __call__(self, question: PermissionNeeded) -> Answer:
            raise SystemExit

    desk = Desk([Fails()])
    assert desk.ask(question(run="1")).answer is Answer.NO
    assert desk.ask(question(run="1")).answer is Answer.NO


# Whatever the order

RUNS, SESSIONS, TARGETS = st.sampled_from("12"), st.sampled_from("st"), st.sampled_from(range(3))
ASKED = st.tuples(st.sampled_from(tuple(Capability)), TARGETS, RUNS, SESSIONS, st.sampled_from(tuple(Answer)))


def asked_about(capability: Capability, target: int, run: str, session: str) -> PermissionNeeded:
    where: dict[Capability, dict[str, Any]] = {
        Capability.CONNECT: {"port": target + 1},
        Capability.WRITE: {"path": f"/d/{target}"},
    }
    what = where.get(capability, {"command": str(target)})
    return question(capability=capability, run=session + run, session=session, rules=("x",), **what)


@given(st.lists(ASKED, max_size=30))
def test_repeated_attempts_never_ask_twice(asked: list[tuple[Capability, int, str, str, Answer]]) -> None:
    """Against the plainest account of it: which (run, thing), (session, thing) and things have an answer."""
    desk, person = desk_with(Answer.NO)
    final: dict[object, Answer] = {}
    for capability, target, run, session, answer in asked:
        thing = capability, target
        lasting = (each for what, each in final.items() if what in (thing, (session, thing)))
        known = final.get((session, run, thing)) or next(lasting, None)
        before, person.answer = len(person.asked), answer
        got = desk.ask(asked_about(capability, target, run, session)).answer
        assert (len(person.asked) == before) is (known is not None)
        if known is None:
            lasts = capability is not Capability.BYPASS
            known = Answer.ONCE if answer in (Answer.SESSION, Answer.ALWAYS) and not lasts else answer
            where = {Answer.ALWAYS: thing, Answer.SESSION: (session, thing)}
            final[where.get(known, (session, run, thing))] = known
        assert got is known


def test_who_waits_for_anothers_answer_may_leave() -> None:
    person = Person()
    person.gate.clear()
    desk = Desk([person])
    same = question(run="1")
    asking = threading.Thread(target=desk.ask, args=(same,))
    asking.start()
    wait_until(lambda: person.asked)
    assert desk.ask(question(run="1"), lambda: True) is WITHDRAWN
    person.gate.set()
    asking.join()
    assert len(person.asked) == 1 and desk.ask(question(run="1")).answer is Answer.ONCE
