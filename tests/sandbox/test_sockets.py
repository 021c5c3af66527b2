"""Sockets inside a pen, as root and as an ordinary user. The probes say it; each runs in a child."""

import pytest

from tests.sandbox import socket_attacks, socket_probes
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", socket_probes.PROBES)
def test_sockets(probe: str, user: str) -> None:
    run_at_home(user, probe, socket_probes.__name__)


@pytest.mark.parametrize("probe", socket_attacks.PROBES)
def test_attacks(probe: str, user: str) -> None:
    run_at_home(user, probe, socket_attacks.__name__)
