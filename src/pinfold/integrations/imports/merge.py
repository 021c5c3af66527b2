"""Findings become an edit of the user's settings file. Pure."""

import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pinfold.integrations.imports.imported_rule import Finding, Fit
from pinfold.settings import edit
from pinfold.settings.generate_docs import written
from pinfold.settings.keys import BY_NAME


class Merged(NamedTuple):
    text: str
    taken: tuple[Finding, ...]
    """What the text has now and had not before."""
    there: tuple[Finding, ...]
    """What it had already, or what holds anyway."""
    wider: tuple[Finding, ...]
    """What was left out because it would let more through."""
    left: tuple[Finding, ...]
    """What has no equivalent."""


def merge(text: str, findings: Iterable[Finding], *, take_wider: bool = False) -> Merged:
    taken, there, wider, left = list[Finding](), list[Finding](), list[Finding](), list[Finding]()
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
    return Merged(text, tuple(taken), tuple(there), tuple(wider), tuple(left))


def _is_wider(text: str, finding: Finding) -> bool:
    """Whether a scalar would let more through than the one in force."""
    key = BY_NAME[finding.key]
    return key.is_scalar and key.rank(finding.value) > key.rank(_now(text, finding.key, key.default))


def _in_force(text: str, finding: Finding) -> str:
    """Why a scalar is left out: the one it would take the place of."""
    said = _now(text, finding.key, None)
    if said is None:
        return f"`{finding.key}` is {written(BY_NAME[finding.key].default)} unless you say otherwise"
    return f"yours says `{finding.key} = {written(said)}`"


def _with(text: str, finding: Finding) -> str:
    section, name = finding.key.split(".")
    key = BY_NAME[finding.key]
    if not key.is_scalar:
        return edit.add_entry(text, section, name, str(finding.value))
    now = _now(text, finding.key, key.default)
    return text if now == finding.value else edit.set_value(text, section, name, written(finding.value))


def _now(text: str, key: str, default: object) -> Any:
    """What a settings file says of a key of a section."""
    section, name = key.split(".")
    return tomllib.loads(text).get(section, {}).get(name, default)


def count(findings: Sequence[Finding]) -> str:
    return f"{len(findings)} {'entry' if len(findings) == 1 else 'entries'}"
