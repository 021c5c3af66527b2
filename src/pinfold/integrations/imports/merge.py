"""Findings become an edit of the user's settings file. Pure."""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any, NamedTuple

from pinfold.integrations.imports import claude, codex, cursor, gemini
from pinfold.integrations.imports.rules import Fit, ImportedRule, ImportedRules
from pinfold.integrations.install.jsonc import parse
from pinfold.model.errors import PolicyError
from pinfold.model.home import home_of
from pinfold.settings import toml_edit
from pinfold.settings.files import read_text
from pinfold.settings.generate_docs import written
from pinfold.settings.keys import BY_NAME


class ImportProposal(NamedTuple):
    text: str
    taken: tuple[ImportedRule, ...]
    """What the text has now and had not before."""
    there: tuple[ImportedRule, ...]
    """What it had already, or what holds anyway."""
    wider: tuple[ImportedRule, ...]
    """What was left out because it would let more through."""
    left: tuple[ImportedRule, ...]
    """What has no equivalent."""


def merge(text: str, findings: Iterable[ImportedRule], *, take_wider: bool = False) -> ImportProposal:
    taken, there, wider, left = (
        list[ImportedRule](),
        list[ImportedRule](),
        list[ImportedRule](),
        list[ImportedRule](),
    )
    for finding in findings:
        if finding.fit is Fit.NONE:
            left.append(finding)
        elif finding.fit is Fit.NEEDLESS:
            there.append(finding)
        elif (_is_wider(text, finding) or finding.fit is Fit.WIDER) and not take_wider:
            wider.append(finding._replace(why=finding.why or _in_force(text, finding)))
        else:
            after = _with(text, finding)
            (there if after == text else taken).append(finding)
            text = after
    return ImportProposal(text, tuple(taken), tuple(there), tuple(wider), tuple(left))


def _is_wider(text: str, finding: ImportedRule) -> bool:
    """Whether a scalar would let more through than the one in force."""
    key = BY_NAME[finding.key]
    return key.is_scalar and key.rank(finding.value) > key.rank(_now(text, finding.key, key.default))


def _in_force(text: str, finding: ImportedRule) -> str:
    """Why a scalar is left out: the one it would take the place of."""
    said = _now(text, finding.key, None)
    if said is None:
        return f"`{finding.key}` is {written(BY_NAME[finding.key].default)} unless you say otherwise"
    return f"yours says `{finding.key} = {written(said)}`"


def _with(text: str, finding: ImportedRule) -> str:
    section, name = finding.key.split(".")
    key = BY_NAME[finding.key]
    if not key.is_scalar:
        return toml_edit.add_entry(text, section, name, str(finding.value))
    now = _now(text, finding.key, key.default)
    return text if now == finding.value else toml_edit.set_value(text, section, name, written(finding.value))


def _now(text: str, key: str, default: object) -> Any:
    """What a settings file says of a key of a section."""
    section, name = key.split(".")
    return tomllib.loads(text).get(section, {}).get(name, default)


def count(findings: Sequence[ImportedRule]) -> str:
    return f"{len(findings)} {'entry' if len(findings) == 1 else 'entries'}"


AGENTS = {"claude-code": claude, "cursor": cursor, "codex": codex, "gemini": gemini}
PLACES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude"),
    "cursor": ("", ".cursor"),
    "codex": ("CODEX_HOME", ".codex"),
    "gemini": ("", ".gemini"),
}


def gather(agent: str, environ: Mapping[str, str]) -> tuple[tuple[str, ...], list[ImportedRule]]:
    """The files that were read, and what was found."""
    variable, name = PLACES[agent]
    home = home_of(environ)
    place = environ.get(variable) or os.path.join(home, name) if variable else os.path.join(home, name)
    files, findings = [], []
    for path in _files(place, AGENTS[agent].FILES):
        text = read_text(path)
        if text is None:
            continue
        found = ImportedRules(path)
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


def _read(agent: str, found: ImportedRules, path: str, text: str) -> None:
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
