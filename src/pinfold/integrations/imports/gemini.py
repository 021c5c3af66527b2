"""Gemini CLI's settings.json and its policies.

Facts (its configuration and policy-engine pages): `run_shell_command(git)` is a prefix; a policy's
`commandPrefix` is one or many, its `commandRegex` a pattern; `ask_user` is a question. A server with
`trust` is never asked about.
"""

import re
from collections.abc import Mapping

from pinfold.integrations.imports import rules
from pinfold.integrations.imports.rules import Fit, ImportedRules, table, texts

FILES = ("settings.json", "policies/*.toml")
SHELL = re.compile(r"(?:run_shell_command|ShellTool)(?:\((.*)\))?", re.DOTALL)
DECISIONS = {"allow": "allow", "ask_user": "ask", "deny": "deny"}


def read(found: ImportedRules, data: Mapping[str, object]) -> None:
    tools = table(data.get("tools"))
    for text in (*texts(tools.get("allowed")), *texts(data.get("allowedTools"))):
        _tool(found, text, "allow")
    for text in (*texts(tools.get("exclude")), *texts(data.get("excludeTools"))):
        _tool(found, text, "deny")
    for name in ("core", "coreTools"):
        if tools.get(name) or data.get(name):
            found.none(f"tools.{name}", "which tools an agent has is its own matter")
    if tools.get("sandbox"):
        found.none("tools.sandbox", "it configures Gemini CLI's own sandbox")
    for server, given in table(data.get("mcpServers")).items():
        if table(given).get("trust") is True:
            rules.tool(found, f"mcpServers.{server}.trust true", "allow", server, "*")
    entries = data.get("rule")
    for rule in entries if isinstance(entries, list) else []:
        _policy(found, table(rule))


def _tool(found: ImportedRules, text: str, decision: str) -> None:
    match = SHELL.fullmatch(text.strip())
    if match is None:
        found.none(text, "tools of the agent's own are not judged by rules here")
    elif match[1] is None:
        found.none(text, "it is about every command; that is `mode`, and yours to set")
    else:
        rules.command(found, text, decision, match[1].removesuffix("*").strip())


def _policy(found: ImportedRules, rule: Mapping[str, object]) -> None:
    text = ", ".join(f"{key}={value}" for key, value in rule.items())[:120]
    decision = DECISIONS.get(str(rule.get("decision")))
    names = rule.get("toolName")
    prefixes = rule.get("commandPrefix")
    if decision is None:
        found.none(text, "it decides nothing that is known here")
    elif rule.get("modes") or rule.get("subagent") or rule.get("argsPattern") or rule.get("toolAnnotations"):
        found.none(text, "a rule here holds for every mode, agent and pattern of arguments")
    elif rule.get("mcpName") and isinstance(names, str | None):
        rules.tool(found, text, decision, str(rule["mcpName"]), names or "*")
    elif names != "run_shell_command":
        found.none(text, "tools of the agent's own are not judged by rules here")
    elif rule.get("commandRegex"):
        found.none(text, rules.NO_PATTERNS)
    elif not prefixes:
        found.none(text, "it is about every command; that is `mode`, and yours to set")
    else:
        for prefix in [prefixes] if isinstance(prefixes, str) else texts(prefixes):
            if decision == "allow" and rule.get("allowRedirection") is not True:
                found.add(
                    text, Fit.WIDER, "commands.allow", prefix, "a redirection is not asked about in itself"
                )
            else:
                rules.command(found, text, decision, prefix)
