"""Sockets inside a pen, as root and as an ordinary user. The probes say it; each runs in a child."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.sandbox.probes import socket_attacks, sockets

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("probe", sockets.PROBES)
def test_sockets(probe: str, user: str) -> None:
    run_at_home(user, probe, sockets.__name__)


@pytest.mark.parametrize("probe", socket_attacks.PROBES)
def test_attacks(probe: str, user: str) -> None:
    run_at_home(user, probe, socket_attacks.__name__)
