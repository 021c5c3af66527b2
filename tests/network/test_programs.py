"""Real programs, with and without a proxy, as root and as an ordinary user."""

import pytest

from tests.network.probes import AWAY, WITH_A_SERVER
from tests.sandbox.people import USERS, house, run_as


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", [*AWAY, *WITH_A_SERVER])
def test_program(probe: str, user: str) -> None:
    with house(user) as where:
        run_as(user, probe, where, "tests.network.probes")
