"""What holds of learning from a run, as root and as an ordinary user. `learnings` says it."""

import sys

import pytest

from tests.sandbox.people import USERS, house, run_as
from tests.session.learnings import LEARNINGS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.parametrize("user", USERS),
]


CLAIM = "learning_widens_nothing"


def test_learning_widens_nothing(user: str) -> None:
    with house(user) as where:
        run_as(user, CLAIM, where, "tests.session.learnings")


@pytest.mark.parametrize("name", [name for name in LEARNINGS if name != CLAIM])
def test_learning(name: str, user: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.session.learnings")
