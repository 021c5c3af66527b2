"""The program itself, in a home of its own."""

import os
import subprocess
import sys
from pathlib import Path


def pinfold(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pinfold", *arguments],
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
