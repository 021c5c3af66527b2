"""Tables that pinfold ships: what is compiled is what is written."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pinfold.model.load_structs import load_table

SHIPPED = sorted((Path(__file__).parent.parent.parent / "src/pinfold").rglob("data/*.toml"))


def test_a_table_is_what_its_text_says() -> None:
    assert SHIPPED
    for file in SHIPPED:
        assert load_table(str(file)) == tomllib.loads(file.read_text())


def test_a_changed_text_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    file = tmp_path / "names.toml"
    file.write_text('names = ["a"]')
    assert load_table(str(file)) == load_table(str(file)) == {"names": ["a"]}
    assert os.listdir(tmp_path / "__pycache__")
    file.write_text('names = ["a", "b"]')
    assert load_table(str(file)) == {"names": ["a", "b"]}


def test_a_text_that_is_no_toml_is_told(tmp_path: Path) -> None:
    file = tmp_path / "names.toml"
    file.write_text("names = [")
    with pytest.raises(tomllib.TOMLDecodeError):
        load_table(str(file))


AT_ONCE = """
import sys, threading
from msgspec import Struct
from pinfold.model.load_structs import load_as

sys.setswitchinterval(1e-6)
for _ in range(60):
    class Inner(Struct):
        x: int = 0

    class Middle(Struct):
        many: tuple[Inner, ...] = ()
        named: dict[str, Inner] = {}

    class Outer(Struct):
        one: Middle
        many: tuple[Middle, ...] = ()

    go = threading.Barrier(16)

    def load(kind=Outer, go=go):
        go.wait()
        assert load_as(kind, sys.argv[1]).one.many[0].x == 1

    threads = [threading.Thread(target=load) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_may_load_the_first_ones_at_once(tmp_path: Path) -> None:
    file = tmp_path / "table.toml"
    file.write_text("one.many = [{x = 1}]\nmany = [{}]\n")
    run = subprocess.run([sys.executable, "-c", AT_ONCE, str(file)], capture_output=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, b"")
