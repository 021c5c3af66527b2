"""Programs in a pen and the hosts outside. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.session.probes.hosts import PROBES

pytestmark = FOR_EACH_USER
CLAIMS = ("no_name_no_packet", "what_is_refused_after_connect_is_told")


def run(user: str, name: str) -> None:
    run_at_home(user, name, "tests.session.probes.hosts")


@pytest.mark.parametrize("name", [name for name in PROBES if name not in CLAIMS])
def test_outside(name: str, user: str) -> None:
    run(user, name)


def test_no_name_no_packet(user: str) -> None:
    run(user, "no_name_no_packet")


def test_what_is_refused_after_connect_is_told(user: str) -> None:
    run(user, "what_is_refused_after_connect_is_told")
