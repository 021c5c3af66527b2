"""Every row of the corpus about files, other processes and privileges, in a sandbox_rows, as both users."""

import sys

import pytest

from tests.corpus.probes import sandbox_rows
from tests.corpus.test_shell_rows import ROWS
from tests.probe_runner import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
FENCE_ROWS = [row["id"] for row in ROWS if row["category"] in ("fs", "ipc", "privilege")]
TRIED = [row for row in FENCE_ROWS if row not in sandbox_rows.ELSEWHERE]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("row", TRIED)
def test_row(row: str, user: str) -> None:
    run_at_home(user, row.replace("-", "_"), "tests.corpus.probes.sandbox_rows")


def test_every_row_is_tried_or_has_a_reason() -> None:
    assert set(sandbox_rows.ELSEWHERE) <= set(FENCE_ROWS)
    assert all(hasattr(sandbox_rows, row.replace("-", "_")) for row in TRIED)
