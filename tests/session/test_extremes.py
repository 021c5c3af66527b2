"""What a session and `pinfold run` do on hard days. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.extremes import TRIALS

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", TRIALS)
def test_trial(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.probes.extremes")
