"""What holds of calls that wait for a person. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.write_questions import CLAIM, ELEVATIONS

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", ELEVATIONS)
def test_elevation(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.probes.write_questions")


def test_run_again_once_and_fenced(user: str) -> None:
    run_at_home(user, CLAIM, "tests.session.probes.write_questions")
