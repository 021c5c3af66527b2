"""Attacks on the service of agents' conversations. Probes: `probes/attacks.py`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.service.probes.attacks import ELSEWHERE, GARBAGE, INSIDE, LIES

pytestmark = FOR_EACH_USER
MODULE = "tests.service.probes.attacks"


@pytest.mark.parametrize("name", LIES)
def test_a_lie_to_the_service_gains_nothing(name: str, user: str) -> None:
    run_at_home(user, name, MODULE)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_service_serves_its_own_place_alone(name: str, user: str) -> None:
    run_at_home(user, name, MODULE)


@pytest.mark.parametrize("name", INSIDE)
def test_no_command_reaches_the_service(name: str, user: str) -> None:
    run_at_home(user, name, MODULE)


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_does_not_stop_the_service(name: str, user: str) -> None:
    run_at_home(user, name, MODULE)
