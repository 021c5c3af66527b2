"""Tables that pinfold ships: what is compiled is what is written."""

import os
import tomllib
from pathlib import Path

import pytest

from pinfold.model.tables import load_table

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
