"""What holds of a session where the system has no more of something. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.shortages import RUNS

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", RUNS)
def test_shortage(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.probes.shortages", fresh=True)
