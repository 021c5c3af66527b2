"""Programs that people use, as root and as an ordinary user. `clients` says it."""

import sys

import pytest

from tests.sandbox.people import USERS, run_at_home
from tests.session.clients import PROBES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", PROBES)
def test_client(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.clients")
