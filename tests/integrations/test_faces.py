"""All faces share one session and one enrichment. Probes: `probes/`."""

import sys

import pytest

from tests.integrations.probes.faces import FACES
from tests.probe_runner import USERS, run_at_home


@pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", FACES)
def test_face(name: str, user: str) -> None:
    run_at_home(user, name, "tests.integrations.probes.faces")
