"""Programs in a pen and the hosts outside, as root and as an ordinary user. `outside` says it."""

import sys

import pytest

from tests.sandbox.people import USERS, house, run_as
from tests.session.outside import PROBES

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.parametrize("user", USERS),
]
CLAIMS = ("no_name_no_packet",)


def run(user: str, name: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.session.outside")


@pytest.mark.parametrize("name", [name for name in PROBES if name not in CLAIMS])
def test_outside(name: str, user: str) -> None:
    run(user, name)


def test_no_name_no_packet(user: str) -> None:
    run(user, "no_name_no_packet")
