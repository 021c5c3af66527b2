"""Real agents behind their hooks, with a stand-in for the model. `turns` says what holds."""

import os
import subprocess
import sys
from functools import partial

import pytest

from tests.agents.probes.turns import EVERYWHERE, JUDGED, OF, PATH, PROGRAMS, program_of
from tests.probe_runner import house, run_as

ROWS = [
    (name, agent)
    for agent in PROGRAMS
    for name in (*(() if agent in JUDGED else EVERYWHERE), *OF.get(agent, ()))
]


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="a network of its own needs root")
@pytest.mark.timeout(660)
@pytest.mark.parametrize(("name", "agent"), ROWS)
def test_turn(name: str, agent: str) -> None:
    program = program_of(agent)
    if not program:
        pytest.skip(f"there is no {PROGRAMS[agent]} here; `make agents` brings it, PINFOLD_AGENTS says where")
    with house("root") as where:
        run_as("root", f"{name}:{agent}:{program}", where, "tests.agents.probes.turns", patience=600)


def missing_programs() -> list[str]:
    """What the lines of a session start, and this machine does not have."""
    tried = ("curl --version", "git --version", "npm --version", "/usr/bin/python3 -m pip --version")
    run = partial(subprocess.run, shell=True, env={"PATH": PATH}, capture_output=True)
    return [line for line in tried if run(line).returncode]


@pytest.mark.slow
@pytest.mark.timeout(960)
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="a network of its own needs root")
@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini"])
def test_a_session_gives_the_same_results_as_bare(agent: str) -> None:
    """Thirty turns and more of one conversation; `probes/session.py` has the table, and what is left out."""
    program = program_of(agent)
    if not program:
        pytest.skip(f"there is no {PROGRAMS[agent]} here; `make agents` brings it, PINFOLD_AGENTS says where")
    if missing := missing_programs():
        pytest.skip(f"its lines cannot run here: {', '.join(missing)}")
    with house("root") as where:
        probe = f"a_session_gives_the_same_results_as_bare:{agent}:{program}"
        run_as("root", probe, where, "tests.agents.probes.session", patience=900)
