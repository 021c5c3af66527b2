"""Everything the README shows is run, and says what the README says it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
README = (TOP / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


SHOWN = [
    tuple(part.split("\n", 1)) for block in blocks("console") for part in ("\n" + block).split("\n$ ")[1:]
]


@pytest.mark.parametrize(("command", "output"), SHOWN)
def test_shown_command(command: str, output: str, tmp_path: Path) -> None:
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=TOP,
        env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    # Remedies name files in full, so that they work wherever they are pasted.
    assert run.stdout.replace(f"{TOP}/", "").strip() == output.strip()
    assert run.stderr == ""


def test_the_first_command_runs_and_is_denied_one_thing() -> None:
    (first,) = blocks("sh")[0].strip().splitlines()
    run = subprocess.run(["bash", "-c", first], cwd=TOP, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "hello\n")
    assert "`.mcp.json` is protected" in run.stderr
    assert first.partition("  #")[0] in SHOWN[0][0]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_the_python_runs() -> None:
    (code,) = blocks("python")
    run = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=False)
    assert run.stdout.startswith("1 hi\n"), run.stderr
    assert "/.vscode full" in run.stdout and "denied: matches the deny rule `git push`" in run.stdout


PAGES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in sorted((TOP / "docs").glob("*.md"))
    if page.name != "python.md"  # tests/test_python_page.py runs its examples
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", PAGES)
def test_the_python_of_the_pages_runs(code: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    # What it would reach out for is not there: nobody is dialled by a test.
    code = code.replace("pip download requests", "echo requests")
    environ = {**os.environ, "HOME": str(tmp_path)}
    environ.pop("XDG_STATE_HOME", None)
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=work, env=environ, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_every_link_leads_somewhere() -> None:
    for page in (
        TOP / "README.md",
        TOP / "SECURITY.md",
        TOP / "examples/README.md",
        *(TOP / "docs").glob("*.md"),
    ):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("verb", ["doctor", "selftest", "status", "prompt"])
def test_the_verbs_for_looking_answer(verb: str, tmp_path: Path) -> None:
    assert f"`pinfold {verb}`" in README
    run = subprocess.run(
        ["./pinfold", verb, "--json"],
        cwd=TOP,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if verb == "selftest" and "cannot make the sandbox" in run.stderr:
        pytest.skip(run.stderr.strip())
    assert run.returncode in (0, 1), run.stderr
    assert run.stdout.startswith("{")


def test_the_page_about_machines_shows_the_commands_that_doctor_prints() -> None:
    from pinfold.sandbox.compat import DOCKER, PODMAN

    page = (TOP / "docs/doctor.md").read_text()
    assert DOCKER in page and PODMAN in page
    assert "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0" in page
