"""What holds between an editor and its agent. Probes: `probes/`."""

import sys
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.integrations.acp import _title
from pinfold.model.permission import Capability
from tests.approval.questions import DECISION, question
from tests.integrations.golden_transcripts import require_as_it_was
from tests.integrations.probes.acp import EDITING
from tests.probe_runner import run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize(("name", "user"), [(EDITING[0], "root"), *((name, "ordinary") for name in EDITING)])
def test_editing(name: str, user: str) -> None:
    run_at_home(user, name, "tests.integrations.probes.acp")


def test_the_transcript_is_as_it_was() -> None:
    require_as_it_was("tests.integrations.probes.acp", "acp.txt")


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ({"capability": Capability.RUN}, "touch x"),
        (
            {"capability": Capability.RUN, "decision": replace(DECISION, sandboxed=False)},
            "run this outside the sandbox: touch x",
        ),
        (
            {"capability": Capability.BYPASS},
            "run this without the sandbox: it may read, change and send everything that you can: touch x",
        ),
        ({"capability": Capability.WIDEN}, "run this with more than your own policy gives: touch x"),
        (
            {"capability": Capability.CONNECT, "host": "a.test", "port": 443},
            "connect to a.test:443, for touch x",
        ),
        (
            {"capability": Capability.WRITE, "path": "/etc/x", "operation": "open"},
            "write /etc/x, for touch x",
        ),
        (
            {"capability": Capability.WRITE, "path": "/w/x", "operation": "write", "command": "write /w/x"},
            "write /w/x",
        ),
        (
            {"capability": Capability.READ, "path": "/etc/x", "command": "read\x1b /etc/x"},
            "read /etc/x: read\\x1b /etc/x",
        ),
    ],
)
def test_a_title_says_what_is_wanted_first(given: dict[str, Any], title: str) -> None:
    assert _title(question(**given)) == title
