"""Git in a pen, as root and as an ordinary user."""

import pytest

from tests.sandbox.git_probes import PROBES
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", PROBES)
def test_git(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.git_probes")
