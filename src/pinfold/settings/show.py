"""Settings in force as plain values under the names of the key table, for people and for JSON.

The reverse of `build`; a test checks that no key is forgotten.
"""

from typing import Any

from pinfold.model.approval_settings import Control, SandboxingMode
from pinfold.model.policy import POLICY_WORDS
from pinfold.model.settings import Hook, Rule, Settings
from pinfold.settings.keys import TABLE

_TIMES = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_SIZES = (
    ("GiB", 2**30), ("GB", 10**9), ("MiB", 2**20), ("MB", 10**6), ("KiB", 2**10), ("KB", 10**3), ("B", 1),
)  # fmt: skip
_ELSEWHERE = {
    "environment.set": "environment_set",
    "violations.ignore": "violations_ignore",
    "limits.answer": "answer",
}


def effective(settings: Settings) -> dict[str, Any]:
    """Key -> value: a bool, a word, a number, None for no limit, a list or a table."""
    return {key.name: _plain(_value(settings, key.name)) for key in TABLE}


def limit_shown(name: str, value: float | None) -> str:
    """A limit as a person would write it: `10m`, `10MB`."""
    if value is None:
        return "no limit"
    units = {
        "limits.memory": _SIZES,
        "limits.output": _SIZES,
        "journal.size": _SIZES,
        "limits.processes": (),
    }.get(name, _TIMES)
    for unit, amount in units:
        if value >= amount and value % amount == 0:
            return f"{int(value // amount)}{unit}"
    return f"{value:g}s" if units is _TIMES else str(value)


def _value(settings: Settings, name: str) -> Any:
    if name.startswith("admin."):
        return _controls(settings)[name]
    if name == "sandbox.policy":
        return next(word for word, policy in POLICY_WORDS.items() if policy is settings.sandbox.policy)
    found: Any = settings
    for part in _ELSEWHERE.get(name, name).split("."):
        found = getattr(found, part)
    return found


def _controls(settings: Settings) -> dict[str, Any]:
    admin = settings.admin
    sandboxing = admin.sandboxing_controls
    closed = {Control.ALWAYS_DISABLED: "disabled", Control.USER_CONTROLLED: "user"}
    words = {SandboxingMode.UNSPECIFIED: "user", SandboxingMode.ENABLED: "enabled"}
    return {
        "admin.auto_run": "disabled" if admin.disabled else "allowed",
        "admin.run_everything": admin.enable_run_everything,
        "admin.sandboxing": words.get(sandboxing.sandboxing, "disabled"),
        "admin.networking": closed[sandboxing.sandbox_networking],
        "admin.git": closed[sandboxing.sandbox_git],
        "admin.browser": admin.browser_features,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Rule):
        return value.text
    if isinstance(value, Hook):
        return list(value.command)
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value
