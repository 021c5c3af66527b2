"""Git in a pen, as root and as an ordinary user."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.sandbox.probes.git import PROBES

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", PROBES)
def test_git(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.probes.git")
