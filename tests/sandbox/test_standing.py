"""Mounts are put back while commands run, as root and as an ordinary user."""

import sys

import pytest

from tests.sandbox.people import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pens of this kind are Linux's")


PROBES = (
    "what_the_host_undoes_is_restored_while_a_command_runs",
    "no_command_takes_away_what_tells_of_it",
    "a_warden_that_cannot_be_told_is_told_again",
    "a_warden_hears_of_each_thing_once",
)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", PROBES)
def test_standing(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.standing_probes")
