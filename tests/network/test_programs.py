"""Real programs, with and without a proxy, as root and as an ordinary user."""

import pytest

from tests.network.probes.programs import AWAY, WITH_A_SERVER
from tests.probe_runner import USERS, run_at_home


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", [*AWAY, *WITH_A_SERVER])
def test_program(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.network.probes.programs")
