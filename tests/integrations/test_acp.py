"""What holds between an editor and its agent. `editing` says it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.editing import EDITING
from tests.sandbox.people import TOP, house, run_as

GOLDEN = Path(__file__).parent / "golden/acp.txt"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize(("name", "user"), [(EDITING[0], "root"), *((name, "ordinary") for name in EDITING)])
def test_editing(name: str, user: str) -> None:
    with house(user) as where:
        run_as(user, name, where, "tests.integrations.editing")


def test_the_transcript_is_as_it_was() -> None:
    """PINFOLD_GOLDEN=write keeps what it is now; look at the difference before you commit it."""
    with house("root") as where:
        done = subprocess.run(
            [sys.executable, "-m", "tests.integrations.editing", "golden"],
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
    said = re.sub(r"pinfold-[0-9a-f]+", "pinfold-ID", said)
    if os.environ.get("PINFOLD_GOLDEN") == "write":
        GOLDEN.write_text(said)
    assert said == GOLDEN.read_text()
