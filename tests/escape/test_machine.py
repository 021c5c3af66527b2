"""The claims of SECURITY.md about what belongs to the machine, each by its name. The probes do the work."""

import pytest
from tests.escape.probes import mounts, root_only_files
from tests.probe_runner import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", mounts.PROBES)
def test_machine_inodes_are_read_only(probe: str, user: str) -> None:
    run_at_home(user, probe, mounts.__name__)


@pytest.mark.parametrize("probe", root_only_files.PROBES)
def test_what_only_root_may_read_is_closed(probe: str, user: str) -> None:
    run_at_home(user, probe, root_only_files.__name__)
