"""What holds of names in a pen, as root and as an ordinary user. The probes say it; each runs in a child."""

import sys

import pytest

from tests.sandbox.name_probes import PROBES
from tests.sandbox.people import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pens of this kind are Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", PROBES)
def test_names(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.name_probes")
