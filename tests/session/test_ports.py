"""Ports and sockets across the fence. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.ports import PROBES

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", PROBES)
def test_reached(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.probes.ports")
