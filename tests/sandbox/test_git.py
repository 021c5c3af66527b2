"""Git in a pen, as root and as an ordinary user."""

import sys

import pytest

from tests.sandbox.git_probes import PROBES
from tests.sandbox.people import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pens of this kind are Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", PROBES)
def test_git(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.git_probes")
