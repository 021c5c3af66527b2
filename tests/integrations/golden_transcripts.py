"""Transcripts that are kept: what a module prints as `golden`, compared with what it printed before."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.probe_runner import TOP, house

KEPT = Path(__file__).parent / "golden"


def require_as_it_was(module: str, name: str) -> None:
    """PINFOLD_GOLDEN=write keeps what it is now; look at the difference before you commit it."""
    with house("root") as where:
        done = subprocess.run(
            [sys.executable, "-m", module, "golden"],
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
    said = re.sub(r"pinfold-[0-9a-f]{16,}", "pinfold-ID", said)
    if os.environ.get("PINFOLD_GOLDEN") == "write":
        (KEPT / name).write_text(said)
    assert said == (KEPT / name).read_text()
