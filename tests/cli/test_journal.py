"""`pinfold journal`: what is in it is told in a line each, and in whole to programs."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.audit import Journal
from pinfold.cli import main
from pinfold.state.directory import journal_file
from pinfold.state.sessions import register


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Journal(journal_file(os.environ))


def filled(journal: Journal) -> None:
    register("alive", ["/w"])
    violations = [{"operation": "open", "path": "/o/x"}, {"operation": "open", "path": "/o/y"}]
    ended = {"exit_code": 3, "signal": None, "timed_out": False, "cancelled": False, "violations": violations}
    run = journal.append("s", "run", {"command": "make\n\x1b[2J", "cwd": "/w"})
    journal.append("s", "connect", {"host": "h.example", "port": 443, "verdict": "deny"}, run)
    journal.append("s", "elevation", {"operation": "open", "paths": ["/o/x"], "answer": "no"}, run)
    journal.append("s", "end", ended, about=run)
    journal.append(
        "s", "end", {"error": "broke"}, about=journal.append("s", "run", {"command": "b", "cwd": "/w"})
    )
    journal.append("s", "refused", {"command": "x" * 5000, "cwd": "/w"})
    journal.append("s", "file", {"tool": "write", "path": "/w/a"})
    journal.append("s", "trouble", {"error": "it broke"})
    journal.append("gone", "run", {"command": "sleep", "cwd": "/w"})
    journal.append("alive", "run", {"command": "sleep", "cwd": "/w"})


def test_each_is_one_line(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    filled(journal)
    assert main(["journal", "list"]) == 0
    lines = [line.split(maxsplit=2)[1:] for line in capsys.readouterr().out.splitlines()]
    told = [(session, " ".join(rest.split())) for session, rest in lines]
    assert told == [
        ("s", "exit 3 make\\n\\x1b[2J, in /w; denied open /o/x and 1 more"),
        ("s", "deny connect to h.example:443, by `make\\n\\x1b[2J`"),
        ("s", "no open /o/x, by `make\\n\\x1b[2J`"),
        ("s", "failed b, in /w"),
        ("s", f"refused {'x' * 199}…, in /w"),
        ("s", "allowed write /w/a"),
        ("s", "trouble it broke"),
        ("gone", "unfinished sleep, in /w"),
        ("alive", "running sleep, in /w"),
    ]


def test_programs_get_all_of_it(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    filled(journal)
    assert main(["journal", "list", "--json", "--session", "s", "--last", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found[0]) == {"id", "at", "session", "kind", "about", "data", "end"}
    assert found[0]["end"]["exit_code"] == 3 and found[1]["about"] == found[0]["id"]
    assert {each["session"] for each in found} == {"s"} and len(found) == 7
    assert main(["journal", "list", "--json", "--last", "1"]) == 0
    assert [each["session"] for each in json.loads(capsys.readouterr().out)] == ["alive"]


def test_it_is_told_where_the_working_directory_is_gone(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(journal)
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
    assert main(["journal", "list", "--last", "1"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("sleep, in /w")


def test_what_is_old_is_forgotten(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    filled(journal)
    assert main(["journal", "forget", "--older-than", "1d"]) == 0
    assert main(["journal", "forget", "--older-than", "0s", "--json"]) == 0
    assert capsys.readouterr().out.replace("\n", "") == '0 entries deleted{  "forgotten": 10}'


def test_an_empty_one_says_so(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "list", "--session", "\x1b"]) == 0
    assert main(["journal", "list", "--session", os.fsdecode(b"\xff")]) == 0
    Path(journal.path).write_bytes(b"")  # as of one that there was no room for
    assert main(["journal", "list"]) == 0
    for name in (journal.path, f"{journal.path}.new"):
        os.unlink(name)
    assert main(["journal", "list"]) == 0 and main(["journal", "forget", "--older-than", "1d"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "the journal state/pinfold/journal.sqlite has no entries of a session `\\x1b`"
    assert said[1] == "the journal state/pinfold/journal.sqlite has no entries of a session `\\udcff`"
    assert said[2:] == [*["the journal state/pinfold/journal.sqlite is empty"] * 2, "0 entries deleted"]
    assert not os.path.exists(journal.path)


def test_one_that_cannot_be_reached_is_not_an_empty_one(
    journal: Journal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.symlink("loop", "loop")
    monkeypatch.setenv("XDG_STATE_HOME", os.path.abspath("loop"))
    for verb in (["list"], ["forget", "--older-than", "1d"]):
        assert main(["journal", *verb]) == 125
        assert "journal.sqlite cannot be read: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["forget"], "--older-than"),
        (["forget", "--older-than", "old"], "is not a duration"),
        (["list", "--last", "-1"], "is not a number"),
        (["list", "--session", ""], "argument --session: must not be empty"),
        ([], "list|forget"),
    ],
)
def test_bad_input(
    arguments: list[str], word: str, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", *arguments]) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize("columns", [60, 80])
def test_the_table_fits_a_terminal(columns: int, journal: Journal) -> None:
    filled(journal)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pinfold", "journal", "list"]
    environ = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb"}
    run = subprocess.Popen(command, stdout=theirs, env=environ)
    os.close(theirs)
    drawn = b""
    try:
        while data := os.read(ours, 1 << 16):
            drawn += data
    except OSError:  # the other end is closed
        pass
    assert run.wait() == 0
    lines = drawn.decode().splitlines()
    assert lines[0].split() == ["when", "session", "outcome", "what"] and max(map(len, lines)) <= columns
