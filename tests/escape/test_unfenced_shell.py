"""Ways to make a shell read a line otherwise than it was judged: the shell that runs it is the one meant."""

from pathlib import Path

import pytest

from pinfold.session import Session

ALLOWED = {"sandbox": {"enabled": False}, "commands": {"allow": ["echo"]}}

# Each is one `echo` for bash, and for some other shell a `touch` besides.
LINES = (
    r"echo $'a\'; touch pwned #'",
    "echo $'a\\'\ntouch pwned #'",
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_runs_in_the_shell_it_was_judged_for(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)
    with Session([str(work)], settings=ALLOWED, cwd=str(work)) as session:
        result = session.run(line)
    assert result.exit_code == 0, result
    assert not (work / "pwned").exists()
