"""What holds of a session where the system has no more of something. `shortages` says it."""

import pytest

from tests.sandbox.people import FOR_EACH_USER, run_at_home
from tests.session.shortages import RUNS

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", RUNS)
def test_shortage(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.shortages")
