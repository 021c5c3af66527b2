"""What CONTRIBUTING.md tells a newcomer to write works as it is written there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from pinfold.model.load_structs import load_as
from pinfold.shell.programs import Chart, Program

TOP = Path(__file__).parent.parent
PAGE = (TOP / "CONTRIBUTING.md").read_text()


def block(kind: str, word: str) -> str:
    """The one block of this kind in which a word occurs."""
    every = re.findall(rf"^ *```{kind}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = (each for each in every if word in each)
    return dedent(found)


def test_the_backend_keeps_the_contract(tmp_path: Path) -> None:
    code = block("python", "MarkedBackend")
    check = (
        "from tests.sandbox import contract\n"
        "contract.BACKENDS['marked'] = MarkedBackend\n"
        "contract.keeps_the_contract('marked')\n"
        "session = MarkedBackend().open_session(['.'])\n"
        "assert session.run(contract.request('echo $MARKED')).stdout == b'1\\n'\n"
        "session.close()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code + check],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{TOP}/src:{TOP}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_the_program_is_known_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "imgtool.toml"
    file.write_text(block("toml", "converts images"))
    chart = Chart("imgtool", load_as(Program, str(file)))
    hazards = {name for name, (_, option) in chart.spellings.items() if option.hazard}
    assert hazards == {"-o", "--output", "--filter"}
    assert chart.program.operands.rest == "reads"
