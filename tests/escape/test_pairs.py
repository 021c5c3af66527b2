"""No pen lends another its mounts: every pair of policies, every way, every operation. The probes say it."""

import pytest
from tests.escape import pair_probes
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", pair_probes.PROBES)
def test_no_pen_lends_its_mounts(probe: str, user: str) -> None:
    run_at_home(user, probe, pair_probes.__name__)
