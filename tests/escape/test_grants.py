"""No grant gives more than was granted. Probes: `probes/`."""

import pytest
from tests.escape.probes.grants import GRANTED
from tests.probe_runner import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", GRANTED)
def test_granted(name: str, user: str) -> None:
    run_at_home(user, name, "tests.escape.probes.grants")
