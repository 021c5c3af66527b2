"""What each agent's configuration has to say for our hooks to be asked, and where it says it. Pure, but for
paths.

Facts:
- Claude Code runs the text of `command` in a shell, also where it knows `args`, and editors that load
  its settings know `command` alone. Codex runs it in the user's shell, which may be fish.
- Every agent takes exit status 2 with a text on standard error for a no. Most let a call pass where a hook
  cannot be started, or ends otherwise. So each hook about a tool is run by a `/bin/sh` that turns all of that
  into 2 (`GUARD`).
- `onFailure` (Claude Code) and `failClosed` (Cursor) make a hook that is late, or says what cannot be read, a
  no as well; the others have no such switch.
- Gemini CLI, Qwen Code and Auggie count time in milliseconds. Codex asks its person once whether to trust a
  hook. Claude Code, Cursor's command line and Copilot CLI have a `/sandbox` of their own.
- opencode and pi load plugins: files of JavaScript in a directory. Ours asks the hook itself, and takes all
  that is no answer for a no.
- Droid has events at the top of its file of hooks, and reads those in its settings only where there is no
  such file.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pinfold.integrations.hooks import start
from pinfold.integrations.hooks.rewrite import client_program, has_launcher, own_program, plan_rule
from pinfold.integrations.install.jsonc import parse
from pinfold.isolated import isolated_python, packages_apart
from pinfold.model.errors import PinfoldError
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
DROID_TOOLS = "^(Execute|Create|Edit|MultiEdit|ApplyPatch|Read|LS|Grep|Glob|FetchUrl|mcp__.*)$"
AUGGIE_TOOLS = (
    "^(launch-process|save-file|str-replace-editor|remove-files|apply_patch|view|grep-search|web-fetch"
    "|open-browser)$"
)
QWEN_TOOLS = (
    "^(run_shell_command|monitor|write_file|edit|notebook_edit|read_file|read_many_files|list_directory|glob"
    "|grep_search|web_fetch|lsp|mcp__.*)$"
)


RULES = ("permissions", "allow")
"""Where Claude Code keeps rules that allow a call."""


class HookEntry(NamedTuple):
    """One element of a list in a file of JSON."""

    path: tuple[str, ...]
    value: Mapping[str, object] | str
    """A hook, or a rule of the agent's own."""


class SlashCommand(NamedTuple):
    file: str
    name: str
    """What a person types for it."""


class AgentSetup(NamedTuple):
    """What an agent is given."""

    file: str
    entries: tuple[HookEntry, ...]
    commands: tuple[SlashCommand, ...] = ()
    text: str = ""
    """The whole file, where it is a plugin."""
    rules: Mapping[str, str] = {}
    """Files of rules, each with its text."""
    members: Mapping[str, object] = {}
    """What a new file must have at its top besides the hooks."""
    notes: tuple[str, ...] = ()


def target_of(agent: str, environ: Mapping[str, str]) -> AgentSetup:
    home = home_of(environ)
    return _TARGETS[agent](home, environ)


MANAGED = {
    "claude-code": "/etc/claude-code/managed-settings.json",
    "cursor": "/etc/cursor/hooks.json",
    "codex": "/etc/codex/hooks.json",
    "gemini": "/etc/gemini-cli/settings.json",
}
"""The administrator's files. Agents trust the hooks in them, and no setting of a user takes them out."""


REQUIREMENTS = "/etc/codex/requirements.toml"


def out_of_reach(agent: str) -> str:
    """What of this hook other users could not run or read; empty if they can reach all of it."""
    words = (word for word in hook_words(agent) if word.startswith("/"))
    for path in (place for word in words for place in (word, os.path.realpath(word))):
        while path != "/":
            mode = os.stat(path).st_mode
            if not mode & (stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH):
                return path
            path = os.path.dirname(path)
    return ""


def managed_target_of(agent: str) -> AgentSetup:
    """What an agent is given for all users of a machine; they have no slash command of it."""
    if agent not in MANAGED:
        raise PinfoldError(f"{agent} has no place for an administrator's hooks; install it for each user")
    usual = _TARGETS[agent]("/", {})
    return usual._replace(file=MANAGED[agent], commands=(), notes=())


def _claude(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    hook = _hook("claude-code")
    entries = (
        HookEntry(
            ("hooks", "PreToolUse"), {"matcher": CLAUDE_TOOLS, "hooks": [{**hook, "onFailure": "block"}]}
        ),
        HookEntry(("hooks", "SessionStart"), {"hooks": [_first_hook("claude-code")]}),
        HookEntry(("hooks", "SessionEnd"), {"hooks": [_first_hook("claude-code")]}),
        *((HookEntry(RULES, plan_rule("claude-code")),) if has_launcher() else ()),
    )
    return AgentSetup(
        os.path.join(place, "settings.json"),
        entries,
        _commands(os.path.join(place, "commands"), names=("pinfold",)),
        notes=("a hook that is late blocks from Claude Code 2.1.295 on; before that it lets the call pass",),
    )


def _codex(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = environ.get("CODEX_HOME") or os.path.join(home, ".codex")
    hook = _hook("codex")
    entries = (
        HookEntry(("hooks", "PreToolUse"), {"matcher": "^(Bash|apply_patch|mcp__.*)$", "hooks": [hook]}),
        HookEntry(("hooks", "PermissionRequest"), {"hooks": [hook]}),
        HookEntry(("hooks", "SessionStart"), {"hooks": [_first_hook("codex")]}),
        HookEntry(("hooks", "SessionEnd"), {"hooks": [_first_hook("codex")]}),
    )
    return AgentSetup(
        os.path.join(place, "hooks.json"),
        entries,
        _commands(os.path.join(place, "prompts"), typed="/prompts:"),
        notes=(
            "Codex asks you once to trust the hooks: say yes, or nothing runs in the sandbox",
            "Pinfold's sandbox does not start inside Codex's: start it with `codex -s danger-full-access`",
            "Codex has no switch that makes a late hook a no",
        ),
    )


GEMINI_RULE = """\
# (pinfold) Lines that run in its sandbox need no yes here. Its hook asks for what they want beyond that.
[[rule]]
toolName = "run_shell_command"
commandPrefix = {}
decision = "allow"
priority = 100
modes = ["default", "autoEdit", "yolo"]
"""
"""Facts (Gemini CLI 0.61): outside of its yolo mode it asks about each line, also if a hook allows it; the
ask of a hook counts for more than a rule. Its plan mode is left as it is: hooks do not learn of it."""


def _starts(agent: str) -> list[str]:
    """How the lines begin that our hook makes of an agent's: in its conversation, and without the service."""
    programs = (client_program(keeps_directory=False), (*own_program(), "run"))
    return [" ".join(map(quoted, (*words, "--asked-by", agent))) for words in programs]


def _gemini(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = os.path.join(environ.get("GEMINI_CLI_HOME") or home, ".gemini")
    more = {"name": "pinfold", "timeout": SECONDS * 1000}
    hook, first = {**_hook("gemini"), **more}, {**_first_hook("gemini"), **more}
    entries = (
        HookEntry(("hooks", "BeforeTool"), {"matcher": GEMINI_TOOLS, "hooks": [hook]}),
        HookEntry(("hooks", "SessionStart"), {"hooks": [first]}),
        HookEntry(("hooks", "SessionEnd"), {"hooks": [first]}),
    )
    return AgentSetup(
        os.path.join(place, "settings.json"),
        entries,
        _commands(os.path.join(place, "commands"), ".toml"),
        rules={
            os.path.join(place, "policies", "pinfold.toml"): GEMINI_RULE.format(json.dumps(_starts("gemini")))
        },
        notes=("Gemini CLI has no switch that makes a late hook a no",),
    )


def _cursor(home: str, _: Mapping[str, str]) -> AgentSetup:
    place = os.path.join(home, ".cursor")
    hook = {"command": hook_line("cursor"), "timeout": SECONDS, "failClosed": True}
    events = ("preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile")
    return AgentSetup(
        os.path.join(place, "hooks.json"),
        (
            *(HookEntry(("hooks", event), hook) for event in events),
            HookEntry(("hooks", "sessionStart"), {"command": first_line("cursor"), "timeout": SECONDS}),
        ),
        _commands(os.path.join(place, "commands"), names=("pinfold",)),
        members={"version": 1},
        notes=("cloud agents load only a project's hooks, so Pinfold does not protect them",),
    )


def _vscode(home: str, environ: Mapping[str, str]) -> AgentSetup:
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    hook = _hook("vscode")
    return AgentSetup(
        os.path.join(home, ".copilot", "hooks", "pinfold.json"),
        (
            HookEntry(("hooks", "PreToolUse"), hook),
            HookEntry(("hooks", "SessionStart"), _first_hook("vscode")),
        ),
        _commands(os.path.join(config, "Code", "User", "prompts"), ".prompt.md"),
        notes=(
            "Copilot CLI reads these hooks too",
            "VS Code and Copilot CLI have no switch that makes a late hook a no",
        ),
    )


def _opencode(home: str, environ: Mapping[str, str]) -> AgentSetup:
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    place = os.path.join(config, "opencode")
    return AgentSetup(
        os.path.join(place, "plugins", "pinfold.js"),
        (),
        _commands(os.path.join(place, "commands")),
        text=_plugin("opencode"),
    )


def _pi(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = environ.get("PI_CODING_AGENT_DIR") or os.path.join(home, ".pi", "agent")
    return AgentSetup(
        os.path.join(place, "extensions", "pinfold.js"),
        (),
        _commands(os.path.join(place, "prompts")),
        text=_plugin("pi"),
    )


def _droid(home: str, environ: Mapping[str, str]) -> AgentSetup:
    place = os.path.join(environ.get("FACTORY_HOME_OVERRIDE") or home, ".factory")
    first = {"hooks": [_first_hook("droid")]}
    entries = (
        HookEntry(("PreToolUse",), {"matcher": DROID_TOOLS, "hooks": [_hook("droid")]}),
        HookEntry(("SessionStart",), first),
        HookEntry(("SessionEnd",), first),
    )
    return AgentSetup(
        os.path.join(place, "hooks.json"),
        entries,
        _commands(os.path.join(place, "commands")),
        notes=("Droid has no switch that makes a late hook a no",),
    )


def _auggie(home: str, _: Mapping[str, str]) -> AgentSetup:
    return _in_settings(
        os.path.join(home, ".augment"),
        "auggie",
        AUGGIE_TOOLS,
        "Auggie runs hooks only where its server lets it: type /hooks there to see whether it does",
        "Auggie has no switch that makes a late hook a no",
    )


def _qwen(home: str, environ: Mapping[str, str]) -> AgentSetup:
    return _in_settings(
        environ.get("QWEN_HOME") or os.path.join(home, ".qwen"),
        "qwen",
        QWEN_TOOLS,
        "Qwen Code lets no hook change a command: commands are judged, and none runs in the sandbox",
        "Qwen Code has no switch that makes a late hook a no",
    )


def _in_settings(place: str, agent: str, tools: str, *notes: str) -> AgentSetup:
    """For an agent that keeps hooks of Claude Code's shape in its settings, with times in milliseconds."""
    time = {"timeout": SECONDS * 1000}
    first = {"hooks": [_first_hook(agent) | time]}
    entries = (
        HookEntry(("hooks", "PreToolUse"), {"matcher": tools, "hooks": [_hook(agent) | time]}),
        HookEntry(("hooks", "SessionStart"), first),
        HookEntry(("hooks", "SessionEnd"), first),
    )
    return AgentSetup(
        os.path.join(place, "settings.json"), entries, _commands(os.path.join(place, "commands")), notes=notes
    )


def _commands(
    directory: str, ending: str = ".md", names: Sequence[str] = ("pinfold", "sandbox"), typed: str = "/"
) -> tuple[SlashCommand, ...]:
    """`/pinfold`, and `/sandbox` where the agent has none of its own."""
    return tuple(SlashCommand(os.path.join(directory, name + ending), typed + name) for name in names)


def _plugin(agent: str) -> str:
    """The text of an agent's plugin: it starts our hook by these words."""
    parts = []
    for name in ("ask_hook", agent):
        with open(os.path.join(os.path.dirname(__file__), f"{name}.js"), encoding="utf-8") as file:
            parts.append(file.read())
    words = json.dumps(hook_words(agent), ensure_ascii=False)
    return "".join(parts).replace("const HOOK = []", f"const HOOK = {words}", 1)


def _hook(agent: str) -> dict[str, object]:
    return {"type": "command", "command": hook_line(agent), "timeout": SECONDS}


def _first_hook(agent: str) -> dict[str, object]:
    """What is asked when a conversation begins: there is no call to say no to."""
    return {**_hook(agent), "command": first_line(agent)}


_TARGETS = {
    "claude-code": _claude,
    "cursor": _cursor,
    "codex": _codex,
    "gemini": _gemini,
    "vscode": _vscode,
    "opencode": _opencode,
    "pi": _pi,
    "droid": _droid,
    "auggie": _auggie,
    "qwen": _qwen,
}
PROGRAMS = {
    "claude-code": ("claude",),
    "cursor": ("cursor", "cursor-agent"),
    "codex": ("codex",),
    "gemini": ("gemini",),
    "vscode": ("code", "copilot"),
    "opencode": ("opencode",),
    "pi": ("pi",),
    "droid": ("droid",),
    "auggie": ("auggie",),
    "qwen": ("qwen",),
}
"""What each agent is started by."""


RULE_END = plan_rule("claude-code").partition(" run ")[2]
MARK = os.path.join("pinfold", "integrations", "hooks", "start.py")


def hook_words(agent: str) -> tuple[str, ...]:
    return isolated_python(os.path.abspath(start.__file__), *packages_apart(), agent)


GUARD = (
    '"$@" || { [ $? -eq 2 ] || echo "pinfold: the hook failed, which counts as no; run: pinfold doctor" >&2; '
    "exit 2; }"
)
"""For `/bin/sh -c`: runs its arguments, and ends with 2 wherever they do not end with 0."""


def hook_line(agent: str) -> str:
    return " ".join(map(quoted, ("/bin/sh", "-c", GUARD, "pinfold", *hook_words(agent))))


def first_line(agent: str) -> str:
    return " ".join(map(quoted, hook_words(agent)))


def is_ours(entry: object) -> bool:
    """Whether a part of a configuration starts our hook, or allows its lines, wherever pinfold was then."""
    is_rule = isinstance(entry, str) and entry.startswith("Bash(") and entry.endswith(RULE_END)
    return is_rule or any(lines_of(entry))


def lines_in(text: str, file: str) -> Iterator[str]:
    """The command lines in a file that start our hook."""
    if MARK not in text:
        return
    if file.endswith(".json"):
        yield from lines_of(parse(text, file).value)
    elif found := re.search(r"^const HOOK = (\[.*\])$", text, re.MULTILINE):
        try:
            yield " ".join(quoted(str(word)) for word in json.loads(found[1]))
        except ValueError:
            yield found[1]


def lines_of(entry: object) -> Iterator[str]:
    """The command lines in it that start our hook."""
    if isinstance(entry, Mapping):
        entry = list(entry.values())
    if isinstance(entry, list):
        for each in entry:
            yield from lines_of(each)
    elif isinstance(entry, str) and MARK in entry:
        yield entry
