"""Codex's config.toml and its execpolicy rules.

Facts (codex-rs): a `prefix_rule` is a prefix of words, each a word or a list of them to choose from;
`prompt` is a question and `forbidden` a no. Rules are written in Starlark, of which the calls we look for
are Python as well.
"""

import ast
from collections.abc import Iterator, Mapping
from itertools import islice, product

from pinfold.integrations.imports import rules
from pinfold.integrations.imports.rules import Fit, ImportedRules, table, texts
from pinfold.model.escape_text import quoted

FILES = ("config.toml", "rules/default.rules")
DECISIONS = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
MOST = 200
"""Rules that one rule with choices in it may become."""


def read(found: ImportedRules, data: Mapping[str, object]) -> None:
    mode = data.get("sandbox_mode")
    rules.policy(found, "sandbox_mode", mode, read_only="read-only", usual="workspace-write")
    if data.get("approval_policy") is not None:
        found.none("approval_policy", "when the agent asks is its own matter; when pinfold does, `mode` says")
    _workspace(found, table(data.get("sandbox_workspace_write")))
    _environment(found, table(data.get("shell_environment_policy")))
    name = data.get("default_permissions")
    if isinstance(name, str):
        _profile(found, table(table(data.get("permissions")).get(name)), name)


def _workspace(found: ImportedRules, given: Mapping[str, object]) -> None:
    for path in texts(given.get("writable_roots")):
        rules.writable(found, f"writable_roots {path}", path)
    access = given.get("network_access")
    if isinstance(access, bool):
        word = "all" if access else "none"
        found.add(f"network_access {str(access).lower()}", Fit.SAME, "network.access", word)
    if given.get("exclude_slash_tmp") is True and given.get("exclude_tmpdir_env_var") is True:
        found.add("exclude_slash_tmp, exclude_tmpdir_env_var", Fit.SAME, "filesystem.tmp", "none")


def _environment(found: ImportedRules, given: Mapping[str, object]) -> None:
    for name in texts(given.get("exclude")):
        if name.replace("*", "").replace("?", "").replace("_", "").isalnum():
            found.add(f"shell_environment_policy.exclude {name}", Fit.SAME, "environment.drop", name)
        else:
            found.none(f"shell_environment_policy.exclude {name}", "it is no name of a variable")
    if given.get("set"):
        found.none("shell_environment_policy.set", "values may be secrets; write them in `environment.set`")
    if given.get("inherit") not in (None, "all"):
        found.none("shell_environment_policy.inherit", "secrets are dropped here by their names")


def _profile(found: ImportedRules, profile: Mapping[str, object], name: str) -> None:
    for path, access in table(profile.get("filesystem")).items():
        text = f"permissions.{name}.filesystem {path} {access}"
        if path.startswith(":"):
            found.none(text, "special places are the policy's here")
        elif access == "deny":
            rules.hidden(found, text, path)
        elif access == "write":
            rules.writable(found, text, path)
        else:
            found.needless(text, "what is not hidden can be read")
    network = table(profile.get("network"))
    for host, decision in table(network.get("domains")).items():
        if decision in ("allow", "deny"):
            rules.host(found, f"permissions.{name}.network {host} {decision}", str(decision), host)


def read_rules(found: ImportedRules, text: str) -> None:
    """The calls of `prefix_rule` in a file of rules."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        found.none("the whole file", "it cannot be read")
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "prefix_rule":
            _rule(found, node)


def _rule(found: ImportedRules, call: ast.Call) -> None:
    text = ast.unparse(call)[:120]
    try:
        given = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        prefixes = [*islice(_spelled_out(given["pattern"]), MOST + 1)]
        decision = DECISIONS[given.get("decision", "allow")]
    except (ValueError, KeyError, TypeError):
        found.none(text, "it is not written out")
        return
    if len(prefixes) > MOST:
        found.none(text, "it would become too many rules")
        return
    for words in prefixes:
        rules.command(found, text, decision, " ".join(map(quoted, words)))


def _spelled_out(pattern: object) -> Iterator[tuple[str, ...]]:
    if not isinstance(pattern, list) or not pattern:
        raise ValueError(pattern)
    choices = [each if isinstance(each, list) else [each] for each in pattern]
    if not all(isinstance(word, str) for each in choices for word in each):
        raise ValueError(pattern)
    return product(*choices)
