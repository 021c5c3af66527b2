"""What holds of calls that wait for a person, as root and as an ordinary user. `elevations` says it."""

import pytest

from tests.sandbox.people import FOR_EACH_USER, run_at_home
from tests.session.elevations import CLAIM, ELEVATIONS

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", ELEVATIONS)
def test_elevation(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.elevations")


def test_run_again_once_and_fenced(user: str) -> None:
    run_at_home(user, CLAIM, "tests.session.elevations")
