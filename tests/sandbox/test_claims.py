"""The claims of DESIGN §10 that pens keep by now, each by its name. The probes do the work."""

import pytest

from tests.sandbox.people import USERS, house, run_as

pytestmark = pytest.mark.parametrize("user", USERS)


def run(user: str, *probes: str) -> None:
    for probe in probes:
        with house(user) as where:
            run_as(user, probe, where)


def test_no_fence_no_run(user: str) -> None:
    run(user, "roots_that_cannot_be_stop_the_run", "a_pen_in_a_pen_is_refused_in_one_line")


def test_hidden_stays_hidden(user: str) -> None:
    run(
        user,
        "hidden_stays_hidden",
        "hidden_stays_hidden_when_its_parents_are_changed",
        "what_the_host_replaces_is_held_again",
    )


def test_nothing_left_behind(user: str) -> None:
    run(user, "nothing_is_left_in_the_tree", "nothing_is_left_in_the_tree_after_a_kill")


def test_nothing_outlives_the_session(user: str) -> None:
    run(
        user,
        "killing_the_host_ends_everything",
        "killing_the_keeper_ends_everything",
        "closing_ends_what_runs",
    )
