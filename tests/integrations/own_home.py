"""The program itself, in a home of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def pinfold(*arguments: str, home: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pinfold", *arguments],
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "PINFOLD_HOOK_SERVICE": "0"},
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )
