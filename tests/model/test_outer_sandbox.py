"""What is said where Pinfold is run inside another sandbox names that, and what turns it off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.audit.journal import JournalError
from pinfold.model.outer_sandbox import BY_VARIABLE, outer_sandbox, with_outer_sandbox


@pytest.mark.parametrize(("name", "called", "switch"), BY_VARIABLE)
def test_each_is_named_with_its_switch(name: str, called: str, switch: str) -> None:
    told = with_outer_sandbox("it failed", {name: "1"})
    assert told == f"it failed; this is inside {called}: {switch}"


def test_nothing_is_said_where_nothing_tells() -> None:
    if not any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))):
        assert outer_sandbox({"PATH": "/bin", "CODEX_SANDBOX": ""}) == ""
        assert with_outer_sandbox("it failed", {}) == "it failed"


def test_a_journal_that_cannot_be_written_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_SANDBOX_NETWORK_DISABLED", "1")
    assert "codex -s danger-full-access" in str(JournalError("/x", "Read-only file system"))
    assert "free disk space" in str(JournalError("/x", "No space left on device"))


def test_a_run_says_it(tmp_path: Path) -> None:
    """In a sandbox that lets nobody make namespaces, as most do: here a namespace without room for more."""
    line = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    words = ["unshare", "-Ur", "sh", "-c", line, "sh", sys.executable, "-m", "pinfold", "run", "-c", "true"]
    environ = {**os.environ, "HOME": str(tmp_path), "CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    done = subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, text=True)
    if "unshare" in done.stderr or "nonexistent" in done.stderr:
        pytest.skip("no user namespace can be made here")
    assert done.returncode == 126 and "codex -s danger-full-access" in done.stderr, done
