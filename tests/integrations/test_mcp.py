"""What holds of the MCP server, as root and as an ordinary user. `scenes` says it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.scenes import SCENES
from tests.sandbox.people import TOP, house, run_as

GOLDEN = Path(__file__).parent / "golden/mcp.txt"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


# What the fence does for each user is its own tests' business; the ordinary one is who has agents.
@pytest.mark.parametrize(
    ("name", "user"), [("an_ordinary_session", "root"), *((name, "ordinary") for name in SCENES)]
)
def test_scene(name: str, user: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.integrations.scenes")


def test_without_the_sdk_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mcp_types'] = None; from pinfold.cli import main; sys.exit(main(['mcp']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 125
    assert done.stderr.startswith("pinfold: the MCP SDK is missing (")
    assert f"run: {sys.executable} -m pip install" in done.stderr


def test_the_transcript_is_as_it_was() -> None:
    """PINFOLD_GOLDEN=write keeps what it is now; look at the difference before you commit it."""
    with house("root") as where:
        done = subprocess.run(
            [sys.executable, "-m", "tests.integrations.scenes", "golden"],
            cwd=where / "work",
            env={
                "HOME": str(where / "home"),
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHONPATH": f"{TOP}/src:{TOP}",
                "LANG": "C.UTF-8",
            },
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said = done.stdout.replace(str(where / "home"), "HOME").replace(str(where / "work"), "WORK")
    if os.environ.get("PINFOLD_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(said)
    assert said == GOLDEN.read_text()
