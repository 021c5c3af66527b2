"""What holds between an editor and its agent. `editing` says it."""

import sys

import pytest

from tests.integrations.editing import EDITING
from tests.integrations.golden import require_as_it_was
from tests.sandbox.people import run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize(("name", "user"), [(EDITING[0], "root"), *((name, "ordinary") for name in EDITING)])
def test_editing(name: str, user: str) -> None:
    run_at_home(user, name, "tests.integrations.editing")


def test_the_transcript_is_as_it_was() -> None:
    require_as_it_was("tests.integrations.editing", "acp.txt")
