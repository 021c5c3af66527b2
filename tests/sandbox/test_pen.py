"""What holds inside a pen, as root and as an ordinary user. The probes say it; each runs in a child."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.sandbox.probes.pen import PROBES
from tests.sandbox.test_claims import PENS, beyond

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", beyond(PENS, PROBES))
def test_pen(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.probes.pen")
