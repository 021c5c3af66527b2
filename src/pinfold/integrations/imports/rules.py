"""What was found in an agent's settings, and what it comes to here."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from pinfold.shell.rule_text import shape


class Fit(StrEnum):
    """How well a rule of pinfold says it; the one that is not taken over is first."""

    NONE = "none"
    """There is no equivalent, or it would open too much."""
    WIDER = "wider"
    """It would let more through here than it did there: taken over only if asked for."""
    NARROWER = "narrower"
    """It lets less through here."""
    SAME = "same"
    NEEDLESS = "needless"
    """It holds here anyway."""


class ImportedRule(NamedTuple):
    source: str
    """The file."""
    text: str
    """The rule as the agent's file has it."""
    fit: Fit
    key: str = ""
    """The setting, such as `commands.deny`."""
    value: str | bool = ""
    """An entry of a list, or the value of a scalar."""
    why: str = ""


class ImportedRules:
    """Gathers findings of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.all: list[ImportedRule] = []

    def add(self, text: str, fit: Fit, key: str, value: str | bool, why: str = "") -> None:
        self.all.append(ImportedRule(self.source, text, fit, key, value, why))

    def none(self, text: str, why: str) -> None:
        self.all.append(ImportedRule(self.source, text, Fit.NONE, why=why))

    def needless(self, text: str, why: str) -> None:
        self.all.append(ImportedRule(self.source, text, Fit.NEEDLESS, why=why))


LISTS = {"allow": "commands.allow", "ask": "commands.ask", "deny": "commands.deny"}
ANY_MORE = "a rule here also holds for more words after these"
NO_PATTERNS = "a rule here is whole words, not a pattern"


def table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def command(found: ImportedRules, text: str, decision: str, prefix: str, *, exact: bool = False) -> None:
    """A rule about commands that begin with these words; `exact` where nothing may follow them."""
    try:
        shape(prefix)
    except ValueError as error:
        found.none(text, str(error))
        return
    if not exact:
        found.add(text, Fit.SAME, LISTS[decision], prefix)
    else:
        fit = Fit.WIDER if decision == "allow" else Fit.NARROWER
        found.add(text, fit, LISTS[decision], prefix, ANY_MORE)


def pattern(found: ImportedRules, text: str, decision: str, written: str) -> None:
    """A rule with a pattern in it. A restriction is kept as a question about the words before it."""
    head = []
    for word in written.split():
        if "*" in word:
            break
        head.append(word)
    if decision == "allow" or not head:
        found.none(text, NO_PATTERNS)
        return
    why = f"{NO_PATTERNS}, so every command that begins so is asked about"
    try:
        shape(" ".join(head))
    except ValueError as error:
        found.none(text, str(error))
        return
    found.add(text, Fit.NARROWER, "commands.ask", " ".join(head), why)


def policy(found: ImportedRules, key: str, said: object, *, read_only: str, usual: str) -> None:
    """Takes over the sandbox policy that the agent's own settings name."""
    if said == read_only:
        found.add(f"{key} {said}", Fit.SAME, "sandbox.policy", "read-only")
    elif said == usual:
        found.needless(f"{key} {said}", "it is the default")
    elif said is not None:
        found.none(f"{key} {said}", "an import never switches the sandbox off")


def hidden(found: ImportedRules, text: str, path: str) -> None:
    _path(found, text, "filesystem.hide", path)


def protected(found: ImportedRules, text: str, path: str) -> None:
    _path(found, text, "filesystem.protect", path)


def _path(found: ImportedRules, text: str, key: str, path: str) -> None:
    plain = trimmed(path)
    if not plain or plain.startswith("!") or plain in ("/", "~", "~/", ".", "*", "**"):
        found.none(text, "it is about everything, or takes something back")
        return
    found.add(text, Fit.SAME, key, plain)


def writable(found: ImportedRules, text: str, path: str, fit: Fit = Fit.SAME, why: str = "") -> None:
    plain = trimmed(path)
    if "*" in plain or plain in ("", "/", "~", "~/") or not plain.startswith(("/", "~/")):
        found.none(text, "a path that may be written is a plain one here, in full, and not everything")
        return
    found.add(text, fit, "filesystem.write", plain, why)


def trimmed(path: str) -> str:
    """Without the end that says "and everything below", which is meant here anyway."""
    for end in ("/**/*", "/**", "/*", "/"):
        if path.endswith(end) and len(path) > len(end):
            return path.removesuffix(end)
    return path.removeprefix("./")


def host(
    found: ImportedRules, text: str, decision: str, name: str, fit: Fit = Fit.SAME, why: str = ""
) -> None:
    from pinfold.policy.hosts import require_pattern

    try:
        require_pattern(name)
    except ValueError as error:
        found.none(text, str(error))
        return
    if decision == "allow" and name == "*":
        found.none(text, "it would open the whole network; that is `network.access`, and yours to set")
        return
    found.add(text, fit, f"network.{decision}", name, why)


def tool(found: ImportedRules, text: str, decision: str, server: str, name: str) -> None:
    """A rule about a tool of an MCP server."""
    if decision != "allow":
        found.none(text, "tools are asked about here unless they are listed; none can be denied for good")
    elif "*" in server.strip("*") or ("*" in name and name != "*") or (server, name) == ("*", "*"):
        found.none(text, "a listed tool is `server:tool`, `server:*` or `*:tool` here")
    else:
        found.add(text, Fit.SAME, "mcp.allow", f"{server}:{name}")
