"""Ways out of the fence that were found: closed. Probes: `probes/`."""

import pytest
from tests.escape.probes import (
    agent_directories,
    env_files,
    exhaustion,
    linked_roots,
    other_programs,
    sandbox,
    spawner,
    wider_pens,
)
from tests.probe_runner import FOR_EACH_USER, run_at_home

pytestmark = FOR_EACH_USER
MODULES = (agent_directories, sandbox, other_programs, linked_roots, spawner, wider_pens)


OF_THEIR_OWN = ("no_command_starts_the_machines_crash_handler",)
"""Claims of SECURITY.md, each with a test of its name."""


@pytest.mark.parametrize(
    ("module", "probe"),
    [(module.__name__, probe) for module in MODULES for probe in module.PROBES if probe not in OF_THEIR_OWN],
)
def test_fence(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@pytest.mark.parametrize("probe", exhaustion.PROBES)
def test_no_command_takes_what_all_share(probe: str, user: str) -> None:
    run_at_home(user, probe, exhaustion.__name__)


@pytest.mark.parametrize("probe", env_files.PROBES)
def test_untracked_env_files_are_hidden(probe: str, user: str) -> None:
    run_at_home(user, probe, env_files.__name__)


def test_no_command_starts_the_machines_crash_handler(user: str) -> None:
    run_at_home(user, "no_command_starts_the_machines_crash_handler", sandbox.__name__)
