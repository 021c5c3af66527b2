"""Programs that people use. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.network_clients import PROBES

pytestmark = FOR_EACH_USER


CLAIM = "an_agent_only_lists_and_signs"


@pytest.mark.parametrize("name", [name for name in PROBES if name != CLAIM])
def test_client(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.probes.network_clients")


def test_an_agent_only_lists_and_signs(user: str) -> None:
    run_at_home(user, CLAIM, "tests.session.probes.network_clients")
