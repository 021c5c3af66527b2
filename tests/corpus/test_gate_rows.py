"""Every row of the corpus about the proxy and the network, from a pen, as both users."""

import json
import sys

import pytest

from tests.corpus.probes import gate_rows
from tests.corpus.test_shell_rows import ROWS
from tests.probe_runner import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
GATE_ROWS = {row["id"] for row in ROWS if row["category"] in ("proxy", "network")}
TRIED = GATE_ROWS - set(gate_rows.ELSEWHERE)


@pytest.mark.parametrize("user", USERS)
def test_rows(user: str) -> None:
    written = run_at_home(user, "all", "tests.corpus.probes.gate_rows")
    # What Python complains of while it ends (`Exception ignored in ...`) comes before the last line.
    found: dict[str, str] = json.loads(written.strip().rpartition("\n")[2])
    assert {row: why for row, why in found.items() if why} == {}
    assert set(found) == TRIED


def test_every_row_is_tried_or_has_a_reason() -> None:
    assert set(gate_rows.ELSEWHERE) <= GATE_ROWS
    assert all(row in gate_rows.SAID or hasattr(gate_rows, row.replace("-", "_")) for row in TRIED)
