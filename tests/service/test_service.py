"""What holds of the service. Probes: `probes/`."""

import sys

import pytest

from tests.probe_runner import USERS, run_at_home
from tests.service.probes.calls import TALKS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", [name for name in TALKS if name != "neither_side_sends_the_token"])
def test_talk(name: str, user: str) -> None:
    run_at_home(user, name, "tests.service.probes.calls")


@pytest.mark.parametrize("user", USERS)
def test_neither_side_sends_the_token(user: str) -> None:
    run_at_home(user, "neither_side_sends_the_token", "tests.service.probes.calls")
