"""What holds of remembered answers, as root and as an ordinary user. `remembered` says it."""

import pytest

from tests.sandbox.people import FOR_EACH_USER, run_at_home
from tests.session.remembered import REMEMBERED

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", REMEMBERED)
def test_remembered(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.remembered")
