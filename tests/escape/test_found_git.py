"""Ways to the host's git that were found: closed. Probes: `probes/`."""

import pytest
from tests.escape.probes.host_git import PROBES
from tests.probe_runner import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", PROBES)
def test_hosts_git_runs_nothing_of_theirs(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.escape.probes.host_git")
