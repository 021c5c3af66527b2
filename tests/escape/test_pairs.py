"""No pen lends another its mounts: every pair of policies, every way, every operation. Probes: `probes/`."""

import pytest
from tests.escape.probes import pairs
from tests.probe_runner import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", pairs.PROBES)
def test_no_pen_lends_its_mounts(probe: str, user: str) -> None:
    run_at_home(user, probe, pairs.__name__)
