"""Asking shfmt: answers, troubles, bounds, and nothing left behind."""

import contextlib
import os
import threading
import time

import pytest

from pinfold.shell import shfmt
from pinfold.shell.shfmt import SyntaxTrouble, find_binary
from pinfold.shell.syntax import Parser, load_tree


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> list[str]:
    with open(f"/proc/self/task/{threading.get_native_id()}/children", encoding="ascii") as file:
        return file.read().split()


def test_the_binary_is_the_wheels_own() -> None:
    assert os.path.isabs(find_binary())
    assert os.access(find_binary(), os.X_OK)


def test_a_tree() -> None:
    tree = load_tree("ls")
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
    assert time.monotonic() - start < 5


def test_an_answer_that_is_too_large_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    monkeypatch.setattr(shfmt, "MAX_ANSWER", 1000)
    monkeypatch.setattr(shfmt, "_CHUNK", 100)
    with pytest.raises(SyntaxTrouble, match="too large"):
        load_tree("ls " * 100)
    assert children() == before


def test_a_parser_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    before = children()
    slow = os.path.join(tmp_path, "shfmt")
    with open(slow, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexec /bin/sleep 60\n")
    os.chmod(slow, 0o700)
    monkeypatch.setattr(shfmt, "_binary", [slow])
    monkeypatch.setattr(shfmt, "TIMEOUT", 0.1)
    with pytest.raises(SyntaxTrouble, match="too long"):
        load_tree("ls")
    assert children() == before


def test_nothing_is_left_behind() -> None:
    before, before_children = descriptors(), children()
    for text in ("ls", "ls |", "a\0"):
        with contextlib.suppress(SyntaxTrouble):
            load_tree(text)
    with Parser(warm=True) as parser:
        for number in range(20):
            parser.load_tree(f"ls {number}")
        time.sleep(0.05)
    deadline = time.monotonic() + 2
    while (descriptors() != before or children() != before_children) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert descriptors() == before
    assert children() == before_children


def test_threads_share_a_parser() -> None:
    found: list[str] = []
    with Parser(warm=True) as parser:

        def work(name: str) -> None:
            for number in range(20):
                tree = parser.load_tree(f"{name} {number}")
                found.append(tree["Stmts"][0]["Cmd"]["Args"][0]["Parts"][0]["Value"])

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == sorted("abcd" * 20)


def test_a_waiting_process_that_was_killed_is_replaced() -> None:
    with Parser(warm=True) as parser:
        assert parser._waiting is not None
        os.kill(parser._waiting.pid, 9)
        assert parser.load_tree("ls")["Type"] == "File"


def test_a_forked_copy_starts_its_own() -> None:
    with Parser(warm=True) as parser:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if parser.load_tree("ls")["Type"] == "File" else 1
            finally:
                os._exit(code)
        assert parser.load_tree("ls")["Type"] == "File"
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
