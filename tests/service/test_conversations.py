"""What holds of agents' conversations. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.service.probes.conversations import NAMES

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", [name for name in NAMES if name != "a_conversation_is_its_own"])
def test_conversation(name: str, user: str) -> None:
    run_at_home(user, name, "tests.service.probes.conversations")


def test_a_conversation_is_its_own(user: str) -> None:
    run_at_home(user, "a_conversation_is_its_own", "tests.service.probes.conversations")
