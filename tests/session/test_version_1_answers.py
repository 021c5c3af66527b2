"""What holds of remembered answers. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.version_1_answers import REMEMBERED

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", REMEMBERED)
def test_remembered(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.probes.version_1_answers")
