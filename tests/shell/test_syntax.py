"""Asking shfmt: answers, troubles, bounds, and nothing left behind."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from pinfold.model.errors import PinfoldError
from pinfold.shell import shfmt, syntax
from pinfold.shell.shfmt import ParserTrouble, SyntaxTrouble, TookTooLong, find_binary
from pinfold.shell.syntax import Parser, load_tree

ASKED = "ls #"
"""A line that is not `plain`: shfmt is asked."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> list[str]:
    with open(f"/proc/self/task/{threading.get_native_id()}/children", encoding="ascii") as file:
        return file.read().split()


def test_the_binary_is_the_wheels_own() -> None:
    assert os.path.isabs(find_binary())
    assert os.access(find_binary(), os.X_OK)


def test_a_tree() -> None:
    tree = load_tree(ASKED)
    assert tree["Stmts"][0]["Cmd"]["Args"][0]["Parts"][0]["Value"] == "ls"


TROUBLES = [
    # syntax
    ("ls | | wc", 3),
    ("echo 'a", 5),
    ("é é | |", 4),
    ("ls\nif", 3),
    # not text
    ("a\0b", 1),
    ("a\ud800", 1),
    # too much
    ("x" * 10_001, None),
]


@pytest.mark.parametrize(("text", "offset"), TROUBLES)
def test_trouble(text: str, offset: int | None) -> None:
    with pytest.raises(SyntaxTrouble) as trouble:
        load_tree(text)
    assert trouble.value.message
    assert trouble.value.offset == offset


@pytest.mark.parametrize("text", ['"$( ' * 2000, "(" * 9000, "{ " * 4000, "$((" * 3000])
def test_deep_nesting_is_trouble_and_soon(text: str) -> None:
    start = time.monotonic()
    with pytest.raises(SyntaxTrouble):
        load_tree(text)
    assert time.monotonic() - start < 100  # the parser's own second of the processor, on a busy machine


def test_an_answer_that_is_too_large_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    monkeypatch.setattr(shfmt, "MAX_ANSWER", 1000)
    monkeypatch.setattr(shfmt, "_CHUNK", 100)
    with pytest.raises(SyntaxTrouble, match="too large"):
        load_tree("ls #" + "x" * 100)
    assert children() == before


def fake(folder: Path, script: str) -> str:
    """A program that stands in for shfmt."""
    path = folder / "shfmt"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o700)
    return str(path)


def test_a_parser_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = children()
    monkeypatch.setattr(shfmt, "_binary", [fake(tmp_path, "exec /bin/sleep 600")])
    monkeypatch.setattr(shfmt, "TIMEOUT", 0.1)
    with pytest.raises(TookTooLong):
        load_tree(ASKED)
    assert children() == before


def test_without_a_handle_it_is_ended_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shfmt, "_handle", lambda pid: -1)
    test_a_parser_that_hangs_is_ended(monkeypatch, tmp_path)


@pytest.mark.parametrize("warm", [False, True])
def test_a_parser_that_dies_once_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warm: bool
) -> None:
    once = f'if mkdir {tmp_path}/once 2>/dev/null; then kill -SEGV $$; fi; exec {find_binary()} "$@"'
    monkeypatch.setattr(shfmt, "_binary", [fake(tmp_path, f"PATH=/bin:/usr/bin\n{once}")])
    with Parser(warm=warm) as parser:
        assert parser.load_tree(ASKED)["Type"] == "File"


def test_a_parser_that_dies_twice_is_trouble_of_the_parser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shfmt, "_binary", [fake(tmp_path, "kill -SEGV $$")])
    with pytest.raises(ParserTrouble, match="died"):
        load_tree(ASKED)


def test_a_parser_that_cannot_be_started_is_an_error_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = descriptors()
    monkeypatch.setattr(shfmt, "_binary", [str(tmp_path / "nothing")])
    with Parser(warm=True) as parser, pytest.raises(PinfoldError, match=r"cannot be started.*; check"):
        parser.load_tree(ASKED)
    assert descriptors() <= before  # a parser of another test may have ended meanwhile


@pytest.mark.parametrize("warm", [False, True])
def test_nobody_is_asked_about_a_plain_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warm: bool
) -> None:
    monkeypatch.setattr(shfmt, "_binary", [str(tmp_path / "nothing")])
    with Parser(warm=warm) as parser:
        assert parser.load_tree("ls")["Type"] == "File"


def test_no_descriptor_left_is_an_error_of_this_machine() -> None:
    """In a child, whose limit may be spent."""
    code = """
import os, resource
from pinfold.model.errors import PinfoldError
from pinfold.shell import parse
assert not parse("ls #").problem
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
spent = []
try:
    while True:
        spent.append(os.dup(0))
except OSError:
    pass
for left in (0, 1, 2, 3):
    try:
        parse("ls # more")
    except PinfoldError as error:
        assert "cannot be started" in str(error), error
    else:
        raise SystemExit("it was judged")
    os.close(spent.pop())
for fd in spent:
    os.close(fd)
assert not parse("ls # more").problem
"""
    assert run(code) == (0, "")


def run(code: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "rest",
    [
        "parser = Parser(warm=True)",
        "parser = Parser(warm=True); parser.load_tree('ls #')",
        "import pinfold.shell.syntax as s; s.kept = Parser(warm=True); s.kept.me = s.kept",
        "import sys; sys.kept = Parser(warm=True)",
        "p = Parser.__new__(Parser); del p",
    ],
)
def test_an_unclosed_parser_ends_quietly(rest: str) -> None:
    assert run(f"from pinfold.shell.syntax import Parser\n{rest}") == (0, "")


def test_a_host_that_ignores_its_children() -> None:
    """Its children are reaped by the kernel, and their numbers given to others."""
    code = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from pinfold.shell import shfmt
from pinfold.shell.syntax import Parser, load_tree
killed = []
os.kill = lambda *what: killed.append(what)
for text in ("ls #", "ls #", "if"):
    try:
        load_tree(text)
    except shfmt.SyntaxTrouble:
        pass
with Parser(warm=True) as parser:
    parser.load_tree("ls #")
assert killed == [], killed
assert shfmt.end(shfmt.Process(1, -1, -1)) is None
"""
    assert run(code) == (0, "")


def test_parsers_that_are_gone_leave_nothing_to_do_after_a_fork() -> None:
    before = len(syntax._warm_parsers)
    for _ in range(3):
        with Parser(warm=True) as parser:
            assert len(syntax._warm_parsers) == before + 1
        del parser
    deadline = time.monotonic() + PATIENCE
    while len(syntax._warm_parsers) != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(syntax._warm_parsers) == before


def test_nothing_is_left_behind() -> None:
    before, before_children = descriptors(), children()
    for text in (ASKED, "ls |", "a\0"):
        with contextlib.suppress(SyntaxTrouble):
            load_tree(text)
    with Parser(warm=True) as parser:
        for number in range(20):
            parser.load_tree(f"{ASKED} {number}")
    deadline = time.monotonic() + PATIENCE
    while (descriptors() != before or children() != before_children) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert descriptors() == before
    assert children() == before_children


def test_threads_share_a_parser() -> None:
    found: list[str] = []
    with Parser(warm=True) as parser:

        def work(name: str) -> None:
            for number in range(20):
                tree = parser.load_tree(f"{name} {number} #")
                found.append(tree["Stmts"][0]["Cmd"]["Args"][0]["Parts"][0]["Value"])

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == sorted("abcd" * 20)


def test_a_waiting_process_that_was_killed_is_replaced() -> None:
    with Parser(warm=True) as parser:
        for process in parser._waiting:
            os.kill(process.pid, 9)
        assert parser.load_tree(ASKED)["Type"] == "File"


def test_a_forked_copy_starts_its_own() -> None:
    with Parser(warm=True) as parser:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if parser.load_tree(ASKED)["Type"] == "File" else 1
            finally:
                os._exit(code)
        assert parser.load_tree(ASKED)["Type"] == "File"
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
