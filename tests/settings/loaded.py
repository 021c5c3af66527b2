"""What tests of settings share: a shape without `shell`, and `load` over texts."""

import os
from typing import Any

from pinfold.model.script import Shape
from pinfold.model.settings import Settings
from pinfold.settings import Sources, load


def shape(text: str) -> Shape:
    """Good enough for plain words; `shell.shape` knows more."""
    words = tuple(text.split())
    if "|" in words:
        raise ValueError("a rule is one command")
    flags = tuple(word for word in words[1:] if word.startswith("-"))
    return Shape(words[0], words, flags, tuple(word for word in words[1:] if not word.startswith("-")))


def write(directory: Any, name: str, text: str) -> str:
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def layered(
    directory: Any,
    managed: str | None = None,
    user: str | None = None,
    local: str | None = None,
    project: str | None = None,
    **overrides: object,
) -> Settings:
    """The settings of these texts, each in its layer."""
    root = os.path.join(directory, "root")
    for name, text in (("settings.local.toml", local), ("settings.toml", project)):
        if text is not None:
            write(root, f".pinfold/{name}", text)
    sources = Sources(
        managed="" if managed is None else write(directory, "managed.toml", managed),
        user="" if user is None else write(directory, "user.toml", user),
        projects=(root,),
        overrides={name.replace("__", "."): value for name, value in overrides.items()},
    )
    return load(sources, shape=shape)
