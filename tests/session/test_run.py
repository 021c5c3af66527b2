"""What holds of a session that runs things, as root and as an ordinary user. `runs` says it."""

import sys

import pytest

from tests.sandbox.people import USERS, house, run_as
from tests.session.runs import RUNS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.parametrize("user", USERS),
]
CLAIMS = ("nobody_to_ask_means_no", "every_run_is_journaled_first", "no_fence_no_run")


def run(user: str, name: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.session.runs")


@pytest.mark.parametrize("name", [name for name in RUNS if name not in CLAIMS])
def test_run(name: str, user: str) -> None:
    run(user, name)


def test_nobody_to_ask_means_no(user: str) -> None:
    run(user, "nobody_to_ask_means_no")


def test_every_run_is_journaled_first(user: str) -> None:
    run(user, "every_run_is_journaled_first")


def test_no_fence_no_run(user: str) -> None:
    run(user, "no_fence_no_run")
