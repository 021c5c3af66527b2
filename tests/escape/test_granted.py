"""No grant gives more than was granted, as root and as an ordinary user. `granted` says it."""

import sys

import pytest
from tests.escape.granted import GRANTED
from tests.sandbox.people import USERS, house, run_as

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.parametrize("user", USERS),
]


@pytest.mark.parametrize("name", GRANTED)
def test_granted(name: str, user: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.escape.granted")
