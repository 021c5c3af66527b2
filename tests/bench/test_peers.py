"""The side by side bench runs as anyone, and tells of those who cannot take part."""

import sys
from pathlib import Path

import pytest
from bench.contenders import (
    CONTENDERS,
    ContenderError,
    OneShots,
    Place,
    codex_cold,
    require_sandbox_type,
    said,
)
from bench.report import Outcome, Report, as_page, as_picture
from bench.works import WORKS

from tests.probe_runner import USERS, run_at_home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fences compared are Linux's")


@pytest.mark.parametrize("user", USERS)
def test_bare_and_pinfold_take_turns(user: str) -> None:
    run_at_home(user, "ratios_of_true", "tests.bench.probes.peers")


def test_no_fence_at_all_is_found_out(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    (tmp_path / "work").mkdir()
    with pytest.raises(ContenderError, match="outside of its workspace"):
        require_sandbox_type(OneShots([], place), place)


def test_codex_is_started_cold_by_the_command_that_npm_installs(tmp_path: Path) -> None:
    place, modules = Place(str(tmp_path)), tmp_path / "node_modules"
    native = str(modules / "@openai/codex-linux-x64/vendor/x86_64/bin/codex")
    assert codex_cold(native, place)[0] == native
    (modules / ".bin").mkdir(parents=True)
    (modules / ".bin/codex").touch()
    assert codex_cold(native, place)[0] == str(modules / ".bin/codex")
    assert codex_cold("/usr/bin/codex", place)[0] == "/usr/bin/codex"


def test_a_ratio_counts_the_rounds_that_both_took() -> None:
    outcome = Outcome(WORKS[0], {"bare": [1.0, 1.0, 9.0, 9.0, 9.0], "srt": [4.0, 4.0]}, {})
    assert outcome.ratio("srt") == 4
    assert outcome.ratio("codex") is None


def test_where_bare_fails_there_is_no_ratio() -> None:
    outcome = Outcome(WORKS[0], {"pinfold": [1.0]}, {"bare": "no such program"})
    report = Report([outcome], {"bare": "", "pinfold": "1"}, {}, None, "a directory", 1.0, 99.0)
    assert "| failed | - |" in as_page(report)
    assert "<svg" in as_picture(report)


def test_the_page_and_the_picture_show_who_took_part() -> None:
    outcome = Outcome(WORKS[0], {"bare": [0.001], "pinfold": [0.002]}, {"bwrap": "exit 1: no"})
    versions = {"bare": "", "pinfold": "1", "bwrap": "2"}
    report = Report([outcome], versions, {"srt": "not installed"}, None, "a directory", 1.0, 99.0)
    page = as_page(report)
    assert "| 1 ms | 2x | failed |" in page
    assert "- srt: not installed." in page
    assert "busy before the first turn (load 99.0)" in page
    assert "- true, bwrap: exit 1: no." in page
    assert "pinfold: 2x" in as_picture(report)


def test_names_of_works_and_contenders_differ() -> None:
    names = [work.name for work in WORKS] + [contender.name for contender in CONTENDERS]
    assert len(set(names)) == len(names)


def test_a_complaint_is_told_without_the_path_of_this_machine() -> None:
    words = b"first\nbwrap: no file at /home/a/pinfold-bench-x1/34/work/.claude: Read-only\n"
    assert said(words) == "bwrap: no file at work/.claude: Read-only"
