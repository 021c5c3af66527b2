"""The claims of SECURITY.md about what belongs to the machine, each by its name. The probes do the work."""

import pytest
from tests.escape import closed_probes, mount_probes
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", mount_probes.PROBES)
def test_machine_inodes_are_read_only(probe: str, user: str) -> None:
    run_at_home(user, probe, mount_probes.__name__)


@pytest.mark.parametrize("probe", closed_probes.PROBES)
def test_what_only_root_may_read_is_closed(probe: str, user: str) -> None:
    run_at_home(user, probe, closed_probes.__name__)
