"""Every row of the corpus about files, other processes and privileges, in a fence, as both users."""

import sys

import pytest

from tests.corpus import fence
from tests.corpus.test_shell_rows import ROWS
from tests.sandbox.people import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
FENCE_ROWS = [row["id"] for row in ROWS if row["category"] in ("fs", "ipc", "privilege")]
TRIED = [row for row in FENCE_ROWS if row not in fence.ELSEWHERE]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("row", TRIED)
def test_row(row: str, user: str) -> None:
    run_at_home(user, row.replace("-", "_"), "tests.corpus.fence")


def test_every_row_is_tried_or_has_a_reason() -> None:
    assert set(fence.ELSEWHERE) <= set(FENCE_ROWS)
    assert all(hasattr(fence, row.replace("-", "_")) for row in TRIED)
