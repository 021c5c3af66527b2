"""What each agent's configuration has to say for our hooks to be asked, and where it says it. Pure, but for
paths.

Facts: Claude Code runs the text of `command` in a shell, also where it knows `args`, and editors
that load its settings know `command` alone. `onFailure` (Claude Code) and `failClosed` (Cursor) make a hook
that cannot be started or does not answer a no; the others have no such switch. Gemini CLI counts time in
milliseconds. Codex asks its person once whether to trust a hook. Claude Code and Cursor's command line have
a `/sandbox` of their own.
"""

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pinfold.integrations.hooks import start
from pinfold.isolated import isolated_python, packages_apart
from pinfold.model.escape_text import quoted
from pinfold.model.home import home_of

SECONDS = 600
"""As long as a person may take to answer, and as the agents allow anyway."""
CLAUDE_TOOLS = (
    "^(Bash|PowerShell|Shell|Monitor|Read|Edit|MultiEdit|Write|NotebookEdit|NotebookRead|Glob|Grep|LS|LSP"
    "|Artifact|SendUserFile|WebFetch|mcp__.*)$"
)
GEMINI_TOOLS = (
    "run_shell_command|write_file|replace|read_file|read_many_files|list_directory|glob|search_file_content"
    "|grep_search|web_fetch|mcp_.*"
)


class HookEntry(NamedTuple):
    """One element of a list in a file of JSON."""

    path: tuple[str, ...]
    value: Mapping[str, object]


class AgentSetup(NamedTuple):
    """What an agent is given."""

    file: str
    entries: tuple[HookEntry, ...]
    command: str
    """The file of the slash command."""
    name: str
    """What a person types for it."""
    members: Mapping[str, object] = {}
    """What a new file must have at its top besides the hooks."""
    notes: tuple[str, ...] = ()


def target_of(agent: str, environ: Mapping[str, str]) -> AgentSetup:
    home = home_of(environ)
    return _TARGETS[agent](home, environ)


def _claude(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    hook = _hook("claude-code")
    entries = (
        HookEntry(
            ("hooks", "PreToolUse"), {"matcher": CLAUDE_TOOLS, "hooks": [{**hook, "onFailure": "block"}]}
        ),
        HookEntry(("hooks", "SessionStart"), {"hooks": [hook]}),
    )
    return AgentSetup(
        os.path.join(place, "settings.json"),
        entries,
        os.path.join(place, "commands", "pinfold.md"),
        "/pinfold",
        notes=("a hook that fails blocks from Claude Code 2.1.295 on; before that it lets the call pass",),
    )


def _codex(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = environ.get("CODEX_HOME") or os.path.join(home, ".codex")
    hook = _hook("codex")
    entries = (
        HookEntry(("hooks", "PreToolUse"), {"matcher": "^(Bash|apply_patch|mcp__.*)$", "hooks": [hook]}),
        HookEntry(("hooks", "PermissionRequest"), {"hooks": [hook]}),
        HookEntry(("hooks", "SessionStart"), {"hooks": [hook]}),
    )
    return AgentSetup(
        os.path.join(place, "hooks.json"),
        entries,
        os.path.join(place, "prompts", "sandbox.md"),
        "/prompts:sandbox",
        notes=(
            "Codex asks you once to trust the hook: say yes, or no command runs in the sandbox",
            "a pen cannot be made inside Codex's own sandbox: start it with `-s danger-full-access`",
            "Codex has no switch that makes a failing hook a no",
        ),
    )


def _gemini(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = os.path.join(environ.get("GEMINI_CLI_HOME") or home, ".gemini")
    hook = {**_hook("gemini"), "name": "pinfold", "timeout": SECONDS * 1000}
    entries = (
        HookEntry(("hooks", "BeforeTool"), {"matcher": GEMINI_TOOLS, "hooks": [hook]}),
        HookEntry(("hooks", "SessionStart"), {"hooks": [hook]}),
    )
    return AgentSetup(
        os.path.join(place, "settings.json"),
        entries,
        os.path.join(place, "commands", "sandbox.toml"),
        "/sandbox",
        notes=("Gemini CLI has no switch that makes a failing hook a no",),
    )


def _cursor(home: str, _: Mapping[str, str]) -> AgentSetup:
    place = os.path.join(home, ".cursor")
    hook = {"command": hook_line("cursor"), "timeout": SECONDS, "failClosed": True}
    events = ("preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile")
    return AgentSetup(
        os.path.join(place, "hooks.json"),
        tuple(HookEntry(("hooks", event), hook) for event in events),
        os.path.join(place, "commands", "pinfold.md"),
        "/pinfold",
        members={"version": 1},
        notes=("cloud agents read the hooks of a project alone: there nothing of this holds",),
    )


def _vscode(home: str, environ: Mapping[str, str]) -> AgentSetup:
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    hook = _hook("vscode")
    return AgentSetup(
        os.path.join(home, ".copilot", "hooks", "pinfold.json"),
        (HookEntry(("hooks", "PreToolUse"), hook), HookEntry(("hooks", "SessionStart"), hook)),
        os.path.join(config, "Code", "User", "prompts", "sandbox.prompt.md"),
        "/sandbox",
        notes=("VS Code has no switch that makes a failing hook a no",),
    )


def _hook(agent: str) -> dict[str, object]:
    return {"type": "command", "command": hook_line(agent), "timeout": SECONDS}


_TARGETS = {
    "claude-code": _claude,
    "cursor": _cursor,
    "codex": _codex,
    "gemini": _gemini,
    "vscode": _vscode,
}


MARK = os.path.join("pinfold", "integrations", "hooks", "start.py")


def hook_words(agent: str) -> tuple[str, ...]:
    return isolated_python(os.path.abspath(start.__file__), *packages_apart(), agent)


def hook_line(agent: str) -> str:
    return " ".join(map(quoted, hook_words(agent)))


def is_ours(entry: object) -> bool:
    """Whether a part of a configuration starts our hook, wherever pinfold was when it was written."""
    return any(lines_of(entry))


def lines_of(entry: object) -> Iterator[str]:
    """The command lines in it that start our hook."""
    if isinstance(entry, Mapping):
        entry = list(entry.values())
    if isinstance(entry, list):
        for each in entry:
            yield from lines_of(each)
    elif isinstance(entry, str) and MARK in entry:
        yield entry
