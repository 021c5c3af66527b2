"""What runs before a syntax error: bash itself is asked, and `parse` must have listed it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pinfold.shell import parse
from pinfold.shell.shfmt import SyntaxTrouble
from pinfold.shell.syntax import load_tree, read_lines

BASH = shutil.which("bash")

RUNS_FIRST = [
    # the line of the error, and what a line is
    "rm D\nif then",
    "rm D # a\n)",
    "rm D &\n)",
    "true &&\nrm D\n)",
    "echo 'a\nb'; rm D\necho 'a",
    "rm $(echo D\n)\n)",
    "cat <<E\n$(rm D)\nE\n)",
    "rm D\ncat <<$'E'\nx\nE",
    # the error is found far below
    "rm D\nif true; then\necho a\necho b",
    "rm D\nwhile true; do\nif true; then\n(\n",
    "rm D\n" + "true &&\n" * 40 + ")",
    # texts inside of the line
    "eval $'rm D\\nif then'",
    "bash -c $'rm D\\nif then'",
    "sh -c $'rm D\\n)'",
    "bash <<'E'\nrm D\nif then\nE",
]


@pytest.mark.parametrize("text", RUNS_FIRST)
def test_what_runs_before_the_error_is_listed(text: str, tmp_path: Path) -> None:
    script = parse(text)
    assert any(command.program == "rm" for command in script.commands)
    assert script.problem or any(unknown.runs for unknown in script.unknowns)
    if BASH:
        (tmp_path / "D").touch()
        subprocess.run([BASH, "-c", text], cwd=tmp_path, capture_output=True, timeout=60, check=False)
        assert not (tmp_path / "D").exists()


NEVER_RUNS = ["rm D; if then", "if true; then\nrm D\nif then\nfi", "rm D; (\n", "(\nrm D\n"]


@pytest.mark.parametrize("text", NEVER_RUNS)
def test_nothing_of_the_erring_list_is_listed(text: str) -> None:
    script = parse(text)
    assert script.problem
    assert script.commands == ()


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("ls", "ls"),
        ("a\nb\nif then\nc", "a\nb\n"),
        ("é\nü |\n| x", "é\n"),
        ("if", ""),
        ("\n\nif", ""),
    ],
)
def test_how_far_a_text_is_read(text: str, start: str) -> None:
    assert read_lines(text, load_tree).text == start


def test_tries_are_few_and_reach_the_first_line() -> None:
    tried: list[str] = []

    def load(text: str) -> dict[str, object]:
        tried.append(text)
        if text == "rm D\n":
            return {}
        raise SyntaxTrouble("no")

    assert read_lines("rm D\n" + "x\n" * 4_000, load).text == "rm D\n"
    assert len(tried) < 40


PROBLEMS_ELSEWHERE = [
    # a node that is not known, a text read differently, bounds
    "rm D; cat <<$'E'\nx\nE",
    "cat <<$'E'; rm D\nx\nE",
    "rm D\necho a\\\r\nb",
    "rm D\n" + "bash -c " * 20 + "x",
    "rm D; " + "a;" * 1200,
    "rm D\n" + "(" * 4_000 + "x" + ")" * 4_000,
]


@pytest.mark.parametrize("text", PROBLEMS_ELSEWHERE)
def test_trouble_takes_nothing_away(text: str) -> None:
    script = parse(text)
    assert any(command.program == "rm" for command in script.commands)
    assert script.problem or any(unknown.runs for unknown in script.unknowns)
