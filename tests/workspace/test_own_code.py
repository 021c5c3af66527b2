"""Where Pinfold's own code lies within what commands may write: closed, or the project is refused."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.test_isolated import environment

import pinfold
from pinfold.isolated import SOURCE
from pinfold.workspace import own_code

CALL = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}


def run(program: Path, *words: str, cwd: Path, payload: str = "") -> subprocess.CompletedProcess[str]:
    """With a home of its own, and no service for hooks."""
    home = cwd.parent / "home"
    home.mkdir(exist_ok=True)
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PINFOLD_HOOK_SERVICE": "0"}
    return subprocess.run(
        [program, *words], cwd=cwd, env=environ, capture_output=True, text=True, check=False, input=payload
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


def test_own_code_is_out_of_reach(project: Path) -> None:
    launcher = environment(project / ".venv")
    told = run(launcher, "run", "-c", "touch made", cwd=project)
    assert told.returncode == 125 and not (project / "made").exists()
    assert told.stderr.count("\n") == 1 and f"Pinfold runs from {project}/.venv" in told.stderr
    assert "install it elsewhere: " in told.stderr
    payload = json.dumps({**CALL, "cwd": str(project)})
    hook = json.loads(run(launcher, "hook", "claude-code", cwd=project, payload=payload).stdout)
    assert hook["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "install it elsewhere: " in hook["hookSpecificOutput"]["permissionDecisionReason"]
    # Another project is none of it, and what shows nothing but words goes on.
    (other := project.parent / "other").mkdir()
    assert run(launcher, "check", "ls", cwd=other).returncode == 0
    assert run(launcher, "--version", cwd=project).returncode == 0


def test_a_project_that_our_environment_loads_code_from_is_refused(project: Path) -> None:
    """As `pip install -e .` leaves it: what a command writes there is `sitecustomize` at the next start."""
    launcher = environment(project.parent / "env")
    (packages,) = (project.parent / "env").glob("lib/python3*/site-packages")
    (project / "src").mkdir()
    (packages / "theirs.pth").write_text(f"{project}/src\n")
    told = run(launcher, "check", "ls", cwd=project)
    assert told.returncode == 125 and f"Pinfold runs from {project}/src" in told.stderr
    (project.parent / "link").symlink_to(project, target_is_directory=True)
    (packages / "theirs.pth").write_text(f"{project.parent}/link/src\n")
    assert run(launcher, "check", "ls", cwd=project).returncode == 125


def test_a_project_inside_our_code_is_refused(tmp_path: Path) -> None:
    for root in (SOURCE, f"{SOURCE}/pinfold", f"{SOURCE}/pinfold/shell/data"):
        with pytest.raises(pinfold.ConfinementError, match="is Pinfold's own code"):
            pinfold.Session([root], settings={}, environ={"HOME": str(tmp_path)})


def test_whoever_works_in_their_home_has_it_closed(tmp_path: Path) -> None:
    """A Pinfold in `~/.local/share` is where the refusal would have it."""
    home = tmp_path / "home"
    launcher = environment(home / ".local/share/pinfold")
    lines = (
        'echo "import os" > .local/share/pinfold/lib/sitecustomize.py',
        "rm -f .local/share/pinfold/bin/python",
        "mkdir -p .local/bin && ln -s /bin/true .local/bin/pinfold",
        "touch made",
    )
    for line in lines:
        told = run(launcher, "run", "--network", "none", "-c", line, cwd=home)
        assert (told.returncode == 0) is (line == "touch made"), (line, told)
    assert (home / "made").exists() and os.path.lexists(launcher.with_name("python"))


def test_the_remedy_works_when_pasted(project: Path) -> None:
    launcher = environment(project / ".venv")
    told = run(launcher, "run", "-c", "true", cwd=project).stderr
    line = told.partition("install it elsewhere: ")[2].partition("; then")[0]
    home = project.parent / "home"
    kept: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if "PIP" in name or "proxy" in name
    }
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=project,
        env={**kept, "HOME": str(home), "PATH": f"{project}/.venv/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    elsewhere = home / ".local/bin/pinfold"
    assert run(elsewhere, "check", "ls", cwd=project).stdout.startswith("allow")


def test_what_is_closed_is_all_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    top = own_code.own_checkout()
    if not top:
        pytest.skip("these tests do not run from a checkout")
    closed = {f"{top}/{name}" for name in ("src", ".venv", "pinfold", "pyproject.toml", "hatch.toml")}
    assert closed <= {*own_code.own_code()}, "the last one names programs that an installation runs"
