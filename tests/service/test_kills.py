"""What holds when a part of a running conversation is killed. Probe: `probes/kills.py`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home

pytestmark = [*FOR_EACH_USER, pytest.mark.slow]


def test_a_killed_part_leaves_nothing(user: str) -> None:
    run_at_home(user, "kills", "tests.service.probes.kills")
