"""All faces share one session and one enrichment. `faces` says it."""

import sys

import pytest

from tests.integrations.faces import FACES
from tests.sandbox.people import USERS, house, run_as


@pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", FACES)
def test_face(name: str, user: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.integrations.faces")
