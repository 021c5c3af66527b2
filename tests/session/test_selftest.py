"""The self-test: the fence holds, a hole in it is found, and without a fence nothing holds."""

import pytest

from tests.probe_runner import USERS, run_at_home


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", ["fence_holds", "holes_are_found", "no_fence_holds_nothing"])
def test_selftest(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.session.probes.selftest")
