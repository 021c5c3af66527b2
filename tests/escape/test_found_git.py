"""Ways to the host's git that were found: closed, as root and as an ordinary user. The probes say it."""

import pytest
from tests.escape.git_probes import PROBES
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", PROBES)
def test_git(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.escape.git_probes")
