"""The lowest layer: each key's default, and the shipped lists of `data/bundle.toml`.

Made once in a process. It has no places: what is shipped is told as `default`.
"""

import os.path
from functools import cache
from typing import Any

from pinfold.settings.keys import TABLE
from pinfold.settings.layers import Layer, read_layer
from pinfold.settings.toml import Document, parse

DATA = os.path.join(os.path.dirname(__file__), "data")


@cache
def default_layer() -> Layer:
    return read_layer(Document("default", "", "", default_data()))


def default_data() -> dict[str, object]:
    """The whole file as it would be written out, every key at its default."""
    data: dict[str, object] = {}
    for key in TABLE:
        section, _, name = key.name.rpartition(".")
        place = data.setdefault(section, {}) if section else data
        assert isinstance(place, dict)  # noqa: S101 - a section is never also a key
        place[name] = key.default
    commands = data["commands"]
    assert isinstance(commands, dict)  # noqa: S101
    commands |= shipped("bundle")["commands"]
    return data


def shipped(name: str) -> dict[str, Any]:
    """A file of ours; it is part of the program, so it is not checked as a user's would be."""
    path = os.path.join(DATA, f"{name}.toml")
    with open(path, encoding="utf-8") as file:
        return parse("default", path, file.read()).data
