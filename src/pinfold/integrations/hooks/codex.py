"""Codex.

Facts (codex-rs, hooks/src): PreToolUse takes a deny with a reason, or an allow with `updatedInput`, and
nothing else: an "ask", or an allow without a change, marks the hook as failed, and the call goes on. So the
run itself asks, and the hook answers nothing to a call that it does not deny. PermissionRequest
takes allow and deny without changes. Edits are `apply_patch`. Tools are named as Claude Code names them.

A shell line that is a patch (`shell_patch`) is judged like the tool, and left to Codex: its `apply_patch` is
no program that a sandbox could run.
"""

import os
from collections.abc import Mapping

from msgspec.structs import replace

from pinfold.integrations.hooks import claude
from pinfold.integrations.hooks.hook_call import HookCall, HookOutcome, HookReply, Opinion, Payload
from pinfold.integrations.hooks.tools import requests_of
from pinfold.model.request import Request, RunCommand


def read(agent: str, payload: Payload, environ: Mapping[str, str]) -> HookCall:
    call = claude.read(agent, payload, environ)
    return replace(call, requests=with_shell_patch(call.requests, call.cwd))


def with_shell_patch(requests: tuple[Request, ...], cwd: str) -> tuple[Request, ...]:
    """What a call comes to, where a shell line that is a patch is one."""
    match requests:
        case (RunCommand(command, cwd=where),) if "patch" in command:
            # Imported here: few lines are patches.
            from pinfold.integrations.hooks.shell_patch import shell_patch

            if found := shell_patch(command):
                start = os.path.join(where or cwd, found.directory)
                return requests_of("apply_patch", {"patch": found.patch}, start)
    return requests


def reply(call: HookCall, outcome: HookOutcome) -> HookReply:
    is_unchanged = claude.input_of(call, outcome) is None
    if call.event == claude.PRE and outcome.opinion is not Opinion.DENY and is_unchanged:
        return HookReply()
    return claude.reply(call, outcome)
