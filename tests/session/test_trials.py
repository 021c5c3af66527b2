"""What a session and `pinfold run` do on hard days, as root and as an ordinary user. `trials` says it."""

import sys

import pytest

from tests.sandbox.people import USERS, house, run_as
from tests.session.trials import TRIALS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.parametrize("user", USERS),
]


@pytest.mark.parametrize("name", TRIALS)
def test_trial(name: str, user: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.session.trials")
