"""Ways out of the fence that were found: closed. Probes: `probes/`."""

import pytest
from tests.escape.probes import (
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
MODULES = (sandbox, other_programs, linked_roots, spawner, wider_pens)


@pytest.mark.parametrize(
    ("module", "probe"), [(module.__name__, probe) for module in MODULES for probe in module.PROBES]
)
def test_fence(module: str, probe: str, user: str) -> None:
    run_at_home(user, probe, module)


@pytest.mark.parametrize("probe", exhaustion.PROBES)
def test_no_command_takes_what_all_share(probe: str, user: str) -> None:
    run_at_home(user, probe, exhaustion.__name__)


@pytest.mark.parametrize("probe", env_files.PROBES)
def test_untracked_env_files_are_hidden(probe: str, user: str) -> None:
    run_at_home(user, probe, env_files.__name__)
