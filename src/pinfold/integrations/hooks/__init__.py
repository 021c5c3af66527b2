"""`pinfold hook AGENT`: an agent's hook, from the bytes it is given to the bytes it answers.

INVARIANT: every failure is a no that the agent understands. A payload that makes no sense, settings
that cannot be read and bugs of our own all end with exit status 2 and a reason, which every one of these
agents takes for a block. Other exit statuses, and no answer at all, would let the call pass.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from pinfold.integrations.hooks.hook_call import (
    HookCall,
    HookOutcome,
    HookReply,
    MalformedError,
    Opinion,
    blocked,
    decoded,
)
from pinfold.model.agent_variables import AgentVariables
from pinfold.model.errors import PinfoldError

if TYPE_CHECKING:
    from pinfold.integrations.hooks.judge_call import HeldConversations

AGENTS = {
    "claude-code": "claude",
    "cursor": "cursor",
    "codex": "codex",
    "gemini": "gemini",
    "vscode": "claude",
    "opencode": "claude",
    "pi": "claude",
    "droid": "claude",
    "auggie": "claude",
    "qwen": "claude",
}
"""Each agent that has hooks of ours, and the module that knows its words."""
SPELLINGS = {
    "claude": "claude-code",
    "cursor-agent": "cursor",
    "codex-cli": "codex",
    "gemini-cli": "gemini",
    "code": "vscode",
    "vs-code": "vscode",
    "copilot": "vscode",
    "copilot-cli": "vscode",
    "open-code": "opencode",
    "factory": "droid",
    "augment": "auggie",
    "qwen-code": "qwen",
}
"""Other names that people give to these agents. Copilot CLI and VS Code read the same hooks."""
STARTS = frozenset(["SessionStart", "sessionStart"])
ENDS = frozenset(["SessionEnd", "sessionEnd"])


def answer(
    agent: str, data: bytes, environ: Mapping[str, str], held: "HeldConversations | None" = None
) -> HookReply:
    """What the agent is told about what it sent. `held` are the conversations that the service holds."""
    environ = AgentVariables(environ)
    words = import_module(f"pinfold.integrations.hooks.{AGENTS[agent]}")
    try:
        call: HookCall = words.read(agent, decoded(data), environ)
    except MalformedError as error:
        return blocked(str(error))
    try:
        reply: HookReply = words.reply(call, _outcome(call, environ, held))
    except PinfoldError as error:
        if call.event in STARTS:
            return HookReply(stderr=f"pinfold: {error}\n", exit_code=1)
        denied = HookOutcome(Opinion.DENY, f"{error}; every call is denied until that is fixed")
        reply = words.reply(call, denied)
    return reply


def _outcome(call: HookCall, environ: Mapping[str, str], held: "HeldConversations | None") -> HookOutcome:
    if call.event in ENDS:
        if held and call.conversation:
            held.end(call.agent, call.conversation)
        return HookOutcome(Opinion.NONE)
    if not call.requests and not call.trouble and call.event not in STARTS:
        return HookOutcome(Opinion.NONE)
    if call.event in STARTS:
        from pinfold.integrations.hooks.judge_call import greet

        return greet(call, environ)
    from pinfold.integrations.hooks.judge_call import judge

    return judge(call, environ, held)
