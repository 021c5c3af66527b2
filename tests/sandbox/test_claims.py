"""The claims of SECURITY.md that pens keep, each by its name. The probes do the work."""

import pytest

from tests.sandbox.people import USERS, house, run_as

pytestmark = pytest.mark.parametrize("user", USERS)


def run(user: str, *probes: str, module: str = "tests.sandbox.probes") -> None:
    for probe in probes:
        with house(user) as where:
            run_as(user, probe, where, module)


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


def test_protected_stays_protected(user: str) -> None:
    run(user, "protected_paths_are_read_only")
    run(
        user,
        "protected_names_are_not_made",
        "directories_do_not_become_protected",
        "races_make_no_protected_name",
        "races_by_links_and_directories_make_no_protected_name",
        "races_between_two_pens_make_no_protected_name",
        module="tests.sandbox.name_probes",
    )


def test_warden_death_closes(user: str) -> None:
    run(user, "warden_death_closes", module="tests.sandbox.name_probes")
