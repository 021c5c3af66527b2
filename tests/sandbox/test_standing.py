"""Mounts are put back while commands run, as root and as an ordinary user."""

import sys

import pytest

from tests.sandbox.people import USERS, run_at_home
from tests.sandbox.standing_probes import PROBES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pens of this kind are Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", PROBES)
def test_standing(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.standing_probes")
