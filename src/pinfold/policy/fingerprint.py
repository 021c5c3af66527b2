"""What a person's answer stood on, in a few characters: when it changes, the answer holds no more.

It is of everything in force: mode, fence, deny and ask rules, protections, hooks, the administrator's cap,
the user's policy. Left out is what can change without a person wanting to be asked anew:
- where a value is written, and what was said about it: another line in a file changes nothing;
- `commands.allow` and `network.allow`: an answer of `rule` adds to them, and must not undo the others;
- how long a command may take, how much output is kept, and how long answers hold;
- which `.env` files there are: each that comes or goes would undo all answers.
"""

from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from pinfold.model.digest import digest
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import AnswerSettings, Settings

_WHERE = frozenset({"origin", "origins", "notices", "shape", "reason"})


def fingerprint(settings: Settings, policy: SandboxPolicy) -> str:
    """Of the settings in force and the user's own policy."""
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
    """Of what a command may touch."""
    network = replace(policy.network, allow=None)
    limits = replace(policy.limits, timeout=None, output=None)
    return digest(replace(policy, network=network, limits=limits, env_files=()))


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(each) for key, each in value.items() if key not in _WHERE}
    return [_without_places(each) for each in value] if isinstance(value, list | tuple) else value
