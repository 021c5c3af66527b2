"""Claude Code's own deny and ask rules about commands, which hold in our words too.

Why: Claude Code matches its rules against the line that runs. Once that is `pinfold run ... -c LINE`, a rule
`Bash(curl *)` would no longer match `curl`. We take only restrictions, from every file, so that no file can
widen anything.
"""

import os
from collections.abc import Iterator, Mapping

from pinfold.model.errors import PolicyError
from pinfold.model.home import home_of

MANAGED = "/etc/claude-code/managed-settings.json"
LARGEST = 16_000_000


def claude_rules(places: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, object]:
    """Values of the command line's layer: `{"commands": {"deny": [...], "ask": [...]}}`, or nothing.

    `places` are the projects, and where in them the agent was started: it reads its settings there.
    """
    found: dict[str, dict[str, None]] = {"deny": {}, "ask": {}}
    for path in _files(places, environ):
        data = _read(path)
        # Most have no rules, and those that have none need not be understood.
        if b"Bash" not in data and b"\\u" not in data:
            continue
        for key, value in _restrictions(path, data):
            found[key][value] = None
    return {"commands": {key: [*values] for key, values in found.items()}} if any(found.values()) else {}


def _files(places: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[str]:
    home = home_of(environ)
    yield MANAGED
    yield os.path.join(environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"), "settings.json")
    for place in dict.fromkeys(places):
        yield os.path.join(place, ".claude", "settings.json")
        yield os.path.join(place, ".claude", "settings.local.json")


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, LARGEST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _restrictions(path: str, data: bytes) -> Iterator[tuple[str, str]]:
    from pinfold.integrations.imports import claude
    from pinfold.integrations.imports.rules import Fit, ImportedRules
    from pinfold.integrations.install.jsonc import parse

    found = ImportedRules(path)
    try:
        whole = parse(data.decode("utf-8-sig"), path).value
    except (UnicodeDecodeError, PolicyError):
        return  # Claude Code does not obey what it cannot read either
    claude.read(found, whole if isinstance(whole, dict) else {})
    for each in found.all:
        section, _, key = each.key.partition(".")
        if section == "commands" and key in ("deny", "ask") and each.fit in (Fit.SAME, Fit.NARROWER):
            yield key, str(each.value)
