"""What holds of learning from a run. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.learn import LEARNINGS

pytestmark = FOR_EACH_USER


CLAIM = "learning_widens_nothing"


def test_learning_widens_nothing(user: str) -> None:
    run_at_home(user, CLAIM, "tests.session.probes.learn")


@pytest.mark.parametrize("name", [name for name in LEARNINGS if name != CLAIM])
def test_learning(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.probes.learn")
