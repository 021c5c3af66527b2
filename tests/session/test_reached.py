"""Ports and sockets across the fence, as root and as an ordinary user. `reached` says it."""

import sys

import pytest

from tests.sandbox.people import USERS, run_at_home
from tests.session.reached import PROBES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", PROBES)
def test_reached(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.reached")
