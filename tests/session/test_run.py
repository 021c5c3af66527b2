"""What holds of a session that runs things. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.run import RUNS

pytestmark = FOR_EACH_USER
CLAIMS = ("nobody_to_ask_means_no", "every_run_is_journaled_first", "no_fence_no_run")


def run(user: str, name: str) -> None:
    run_at_home(user, name, "tests.session.probes.run")


@pytest.mark.parametrize("name", [name for name in RUNS if name not in CLAIMS])
def test_run(name: str, user: str) -> None:
    run(user, name)


def test_nobody_to_ask_means_no(user: str) -> None:
    run(user, "nobody_to_ask_means_no")


def test_every_run_is_journaled_first(user: str) -> None:
    run(user, "every_run_is_journaled_first")


def test_no_fence_no_run(user: str) -> None:
    run(user, "no_fence_no_run")
