"""A digest of the settings under which a person answered: when it changes, the answer no longer counts.

It covers everything in force: mode, sandbox, deny and ask rules, protections, hooks, the administrator's cap,
the user's policy. It leaves out what may change without a new question:
- where a value is written, and its reason: another line in a file changes nothing;
- `commands.allow` and `network.allow`: an answer of `rule` adds to them, and must not undo the others;
- how long a command may run, how much output is kept, and how long answers hold;
- which `.env` files exist: otherwise each new or deleted one would undo all answers.
"""

from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from pinfold.model.digest import digest
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import AnswerSettings, Settings

_WHERE = frozenset({"origin", "origins", "notices", "shape", "reason"})


def fingerprint(settings: Settings, policy: SandboxPolicy) -> str:
    """The digest of the settings in force and the user's own policy."""
    held = replace(
        settings,
        commands=replace(settings.commands, allow=()),
        network=replace(settings.network, allow=()),
        limits=replace(settings.limits, timeout=None, output=None),
        approvals=AnswerSettings(),
        violations_ignore={},
    )
    return digest(_without_places(to_builtins(held)), policy_fingerprint(policy))


def policy_fingerprint(policy: SandboxPolicy) -> str:
    """The digest of what a command may access."""
    network = replace(policy.network, allow=None)
    limits = replace(policy.limits, timeout=None, output=None)
    return digest(replace(policy, network=network, limits=limits, env_files=()))


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(each) for key, each in value.items() if key not in _WHERE}
    return [_without_places(each) for each in value] if isinstance(value, list | tuple) else value
