"""Claude Code's settings.json: permission rules and its sandbox.

Facts (its permissions page): `Bash(ls *)` and `Bash(ls:*)` are a prefix of words, `Bash(ls)` is that very
command, `Bash(ls*)` is a prefix of text. Of path rules `Read` and `Edit` count: `//p` is absolute, `~/p`
the home, `/p` starts at the settings file's root, `p` at the working directory; they are patterns as in
.gitignore. Sandbox paths are plain ones.
"""

import re
from collections.abc import Callable, Mapping

from pinfold.integrations.imports import rules
from pinfold.integrations.imports.rules import Fit, ImportedRules, table, texts
from pinfold.integrations.install.agents import is_ours

REACH = "commands would reach it here too, not a tool alone"
RULE = re.compile(r"(\w[\w-]*)(?:\((.*)\))?", re.DOTALL)
FILES = ("settings.json",)


def read(found: ImportedRules, data: Mapping[str, object]) -> None:
    permissions, sandbox = table(data.get("permissions")), table(data.get("sandbox"))
    for decision in ("deny", "ask", "allow"):
        for text in texts(permissions.get(decision)):
            _rule(found, text, decision)
    for path in texts(permissions.get("additionalDirectories")):
        rules.writable(found, f"additionalDirectories {path}", path)
    mode = permissions.get("defaultMode")
    if mode not in (None, "default", "acceptEdits"):
        found.none(f"defaultMode {mode}", "the mode is the agent's own, and the hook goes by it")
    _sandbox(found, sandbox)


def _rule(found: ImportedRules, text: str, decision: str) -> None:
    match = RULE.fullmatch(text.strip())
    if match is None:
        found.none(text, "it is not a valid rule")
        return
    name, spec = match[1], match[2]
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        rules.tool(found, text, decision, server, tool or "*")
    elif name in ("Bash", "Read", "Edit", "WebFetch"):
        _READERS[name](found, text, decision, spec or "*")
    elif name in ("Write", "Glob", "MultiEdit", "NotebookEdit") and spec:
        found.none(text, "Claude Code itself looks at Read and Edit rules alone for paths")
    else:
        found.none(text, f"`{name}` is not judged by rules here")


def _bash(found: ImportedRules, text: str, decision: str, spec: str) -> None:
    spec = spec.strip()
    if is_ours(text):
        found.needless(text, "`pinfold install` wrote it, and it is about Pinfold's own lines")
        return
    if spec == "*":
        found.none(text, "it is about every command; that is `mode`, and yours to set")
        return
    base = spec[:-2] if spec.endswith((":*", " *")) else spec
    if "*" not in base:
        rules.command(found, text, decision, base, exact=base == spec)
    elif decision != "allow" and base.endswith("*") and "*" not in base[:-1]:
        rules.command(found, text, decision, base[:-1], exact=False)
        found.none(text, f"programs that merely begin with `{base[:-1]}` are not meant here")
    else:
        rules.pattern(found, text, decision, spec)


def _path(spec: str) -> str | None:
    if spec.startswith("//"):
        return spec[1:]
    return None if spec.startswith("/") else spec


def _read(found: ImportedRules, text: str, decision: str, spec: str) -> None:
    path = _path(spec)
    if decision == "allow":
        found.needless(text, "what is not hidden can be read")
    elif decision == "ask":
        found.none(text, "reading is not asked about here: a path is hidden or not")
    elif path is None:
        found.none(text, "the path is relative to the settings file; write the whole path")
    else:
        rules.hidden(found, text, path)


def _edit(found: ImportedRules, text: str, decision: str, spec: str) -> None:
    path = _path(spec)
    if path is None:
        found.none(text, "the path is relative to the settings file; write the whole path")
    elif decision == "allow":
        rules.writable(found, text, path, Fit.WIDER, "commands could write there too, not the tool alone")
    elif decision == "ask":
        found.none(text, "a write is asked about where it is out of place, not by a rule")
    else:
        rules.protected(found, text, path)


def _fetch(found: ImportedRules, text: str, decision: str, spec: str) -> None:
    kind, _, name = spec.partition(":")
    if kind != "domain" or not name or decision == "ask":
        found.none(text, "hosts are allowed or denied here, by name")
    elif decision == "allow":
        rules.host(found, text, "allow", name, Fit.WIDER, REACH)
    else:
        rules.host(found, text, "deny", name, Fit.NARROWER, REACH)


_READERS: dict[str, Callable[[ImportedRules, str, str, str], None]] = {
    "Bash": _bash,
    "Read": _read,
    "Edit": _edit,
    "WebFetch": _fetch,
}


def _sandbox(found: ImportedRules, sandbox: Mapping[str, object]) -> None:
    switches = {
        "autoAllowBashIfSandboxed": "sandbox.auto_allow",
        "allowUnsandboxedCommands": "sandbox.allow_unsandboxed",
        "enabled": "sandbox.enabled",
    }
    for name, key in switches.items():
        value = sandbox.get(name)
        if isinstance(value, bool):
            found.add(f"sandbox.{name} {str(value).lower()}", Fit.SAME, key, value)
    if sandbox.get("failIfUnavailable") is True:
        found.add("sandbox.failIfUnavailable true", Fit.SAME, "sandbox.if_unavailable", "refuse")
    for text in texts(sandbox.get("excludedCommands")):
        _excluded(found, text)
    files, network = table(sandbox.get("filesystem")), table(sandbox.get("network"))
    for path in texts(files.get("allowWrite")):
        rules.writable(found, f"allowWrite {path}", path)
    for path in texts(files.get("denyWrite")):
        rules.protected(found, f"denyWrite {path}", path)
    for path in texts(files.get("denyRead")):
        rules.hidden(found, f"denyRead {path}", path)
    for path in texts(files.get("allowRead")):
        found.none(f"allowRead {path}", "what is hidden is opened in `filesystem.read`, path by path")
    _network(found, network)
    _credentials(found, table(sandbox.get("credentials")))
    for name in ("ignoreViolations", "enableWeakerNestedSandbox", "allowNestedUserNamespaces"):
        if sandbox.get(name):
            found.none(f"sandbox.{name}", "it configures Claude Code's own sandbox")


def _excluded(found: ImportedRules, text: str) -> None:
    from pinfold.shell.rule_text import shape

    base = text[:-2] if text.endswith((" *", ":*")) else text
    try:
        shape(base)
    except ValueError as error:
        found.none(f"excludedCommands {text}", str(error))
        return
    fit = Fit.SAME if base != text else Fit.WIDER
    why = "" if base != text else rules.ANY_MORE
    found.add(f"excludedCommands {text}", fit, "sandbox.excluded_commands", base, why)


def _network(found: ImportedRules, network: Mapping[str, object]) -> None:
    for name in texts(network.get("allowedDomains")):
        rules.host(found, f"allowedDomains {name}", "allow", name)
    for name in texts(network.get("deniedDomains")):
        rules.host(found, f"deniedDomains {name}", "deny", name)
    for path in texts(network.get("allowUnixSockets")):
        found.add(f"allowUnixSockets {path}", Fit.SAME, "network.unix_sockets", path)
    if network.get("strictAllowlist") is True:
        found.add("strictAllowlist true", Fit.SAME, "network.access", "rules")
    for name in (
        "allowAllUnixSockets",
        "allowLocalBinding",
        "httpProxyPort",
        "socksProxyPort",
        "tlsTerminate",
    ):
        if network.get(name):
            found.none(f"network.{name}", "there is no such switch here")


def _credentials(found: ImportedRules, credentials: Mapping[str, object]) -> None:
    for kind, field, key in (("files", "path", "filesystem.hide"), ("envVars", "name", "environment.drop")):
        entries = credentials.get(kind)
        for entry in entries if isinstance(entries, list) else []:
            value, mode = table(entry).get(field), table(entry).get("mode")
            if not isinstance(value, str):
                continue
            if mode == "deny":
                found.add(f"credentials {value} deny", Fit.SAME, key, value)
            else:
                why = "it is taken away, not masked"
                found.add(f"credentials {value} {mode}", Fit.NARROWER, key, value, why)
