"""Ports and sockets across the fence, as root and as an ordinary user. `reached` says it."""

import pytest

from tests.sandbox.people import FOR_EACH_USER, run_at_home
from tests.session.reached import PROBES

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", PROBES)
def test_reached(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.reached")
