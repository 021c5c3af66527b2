"""What holds of calls that wait for a person, as root and as an ordinary user. `elevations` says it."""

import sys

import pytest

from tests.sandbox.people import USERS, house, run_as
from tests.session.elevations import CLAIM, ELEVATIONS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.parametrize("user", USERS),
]


@pytest.mark.parametrize("name", ELEVATIONS)
def test_elevation(name: str, user: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.session.elevations")


def test_run_again_once_and_fenced(user: str) -> None:
    with house(user) as where:
        run_as(user, CLAIM, where, "tests.session.elevations")
