"""Which files of an agent are read, and what is found in them; the one module here that looks at the disk."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch

from pinfold.integrations.imports import claude, codex, cursor, gemini
from pinfold.integrations.imports.imported_rule import Finding, Found
from pinfold.integrations.install.jsonc import parse
from pinfold.model.errors import PolicyError
from pinfold.model.home import home_of
from pinfold.settings.files import read_text

AGENTS = {"claude": claude, "cursor": cursor, "codex": codex, "gemini": gemini}
PLACES = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude"),
    "cursor": ("", ".cursor"),
    "codex": ("CODEX_HOME", ".codex"),
    "gemini": ("", ".gemini"),
}


def gather(agent: str, environ: Mapping[str, str]) -> tuple[tuple[str, ...], list[Finding]]:
    """The files that were read, and what was found."""
    variable, name = PLACES[agent]
    home = home_of(environ)
    place = environ.get(variable) or os.path.join(home, name) if variable else os.path.join(home, name)
    files, findings = [], []
    for path in _files(place, AGENTS[agent].FILES):
        text = read_text(path)
        if text is None:
            continue
        found = Found(path)
        _read(agent, found, path, text)
        files.append(path)
        findings += found.all
    return tuple(files), findings


def _files(place: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        directory, base = os.path.split(os.path.join(place, name))
        if "*" not in base:
            yield os.path.join(directory, base)
        elif os.path.isdir(directory):
            yield from (
                os.path.join(directory, each) for each in sorted(os.listdir(directory)) if fnmatch(each, base)
            )


def _read(agent: str, found: Found, path: str, text: str) -> None:
    if path.endswith(".rules"):
        codex.read_rules(found, text)
        return
    try:
        data = tomllib.loads(text) if path.endswith(".toml") else parse(text, path).value
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError(f"is not TOML: {error}", where=path) from None
    if not isinstance(data, dict):
        raise PolicyError("holds no settings", where=path)
    AGENTS[agent].read(found, data)
