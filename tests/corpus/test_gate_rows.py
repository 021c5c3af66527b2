"""Every row of the corpus about the proxy and the network, from a pen, as both users."""

import json
import sys

import pytest

from tests.corpus import gate
from tests.corpus.test_shell_rows import ROWS
from tests.sandbox.people import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
GATE_ROWS = {row["id"] for row in ROWS if row["category"] in ("proxy", "network")}
TRIED = GATE_ROWS - set(gate.ELSEWHERE)


@pytest.mark.parametrize("user", USERS)
def test_rows(user: str) -> None:
    found: dict[str, str] = json.loads(run_at_home(user, "all", "tests.corpus.gate"))
    assert {row: why for row, why in found.items() if why} == {}
    assert set(found) == TRIED


def test_every_row_is_tried_or_has_a_reason() -> None:
    assert set(gate.ELSEWHERE) <= GATE_ROWS
    assert all(row in gate.SAID or hasattr(gate, row.replace("-", "_")) for row in TRIED)
