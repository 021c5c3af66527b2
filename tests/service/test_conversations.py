"""What holds of agents' conversations. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.service.probes.conversations import NAMES

pytestmark = FOR_EACH_USER
CLAIMS = ("a_conversation_is_its_own", "no_command_reads_the_secret_of_the_webhook")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CLAIMS])
def test_conversation(name: str, user: str) -> None:
    run_at_home(user, name, "tests.service.probes.conversations")


def test_a_conversation_is_its_own(user: str) -> None:
    run_at_home(user, "a_conversation_is_its_own", "tests.service.probes.conversations")


def test_no_command_reads_the_secret_of_the_webhook(user: str) -> None:
    run_at_home(user, "no_command_reads_the_secret_of_the_webhook", "tests.service.probes.conversations")
