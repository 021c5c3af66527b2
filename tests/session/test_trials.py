"""What a session and `pinfold run` do on hard days, as root and as an ordinary user. `trials` says it."""

import pytest

from tests.sandbox.people import FOR_EACH_USER, run_at_home
from tests.session.trials import TRIALS

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", TRIALS)
def test_trial(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.trials")
