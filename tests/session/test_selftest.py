"""The self-test: the fence holds, and without a fence nothing does."""

import pytest

from tests.sandbox.people import USERS, house, run_as


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", ["fence_holds", "no_fence_holds_nothing"])
def test_selftest(probe: str, user: str) -> None:
    with house(user) as where:
        run_as(user, probe, where, "tests.session.attacked")
