"""The text for a model: what its sandbox allows, and what each tool does. Pure: a policy becomes sentences.

Every sentence is true of this policy and these settings: where no bypass is open, none is mentioned. Other
products tell a model to judge by error texts and to retry without the sandbox. This text tells it to ask:
pinfold asks the person while the call waits, or the model calls `request_permission`.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from pinfold.model.escape_text import quoted, visible
from pinfold.model.partly_hidden import partly_hidden
from pinfold.model.policy import TEMPORARY, PolicyType, SandboxPolicy
from pinfold.model.settings import NetworkAccess, Settings
from pinfold.policy.network_scope import lent_ports

MOST = 12
"""Entries of a list that the text names; the policy has them all."""
REQUEST = "`request_permission`"
BYPASS = "`dangerouslyDisableSandbox`"


class AgentInterface(Enum):
    """How the model's commands reach the sandbox; the text differs by what each way can do."""

    SESSION = "session"
    """One session for all commands, with a tool to ask the person."""
    HOOK = "hook"
    """The agent's own shell: a hook runs each line in the conversation's session."""
    LINE = "line"
    """The agent's own shell, where each line is a session of its own: there is no service."""


class PromptPoint(Enum):
    """What a sentence of the text is about."""

    FILES = "what may be written"
    NAMES = "names that nobody may make"
    PROTECTED = "what may not be changed"
    SHOWN = "what may be read although it is usually hidden"
    HIDDEN = "secrets"
    OWN_DIRECTORY = "the agent's own directory"
    IGNORED = "ignore files"
    GIT = "git"
    NETWORK = "hosts"
    LENT = "ports of this machine"
    SOCKETS = "unix sockets"
    PUBLISHED = "ports of commands"
    TEMPORARY = "temporary files"
    SCRATCH = "temporary files of the agent's own tools"
    ENVIRONMENT = "variables"
    LIMITS = "limits"
    LINES = "what a line leaves for the next"
    EVIDENCE = "how denials show"
    CAUSES = "other causes of failures"
    EXPECTED = "violations that are not listed"
    REMEDY = "what to do when something is blocked"
    SENSITIVE = "what is not to be asked for"
    CHANGES = "how the person changes the restrictions"
    EXCLUDED = "commands that run outside"
    CLOSED = "no command runs outside"
    BYPASS = "when to ask to run outside"
    EXAMPLE = "the usual call"
    EXAMPLE_BYPASS = "a call that asks to run outside"
    MCP_CLI = "mcp-cli"


P = PromptPoint
Points = Iterator[tuple[PromptPoint, str]]


def summarize(
    policy: SandboxPolicy,
    settings: Settings,
    roots: Sequence[str],
    interface: AgentInterface = AgentInterface.SESSION,
    scratch: str = "",
) -> str:
    """The text for a system prompt; empty where the sandbox is off. `scratch` is what commands have as /tmp,
    if the agent's own tools can reach it."""
    found = points(policy, settings, roots, interface, scratch)
    if not found:
        return ""
    return "\n".join(
        ["Your commands run in a sandbox that the kernel enforces:", *(f"- {text}" for _, text in found)]
    )


def points(
    policy: SandboxPolicy,
    settings: Settings,
    roots: Sequence[str],
    interface: AgentInterface = AgentInterface.SESSION,
    scratch: str = "",
) -> tuple[tuple[PromptPoint, str], ...]:
    """The sentences of the text, each with what it is about; none where the sandbox is off."""
    if not settings.sandbox.enabled or policy.type is PolicyType.INSECURE_NONE:
        return ()
    return (
        *_files(policy, roots),
        *_git(policy),
        *_network(policy, settings),
        *_temporary(policy, interface, scratch),
        *_environment(policy),
        *_limits(policy),
        *_lines(interface),
        *_refusals(settings),
        *_remedies(interface),
        *_bypass(settings, interface),
    )


def _files(policy: SandboxPolicy, roots: Sequence[str]) -> Points:
    granted = dict.fromkeys((*roots, *policy.additional_readwrite_paths))
    writable = tuple(path for path in granted if path not in policy.protected)
    if policy.type is PolicyType.WORKSPACE_READONLY or not writable:
        yield P.FILES, f"You may read the workspace ({_listed(roots)}) but not write in it."
    else:
        yield P.FILES, f"You may write in: {_listed(writable)}. The rest of the machine is read-only."
        yield (
            P.NAMES,
            (
                "You may neither change nor create files there that other programs run or read on their own"
                " (git hooks and configuration, settings of agents and editors, start-up files of shells,"
                " hooks"
                " of package managers), at any depth."
            ),
        )
    if policy.protected:
        yield P.PROTECTED, f"You may not change or create these either: {_listed(policy.protected)}."
    if policy.additional_readonly_paths:
        yield (
            P.SHOWN,
            f"You may read these, which are usually hidden: {_listed(policy.additional_readonly_paths)}.",
        )
    hidden = [entry for entry in policy.hidden if entry not in policy.additional_readonly_paths]
    if hidden:
        partly = {entry: found.directory for entry in hidden if (found := partly_hidden(entry))}
        listed = tuple(dict.fromkeys(partly.get(entry, entry) for entry in hidden))
        yield P.HIDDEN, f"Secrets are hidden from your commands: {_listed(listed)}."
        if partly:
            yield (
                P.OWN_DIRECTORY,
                (
                    "Of an agent's own directory, you may read instructions, skills, plugins, plans, memory"
                    " and"
                    " kept outputs."
                ),
            )
    if policy.ignore_mapping:
        yield P.IGNORED, "Files that the project's ignore files name are hidden from your commands."


def _git(policy: SandboxPolicy) -> Points:
    if policy.type is PolicyType.WORKSPACE_READONLY or policy.block_git_writes:
        yield (
            P.GIT,
            "git may read (status, log, diff) but not write: commit, checkout and stash need permission.",
        )
    else:
        yield P.GIT, "git may write to `.git`, except to its hooks and configuration."


def _network(policy: SandboxPolicy, settings: Settings) -> Points:
    allowed, denied = policy.network.allow or (), policy.network.deny
    if policy.network_access:
        yield P.NETWORK, "The network is open" + (f", except for {_listed(denied)}." if denied else ".")
    elif settings.network.access is NetworkAccess.NONE or not (allowed or _asks(settings)):
        yield P.NETWORK, "There is no network. Servers that you start on 127.0.0.1 work."
    else:
        passing = f"You can reach these hosts: {_listed(allowed)}." if allowed else "No host is allowed yet."
        asked = "any other" if allowed else "each"
        others = f"Pinfold asks the person about {asked}." if _asks(settings) else "You can reach no other."
        never = f" Never allowed: {_listed(denied)}." if denied else ""
        yield P.NETWORK, f"{passing} {others}{never}"
    if lent := lent_ports(policy, settings):
        ports = _listed(tuple(map(str, sorted(lent))))
        yield P.LENT, f"On 127.0.0.1, these ports lead to servers outside the sandbox: {ports}."
    if policy.unix_sockets:
        yield (
            P.SOCKETS,
            f"You may connect to these unix sockets of this machine: {_listed(policy.unix_sockets)}.",
        )
    else:
        yield P.SOCKETS, "You cannot connect to unix sockets of this machine (docker, agents, buses)."
    if policy.published_ports:
        ports = _listed(tuple(map(str, policy.published_ports)))
        yield P.PUBLISHED, f"The person can reach these ports of yours on 127.0.0.1: {ports}."


def _asks(settings: Settings) -> bool:
    return settings.network.access is NetworkAccess.ASK


def _temporary(policy: SandboxPolicy, interface: AgentInterface, scratch: str) -> Points:
    if policy.disable_tmp_write:
        yield P.TEMPORARY, "There is no temporary directory: TMPDIR is not set, and /tmp is read-only."
    elif _is_shared(policy):
        yield (
            P.TEMPORARY,
            (
                "For temporary files use `$TMPDIR`, which is set for you; most programs do so by themselves."
                " It"
                " is the machine's own /tmp, which holds other programs' files too."
            ),
        )
    elif interface is AgentInterface.LINE:
        yield (
            P.TEMPORARY,
            (
                "For temporary files use `$TMPDIR`, which is set for you; most programs do so by themselves."
                " It"
                " is a private /tmp that is deleted when the command ends; you cannot see the machine's own"
                " /tmp."
                " Put files that a later command needs into the workspace."
            ),
        )
    else:
        yield (
            P.TEMPORARY,
            (
                "For temporary files use `$TMPDIR`, which is set for you; most programs do so by themselves."
                " It"
                " is a private /tmp, shared by the commands of this session and deleted when it ends; you"
                " cannot"
                " see the machine's own /tmp."
            ),
        )
        if scratch:
            yield (
                P.SCRATCH,
                (
                    f"What commands have as `/tmp` is `{scratch}`, for your file tools as well: give both the"
                    f" same path below it. An edit of `/tmp/FILE` may not find its file."
                ),
            )


def _is_shared(policy: SandboxPolicy) -> bool:
    """Whether commands may write the machine's own /tmp."""
    is_granted = TEMPORARY[0] in policy.additional_readwrite_paths
    return is_granted and policy.type is not PolicyType.WORKSPACE_READONLY


def _environment(policy: SandboxPolicy) -> Points:
    kept = f", except {_listed(policy.environment.keep)}" if policy.environment.keep else ""
    yield P.ENVIRONMENT, f"Environment variables that look like secrets are removed{kept}."


def _limits(policy: SandboxPolicy) -> Points:
    limits = policy.limits
    told = [
        (limits.timeout, f"{limits.timeout or 0:g} seconds"),
        (limits.memory, f"{limits.memory} bytes of memory"),
        (limits.processes, f"{limits.processes} processes"),
        (limits.output, f"{limits.output} bytes kept of each output stream"),
    ]
    if found := [text for value, text in told if value is not None]:
        yield (
            P.LIMITS,
            (
                f"A command has at most: {', '.join(found)}. Processes that it leaves running end with the"
                f" session."
            ),
        )


def _refusals(settings: Settings) -> Points:
    yield (
        P.EVIDENCE,
        (
            'A denied file shows as "Read-only file system", "Permission denied" or "Operation not'
            ' permitted";'
            ' a denied host as "Network is unreachable", "Connection refused", an unknown name, or a 403 that'
            ' says why; a denied unix socket as "Permission denied" or "Address family not supported".'
            " A hidden file cannot be read, and a hidden directory is empty."
        ),
    )
    yield (
        P.CAUSES,
        (
            "Commands fail for many other reasons (a missing file, a wrong argument, a host that is down):"
            " check"
            " those first. An error's text is a hint; the violations listed with the result are what the"
            " sandbox"
            " really denied."
        ),
    )
    if settings.violations_ignore:
        yield (
            P.EXPECTED,
            f"Expected violations, which are not listed: {_listed(tuple(settings.violations_ignore))}.",
        )


def _lines(interface: AgentInterface) -> Points:
    if interface is AgentInterface.HOOK:
        yield (
            P.LINES,
            (
                "The command lines of this conversation share one sandbox: servers and other processes that a"
                " line starts in the background keep running for the next one, until the conversation ends."
                " Variables do not carry over to the next line."
            ),
        )
    elif interface is AgentInterface.LINE:
        yield (
            P.LINES,
            (
                "Each command line starts in the same directory, and all its processes end with it. `cd` and"
                " variables do not carry over to the next line, so begin a line that needs it with `cd DIR"
                " &&`."
            ),
        )


def _remedies(interface: AgentInterface) -> Points:
    if interface is AgentInterface.HOOK:
        yield (
            P.REMEDY,
            (
                "When the sandbox blocks a command that the task needs, run exactly the same command once"
                " more if"
                " the output says so: the person is then asked to allow what was denied. To ask beforehand,"
                " run"
                " `pinfold request --host HOST --write PATH --read PATH --git-writes --why REASON` with what"
                " you"
                " need. If neither is possible, say in a sentence which restriction it was and exactly what"
                " you"
                " need, so that the person can allow it."
            ),
        )
        yield from _sensitive()
        return
    if interface is AgentInterface.LINE:
        yield (
            P.REMEDY,
            (
                "When the sandbox blocks the task, say in a sentence which restriction it was and exactly"
                " what"
                " you need (a path, a host, git writes), so that the person can allow it. Do not run the"
                " command"
                " again in the hope that it passes."
            ),
        )
        yield from _sensitive()
        return
    yield (
        P.REMEDY,
        (
            "When the sandbox blocks the task, pinfold asks the person while the call waits. If it did not"
            " ask,"
            f" request exactly what you need (a path, a host, git writes) with {REQUEST}. Say in a sentence"
            " which"
            " restriction it was. Do not run the command again in the hope that it passes."
        ),
    )
    yield from _sensitive()


def _sensitive() -> Points:
    yield (
        P.SENSITIVE,
        (
            "Do not ask for sensitive files, and do not suggest allowing them: `~/.ssh`, start-up files such"
            " as"
            " `~/.bashrc` and `~/.zshrc`, files with credentials."
        ),
    )
    yield (
        P.CHANGES,
        (
            "The person sees the restrictions with `pinfold status`. They change them with `pinfold learn`,"
            " which adds"
            " the hosts and paths that a command needs, with `pinfold rules add` and `pinfold exclude add`,"
            " or in the"
            " files that `pinfold settings show` names."
        ),
    )


def _bypass(settings: Settings, interface: AgentInterface) -> Points:
    if settings.sandbox.excluded_commands:
        rules = tuple(rule.text for rule in settings.sandbox.excluded_commands)
        yield P.EXCLUDED, f"Once approved, these commands run outside the sandbox: {_listed(rules)}."
    if not settings.sandbox.allow_unsandboxed:
        yield (
            P.CLOSED,
            (
                f"All other commands run in the sandbox: {BYPASS} is turned off and has no effect. If a task"
                f" cannot be done there, work out with the person which setting to change."
            ),
        )
        if settings.mcp.cli:
            yield (
                P.MCP_CLI,
                (
                    "`mcp-cli` is no exception: it runs in the sandbox too, and reaches only what the sandbox"
                    " allows."
                ),
            )
        return
    leave = f"Leave {BYPASS} alone: each command" if interface is AgentInterface.SESSION else "Each command"
    when = (
        f"Set {BYPASS}" if interface is AgentInterface.SESSION else f"If your shell tool has {BYPASS}, set it"
    )
    yield (
        P.BYPASS,
        (
            f"{leave} runs in the sandbox by default, also after one that did not. {when} only when the"
            " person"
            " explicitly asked to run this command without the sandbox; pinfold then asks them again. A"
            " failed"
            f" command is no reason to set it."
        ),
    )
    yield P.EXAMPLE, 'The usual call: {"command": "ls", "description": "List files"}'
    yield (
        P.EXAMPLE_BYPASS,
        (
            "When the person asked for it:"
            ' {"command": "my-tool", "description": "Run my-tool", "dangerouslyDisableSandbox": true}'
        ),
    )
    if settings.mcp.cli:
        yield (
            P.MCP_CLI,
            f"`mcp-cli` is the exception: it does not work in the sandbox; call it alone, with {BYPASS}.",
        )


def _listed(entries: Sequence[str]) -> str:
    shown = ", ".join(f"`{visible(quoted(entry))}`" for entry in entries[:MOST])
    return f"{shown} and {len(entries) - MOST} more" if len(entries) > MOST else shown


REFUSED = (
    " If pinfold refuses it, nothing was done: the result names the rule or restriction and what would change"
    " it. Tell the person; do not try another way."
)
_TOOLS: Mapping[str, str] = {
    "execute_command": (
        "Runs a shell line in the sandbox and returns its output, its exit code and its violations: what the"
        " sandbox denied while it ran. A command that failed without a violation failed for another reason."
    ),
    "read_file": "Reads a file of the projects. Hidden files do not exist for you.",
    "write_file": "Writes a whole file of the projects in one step; its mode and line endings are kept.",
    "replace_in_file": "Replaces texts in a file of the projects: all of the given texts, or none.",
    "list_files": "Lists a directory of the projects, without hidden files.",
    "search_files": "Searches the projects for a regular expression, without hidden files.",
    "explain": "Says what pinfold would decide about a command, and why, and runs nothing.",
    "request_permission": (
        "Asks the person for exactly one permission: a path to write, a host to reach, or git writes. Use it"
        " when a result or a violation names that as missing, and give the reason. A no is final."
    ),
}
_BYPASS = (
    " `dangerouslyDisableSandbox` is for commands that the person explicitly asked to run without the"
    " sandbox; pinfold asks them again."
)
_CLOSED = " It always runs in the sandbox: `dangerouslyDisableSandbox` has no effect."


def describe_tools(settings: Settings) -> dict[str, str]:
    """The description of each tool, by its name."""
    told = {name: text + REFUSED for name, text in _TOOLS.items()}
    told["execute_command"] += _BYPASS if settings.sandbox.allow_unsandboxed else _CLOSED
    told["explain"] = _TOOLS["explain"]
    return told
