"""What holds of the MCP server. Probes: `probes/`."""

import asyncio
import subprocess
import sys

import pytest

from tests.integrations.golden_transcripts import require_as_it_was
from tests.integrations.probes.mcp import SCENES
from tests.probe_runner import run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


# What the fence does for each user is its own tests' business; the ordinary one is who has agents.
@pytest.mark.parametrize(
    ("name", "user"), [("an_ordinary_session", "root"), *((name, "ordinary") for name in SCENES)]
)
def test_scene(name: str, user: str) -> None:
    run_at_home(user, name, "tests.integrations.probes.mcp")


def test_without_the_sdk_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mcp_types'] = None; from pinfold.cli import main; sys.exit(main(['mcp']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 125
    assert done.stderr.startswith("pinfold: the MCP SDK is not installed (")
    assert f"run: {sys.executable} -I -m pip install" in done.stderr


def test_the_transcript_is_as_it_was() -> None:
    require_as_it_was("tests.integrations.probes.mcp", "mcp.txt")


def test_a_call_whose_state_was_used_for_another_is_over() -> None:
    """What it would be asked later goes to the next approver, and does not wait for somebody who has gone."""
    types = pytest.importorskip("mcp_types")
    from pinfold.integrations.mcp.call import McpCall, McpQuestion
    from pinfold.integrations.mcp.server import McpServer
    from pinfold.integrations.tools import TOOLS
    from tests.web.page_world import question

    async def scene() -> None:
        server = McpServer(lambda _: None)  # type: ignore[arg-type, return-value]
        call, asked = McpCall(TOOLS["execute_command"], {"command": "a"}), McpQuestion(question())
        server._calls.append(call)
        server._waiting["state"] = call, asked
        other = types.CallToolRequestParams(
            name="execute_command", arguments={"command": "b"}, request_state="state"
        )
        assert server._resumed(other) is None and asked.answer == "no"
        assert server(question()) is None

    asyncio.run(scene())
