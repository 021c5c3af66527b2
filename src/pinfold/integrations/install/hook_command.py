"""How an agent's configuration names our hook: by whole paths, and by the quickest way in."""

import os
from collections.abc import Iterator, Mapping

from pinfold.integrations.hooks import start
from pinfold.isolated import isolated_python
from pinfold.model.escape_text import quoted

MARK = os.path.join("pinfold", "integrations", "hooks", "start.py")


def hook_words(agent: str) -> tuple[str, ...]:
    return isolated_python(os.path.abspath(start.__file__), agent)


def hook_line(agent: str) -> str:
    return " ".join(map(quoted, hook_words(agent)))


def is_ours(entry: object) -> bool:
    """Whether a part of a configuration starts our hook, wherever pinfold was when it was written."""
    return any(lines_of(entry))


def lines_of(entry: object) -> Iterator[str]:
    """The command lines in it that start our hook."""
    if isinstance(entry, Mapping):
        entry = list(entry.values())
    if isinstance(entry, list):
        for each in entry:
            yield from lines_of(each)
    elif isinstance(entry, str) and MARK in entry:
        yield entry
