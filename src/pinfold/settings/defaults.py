"""The lowest layer: each key's default, and the shipped lists.

Made once in a process. It has no places: what is shipped is told as `default`.
"""

from functools import cache

from pinfold.settings.keys import TABLE
from pinfold.settings.parse_layer import Layer, read_layer
from pinfold.settings.shipped import COMPOSITE, SAFE
from pinfold.settings.toml import Document


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
    commands |= {"safe": list(SAFE), "composite": list(COMPOSITE)}
    return data
