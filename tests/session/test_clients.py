"""Programs that people use, as root and as an ordinary user. `clients` says it."""

import pytest

from tests.sandbox.people import FOR_EACH_USER, run_at_home
from tests.session.clients import PROBES

pytestmark = FOR_EACH_USER


@pytest.mark.parametrize("name", PROBES)
def test_client(name: str, user: str) -> None:
    run_at_home(user, name, "tests.session.clients")
