"""Mounts are put back while commands run, as root and as an ordinary user."""

import sys

import pytest

from tests.sandbox.people import USERS, house, run_as

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pens of this kind are Linux's")


@pytest.mark.parametrize("user", USERS)
def test_what_the_host_undoes_is_restored_while_a_command_runs(user: str) -> None:
    with house(user) as where:
        run_as(
            user,
            "what_the_host_undoes_is_restored_while_a_command_runs",
            where,
            "tests.sandbox.standing_probes",
        )
