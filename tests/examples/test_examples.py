"""Every example is run as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def run(*arguments: str, tmp_path: Path, typed: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> str:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return str(tmp_path / "project")


def test_agent_loop(project: str, tmp_path: Path) -> None:
    said = run(str(EXAMPLES / "agent_loop.py"), project, tmp_path=tmp_path)
    assert "hello" in said and "the sandbox denied open" in said and "not approved:" in said
    assert (tmp_path / "project/greeting.txt").read_text() == "hello\n"
    loop = (EXAMPLES / "agent_loop.py").read_text()
    assert len([line for line in loop.splitlines() if line]) <= 30


def test_pytest_fixture(project: str, tmp_path: Path) -> None:
    assert project
    fixture = str(EXAMPLES / "pytest_fixture.py")
    said = run("-m", "pytest", "-p", "no:cacheprovider", fixture, tmp_path=tmp_path)
    assert "2 passed" in said


def test_service_client(project: str, tmp_path: Path) -> None:
    named = run(str(EXAMPLES / "service_client.py"), project, tmp_path=tmp_path, typed="no\n")
    here = run(str(EXAMPLES / "service_client.py"), tmp_path=Path(project), typed="no\n")
    alone = run(str(EXAMPLES / "service_client.py"), project, tmp_path=tmp_path, typed="")
    for said in (named, here, alone):
        assert "stdout 1\n" in said and "exit 0\n" in said and "the person said no" in said


def test_langgraph_tool(project: str, tmp_path: Path) -> None:
    pytest.importorskip("langchain_core")
    said = run(str(EXAMPLES / "langgraph_tool.py"), project, tmp_path=tmp_path)
    assert "hello\n[exit code 0]" in said and "error: /etc/passwd is outside" in said


def inspect_python() -> str:
    """A Python that has inspect-ai: ours, or the one that PINFOLD_INSPECT names."""
    import importlib.util

    given = os.environ.get("PINFOLD_INSPECT", "")
    found = given or (sys.executable if importlib.util.find_spec("inspect_ai") else "")
    if not found:
        pytest.skip("inspect-ai is not installed (it takes a minute and a half): see PINFOLD_INSPECT")
    return found


def with_inspect(*words: str, tmp_path: Path) -> str:
    import msgspec

    paths = (EXAMPLES, EXAMPLES.parent / "src", Path(msgspec.__file__).parent.parent)
    done = subprocess.run(
        [inspect_python(), *words],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_inspect_sandbox(project: str, tmp_path: Path) -> None:
    said = with_inspect(str(EXAMPLES / "inspect_sandbox.py"), project, tmp_path=tmp_path)
    assert said.startswith("success\n") and "pen=1" in said and "Read-only file system" in said


def test_inspect_holds_the_example_for_a_sandbox(project: str, tmp_path: Path) -> None:
    assert project
    said = with_inspect(str(Path(__file__).parent / "inspect_checks.py"), tmp_path=tmp_path)
    assert "held" in said.splitlines()[-1]


def test_every_example_is_listed_and_run() -> None:
    page, tests = (EXAMPLES / "README.md").read_text(), Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f"({example.name})" in page
        assert f"def test_{example.stem}(" in tests
