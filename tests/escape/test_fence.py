"""Ways out of the fence that were found: closed, as root and as an ordinary user. `fence_probes` says it."""

import sys

import pytest
from tests.escape.fence_probes import PROBES
from tests.escape.neighbour_probes import PROBES as NEIGHBOUR_PROBES
from tests.escape.root_probes import PROBES as ROOT_PROBES
from tests.escape.spawner_probes import PROBES as SPAWNER_PROBES
from tests.escape.wider_probes import PROBES as WIDER_PROBES
from tests.sandbox.people import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", PROBES)
def test_fence(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.escape.fence_probes")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", ROOT_PROBES)
def test_roots(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.escape.root_probes")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", SPAWNER_PROBES)
def test_spawners(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.escape.spawner_probes")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", NEIGHBOUR_PROBES)
def test_neighbours(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.escape.neighbour_probes")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", WIDER_PROBES)
def test_wider_pens(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.escape.wider_probes")
