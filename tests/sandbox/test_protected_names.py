"""What holds of names in a pen, as root and as an ordinary user. The probes say it; each runs in a child."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.sandbox.probes.protected_names import PROBES
from tests.sandbox.test_claims import NAMES, beyond

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", beyond(NAMES, PROBES))
def test_names(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.probes.protected_names")
