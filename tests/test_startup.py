"""What a cold start may not pay for. Figures are `bench/decide.py`'s business."""

import subprocess
import sys

import pytest
from bench.decide import NEVER_IMPORTED


@pytest.mark.parametrize("line", ["ls", "cd src && npm test", 'for f in *.py; do echo "$f"; done'])
def test_check_imports_nothing_heavy(line: str) -> None:
    code = "import sys; from pinfold.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-I", "-c", code, "check", line], capture_output=True, text=True, check=True
    )
    assert not set(NEVER_IMPORTED) & set(run.stdout.split())
