"""Ways out of the fence that were found: closed, as root and as an ordinary user. The probes say it."""

import pytest
from tests.escape import (
    env_probes,
    exhaustion_probes,
    fence_probes,
    neighbour_probes,
    root_probes,
    spawner_probes,
    wider_probes,
)
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER
MODULES = (fence_probes, neighbour_probes, root_probes, spawner_probes, wider_probes)


@pytest.mark.parametrize(
    ("module", "probe"), [(module.__name__, probe) for module in MODULES for probe in module.PROBES]
)
def test_fence(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@pytest.mark.parametrize("probe", exhaustion_probes.PROBES)
def test_no_command_takes_what_all_share(probe: str, user: str) -> None:
    run_at_home(user, probe, exhaustion_probes.__name__)


@pytest.mark.parametrize("probe", env_probes.PROBES)
def test_untracked_env_files_are_hidden(probe: str, user: str) -> None:
    run_at_home(user, probe, env_probes.__name__)
