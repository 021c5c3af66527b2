"""What `make quick` leaves out."""

from pathlib import Path

import pytest

from tests.selection import builds_sandboxes

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    "module",
    [
        "probe_runner.py",  # starts another Python itself
        "session/test_run.py",  # by its helpers
        "escape/test_grants.py",
        "network/test_programs.py",
        "kernel/test_syscall.py",  # by system calls
        "cli/test_run.py",  # by the fixtures of its folder
    ],
)
def test_modules_that_build_sandboxes_are_found(module: str) -> None:
    assert (TESTS / module).exists() and builds_sandboxes(TESTS / module)


@pytest.mark.parametrize(
    "module", ["policy/test_decide.py", "shell/test_walk.py", "corpus/test_shell_rows.py"]
)
def test_modules_that_only_compute_are_quick(module: str) -> None:
    assert (TESTS / module).exists() and not builds_sandboxes(TESTS / module)
