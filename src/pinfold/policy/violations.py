"""A refusal in full: which setting stands behind it, where that is written, and what would allow it. Pure.

`violations.ignore` hides reports, never records.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from posixpath import dirname

from msgspec.structs import replace

from pinfold.model.settings import Settings
from pinfold.model.text import Origin
from pinfold.model.violation import Violation
from pinfold.policy.paths import contains
from pinfold.policy.protected import BLOCKED, protected_names
from pinfold.policy.reasons import remedy_for

SHIPPED = "pinfold's own list of protected names"
EVERY_COMMAND = "*"


def explained(violation: Violation, settings: Settings, command: str) -> Violation:
    """The same with its command, where its rule is written, and what would allow it."""
    origin, remedy = _behind(violation, settings)
    return replace(violation, command=command, origin=origin, remedy=remedy)


def _behind(violation: Violation, settings: Settings) -> tuple[str, str]:
    if violation.operation == "warden":
        return "", ""
    if violation.operation == "connect" and not violation.path.startswith("/"):
        return _of_setting(settings, "network.access", f"add `{_host(violation.path)}` to `network.allow`")
    if violation.operation == "connect":
        key = "network.unix_sockets"
        return _of_setting(settings, key, f"add `{violation.path}` to `{key}`")
    if violation.why.startswith(BLOCKED):
        return _of_setting(settings, "filesystem.git_writes", "set `filesystem.git_writes = true`")
    if violation.rule:
        return _of_name(violation, settings)
    where = dirname(violation.path)
    return _of_setting(settings, "filesystem.write", f"add `{where}` to `filesystem.write`")


def _of_name(violation: Violation, settings: Settings) -> tuple[str, str]:
    key = "filesystem.protect"
    for place, entry in enumerate(settings.filesystem.protect):
        if entry == violation.rule:
            origin = settings.origin(key, place)
            return str(origin), remedy_for(origin, f"take `{entry}` from `{key}`")
    listed = any(each.name == violation.rule for each in protected_names())
    remedy = "a person can grant it when they are asked" if violation.grantable else ""
    return SHIPPED if listed else "", remedy


def _of_setting(settings: Settings, key: str, remedy: str) -> tuple[str, str]:
    origin: Origin = settings.origin(key)
    return f"`{key}`, {origin}", remedy_for(origin, remedy)


def _host(target: str) -> str:
    return target.rpartition(":")[0] or target


def is_ignored(violation: Violation, settings: Settings, commands: Iterable[str]) -> bool:
    """Whether the settings say not to report it. `commands` are the line's simple commands."""
    texts = tuple(commands)
    return any(
        _names(entry, violation)
        for words, entries in settings.violations_ignore.items()
        if words == EVERY_COMMAND or any(_starts(text, words) for text in texts)
        for entry in entries
    )


def _starts(command: str, words: str) -> bool:
    return command == words or command.startswith(f"{words} ")


def _names(entry: str, violation: Violation) -> bool:
    """A path and what lies in it, a host with or without its port, or a pattern of either."""
    path = violation.path
    if entry.startswith("/") and contains(entry, path):
        return True
    return fnmatchcase(path, entry) or fnmatchcase(_host(path), entry)
