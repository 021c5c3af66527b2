"""Ways out of the fence that were found: closed, as root and as an ordinary user. The probes say it."""

import pytest
from tests.escape import fence_probes, neighbour_probes, root_probes, spawner_probes, wider_probes
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER
MODULES = (fence_probes, neighbour_probes, root_probes, spawner_probes, wider_probes)


@pytest.mark.parametrize(
    ("module", "probe"), [(module.__name__, probe) for module in MODULES for probe in module.PROBES]
)
def test_fence(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)
