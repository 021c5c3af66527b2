"""Cursor's permissions.json, cli-config.json and sandbox.json.

Facts (its reference pages): an entry of the terminal's list is a prefix of words, `cmd:glob` one with a
pattern for the arguments; `Shell(ls)` is `ls` with any arguments; in sandbox.json `*.x` means x itself too,
in `WebFetch` it does not.
"""

import re
from collections.abc import Mapping

from pinfold.integrations.imports import rules
from pinfold.integrations.imports.claude import REACH
from pinfold.integrations.imports.rules import Fit, ImportedRules, table, texts

RULE = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
FILES = ("permissions.json", "cli-config.json", "sandbox.json")


def read(found: ImportedRules, data: Mapping[str, object]) -> None:
    for text in texts(data.get("terminalAllowlist")):
        _shell(found, text, "allow", text)
    for text in texts(data.get("mcpAllowlist")):
        server, _, tool = text.rpartition(":")
        rules.tool(found, text, "allow", server or "*", tool)
    permissions = table(data.get("permissions"))
    for decision in ("deny", "allow"):
        for text in texts(permissions.get(decision)):
            _rule(found, text, decision)
    if data.get("approvalMode") in ("unrestricted", "auto-review"):
        found.none(f"approvalMode {data['approvalMode']}", "that is `mode` here, and yours to set")
    if data.get("autoRun"):
        found.none("autoRun", "instructions to a model are no rules")
    _sandbox(found, data)


def _shell(found: ImportedRules, text: str, decision: str, spec: str) -> None:
    program, colon, arguments = spec.partition(":")
    if colon and arguments != "*":
        rules.pattern(found, text, decision, f"{program} {arguments}" if "*" in arguments else "*")
    else:
        rules.command(found, text, decision, program)


def _rule(found: ImportedRules, text: str, decision: str) -> None:
    match = RULE.fullmatch(text.strip())
    name, spec = (match[1], match[2]) if match else ("", "")
    if name == "Shell":
        _shell(found, text, decision, spec)
    elif name == "Read" and decision == "allow":
        found.needless(text, "what is not hidden can be read")
    elif name == "Read":
        rules.hidden(found, text, spec)
    elif name == "Write" and decision == "deny":
        rules.protected(found, text, spec)
    elif name == "Write":
        rules.writable(found, text, spec, Fit.WIDER, "commands could write there too, not the tool alone")
    elif name == "WebFetch":
        rules.host(found, text, decision, spec, Fit.WIDER if decision == "allow" else Fit.NARROWER, REACH)
    elif name == "Mcp":
        server, _, tool = spec.partition(":")
        rules.tool(found, text, decision, server, tool or "*")
    else:
        found.none(text, "it is no rule that is known here")


def _sandbox(found: ImportedRules, data: Mapping[str, object]) -> None:
    kind = data.get("type")
    rules.policy(found, "type", kind, read_only="workspace_readonly", usual="workspace_readwrite")
    for path in texts(data.get("additionalReadwritePaths")):
        rules.writable(found, f"additionalReadwritePaths {path}", path)
    for name in ("additionalReadonlyPaths", "additionalReadPaths"):
        for path in texts(data.get(name)):
            found.needless(f"{name} {path}", "what is not hidden can be read")
    if data.get("disableTmpWrite") is True:
        found.add("disableTmpWrite true", Fit.SAME, "filesystem.tmp", "none")
    if data.get("readBoundary"):
        found.none(
            f"readBoundary {data['readBoundary']}", "what is to stay unread is named in `filesystem.hide`"
        )
    network = table(data.get("networkPolicy"))
    if network.get("default") == "deny":
        found.add("networkPolicy.default deny", Fit.SAME, "network.access", "rules")
    elif network.get("default") == "allow":
        found.add("networkPolicy.default allow", Fit.SAME, "network.access", "all")
    for decision in ("allow", "deny"):
        for name in texts(network.get(decision)):
            for each in (name, name[2:]) if name.startswith("*.") else (name,):
                rules.host(found, f"networkPolicy.{decision} {name}", decision, each)
