"""VS Code (its own agent; Copilot's and Claude's harnesses there go by theirs).

Facts (VS Code's hooks reference): the answers are Claude Code's, the tools' names and arguments are its
own, and matchers are not looked at, so that every tool comes here. An `updatedInput` that does not fit the
tool's schema is passed over, so what was sent is sent back with nothing but the line changed. Common fields
were camelCase at first.
"""

from collections.abc import Mapping

from pinfold.integrations.hooks import claude
from pinfold.integrations.hooks.hook_call import HookCall, HookOutcome, HookReply, Payload


def read(payload: Payload, environ: Mapping[str, str]) -> HookCall:
    return claude.read_as("vscode", payload, environ)


def reply(call: HookCall, outcome: HookOutcome) -> HookReply:
    return claude.reply(call, outcome)
