"""Sockets inside a pen, as root and as an ordinary user. The probes say it; each runs in a child."""

import sys

import pytest

from tests.sandbox import socket_attacks, socket_probes
from tests.sandbox.people import USERS, house, run_as

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pens of this kind are Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", socket_probes.PROBES)
def test_sockets(probe: str, user: str) -> None:
    with house(user) as where:
        run_as(user, probe, where, socket_probes.__name__)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", socket_attacks.PROBES)
def test_attacks(probe: str, user: str) -> None:
    with house(user) as where:
        run_as(user, probe, where, socket_attacks.__name__)
