"""The claims of SECURITY.md that pens keep, each by its name. The probes do the work, each of them once."""

import pytest

from tests.escape.probes import lent_mounts
from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.sandbox.probes import pen, protected_names

pytestmark = FOR_EACH_USER
PENS = {
    "no_fence_no_run": ("roots_that_cannot_be_stop_the_run", "a_pen_in_a_pen_is_refused_in_one_line"),
    "hidden_stays_hidden": (
        "hidden_stays_hidden",
        "hidden_stays_hidden_when_its_parents_are_changed",
        "what_the_host_replaces_is_held_again",
    ),
    "nothing_left_behind": ("nothing_is_left_in_the_tree", "nothing_is_left_in_the_tree_after_a_kill"),
    "nothing_outlives_the_session": (
        "killing_the_host_ends_everything",
        "killing_the_keeper_ends_everything",
        "closing_ends_what_runs",
    ),
    "protected_stays_protected": ("protected_paths_are_read_only",),
}
NAMES = {
    "protected_stays_protected": (
        "protected_names_are_not_made",
        "directories_do_not_become_protected",
        "races_make_no_protected_name",
        "races_by_links_and_directories_make_no_protected_name",
        "races_between_two_pens_make_no_protected_name",
    ),
    "warden_death_closes": ("warden_death_closes",),
}


def beyond(claims: dict[str, tuple[str, ...]], every: list[str]) -> list[str]:
    """The probes of a module that no claim here has."""
    claimed = {probe for each in claims.values() for probe in each}
    assert claimed <= set(every), claimed - set(every)
    return [probe for probe in every if probe not in claimed]


def by_probes_of(claim: str) -> pytest.MarkDecorator:
    found = [(pen.__name__, probe) for probe in PENS.get(claim, ())]
    found += [(protected_names.__name__, probe) for probe in NAMES.get(claim, ())]
    return pytest.mark.parametrize(("module", "probe"), found)


@by_probes_of("no_fence_no_run")
def test_no_fence_no_run(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@by_probes_of("hidden_stays_hidden")
def test_hidden_stays_hidden(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@by_probes_of("nothing_left_behind")
def test_nothing_left_behind(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@by_probes_of("nothing_outlives_the_session")
def test_nothing_outlives_the_session(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@by_probes_of("protected_stays_protected")
def test_protected_stays_protected(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@by_probes_of("warden_death_closes")
def test_warden_death_closes(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@pytest.mark.parametrize("probe", lent_mounts.PROBES)
def test_no_pen_lends_its_mounts(probe: str, user: str) -> None:
    run_at_home(user, probe, lent_mounts.__name__)
