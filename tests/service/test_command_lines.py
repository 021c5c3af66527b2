"""What holds of `pinfold run` by the service. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.service.probes.command_lines import NAMES

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", NAMES)
def test_command_line(name: str, user: str) -> None:
    run_at_home(user, name, "tests.service.probes.command_lines")
