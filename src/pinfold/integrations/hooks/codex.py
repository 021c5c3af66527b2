"""Codex.

Facts (codex-rs, hooks/src): PreToolUse takes a deny with a reason, or an allow with `updatedInput`, and
nothing else: an "ask", or an allow without a change, marks the hook as failed, and the call goes on. So the
run itself asks, and the hook answers nothing to a call that it does not deny. PermissionRequest
takes allow and deny without changes. Edits are `apply_patch`. Tools are named as Claude Code names them.
"""

from collections.abc import Mapping

from pinfold.integrations.hooks import claude
from pinfold.integrations.hooks.hook_call import HookCall, HookOutcome, HookReply, Opinion, Payload


def read(payload: Payload, environ: Mapping[str, str]) -> HookCall:
    return claude.read_as("codex", payload, environ, can_ask=payload.get("hook_event_name") != claude.PRE)


def reply(call: HookCall, outcome: HookOutcome) -> HookReply:
    if call.event == claude.PRE and outcome.opinion is not Opinion.DENY and outcome.command is None:
        return HookReply()
    return claude.reply(call, outcome)
