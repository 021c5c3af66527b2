"""What holds of `pinfold mcp wrap`. Probes: `probes/`."""

import pytest

from tests.integrations.probes.mcp_wrap import SCENES
from tests.probe_runner import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", SCENES)
def test_scene(name: str, user: str) -> None:
    run_at_home(user, name, "tests.integrations.probes.mcp_wrap")
