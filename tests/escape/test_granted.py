"""No grant gives more than was granted, as root and as an ordinary user. `granted` says it."""

import pytest
from tests.escape.granted import GRANTED
from tests.sandbox.people import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", GRANTED)
def test_granted(name: str, user: str) -> None:
    run_at_home(user, name, "tests.escape.granted")
