"""The text for a model: what its sandbox allows, and what each tool does. Pure: a policy becomes sentences.

Every sentence is true of this policy and these settings: where no bypass is open, none is mentioned. Other
products tell a model to judge by error texts and to retry without the sandbox. This text tells it to ask:
pinfold asks the person while the call waits, or the model calls `request_permission`.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from pinfold.model.escape_text import quoted, visible
from pinfold.model.policy import TEMPORARY, PolicyType, SandboxPolicy
from pinfold.model.settings import NetworkAccess, Settings
from pinfold.policy.network_scope import lent_ports

MOST = 12
"""Entries of a list that are named; the policy itself has them all."""
REQUEST = "`request_permission`"
BYPASS = "`dangerouslyDisableSandbox`"


class AgentInterface(Enum):
    """By what the model's commands come to the fence: not every face can do the same."""

    SESSION = "session"
    """One session for all of them, with a tool to ask by."""
    HOOK = "hook"
    """The agent's own shell, whose every line a hook puts into a session of its own."""


def summarize(
    policy: SandboxPolicy,
    settings: Settings,
    roots: Sequence[str],
    face: AgentInterface = AgentInterface.SESSION,
) -> str:
    """The text for a system prompt; empty where there is no fence."""
    if not settings.sandbox.enabled or policy.type is PolicyType.INSECURE_NONE:
        return ""
    points = [
        *_files(policy, roots),
        *_git(policy),
        *_network(policy, settings),
        *_temporary(policy, face),
        *_environment(policy),
        *_limits(policy),
        *_lines(face),
        *_refusals(settings),
        *_remedies(face),
        *_bypass(settings, face),
    ]
    return "\n".join(["Your commands run inside a fence that the kernel holds:", *(f"- {p}" for p in points)])


def _files(policy: SandboxPolicy, roots: Sequence[str]) -> Iterator[str]:
    granted = dict.fromkeys((*roots, *policy.additional_readwrite_paths))
    writable = tuple(path for path in granted if path not in policy.protected)
    if policy.type is PolicyType.WORKSPACE_READONLY or not writable:
        yield f"Nothing in the workspace ({_listed(roots)}) can be written; all of it can be read."
    else:
        yield f"You may write in: {_listed(writable)}. The rest of the machine is read-only."
        yield (
            "Files there that other programs obey by themselves (git hooks and configuration, settings of"
            " agents and editors, start-up files of shells, hooks of package managers) can be neither"
            " changed nor made, at any depth."
        )
    if policy.protected:
        yield f"These cannot be changed or made either: {_listed(policy.protected)}."
    if policy.additional_readonly_paths:
        yield f"You may read, although it would be hidden: {_listed(policy.additional_readonly_paths)}."
    hidden = [entry for entry in policy.hidden if entry not in policy.additional_readonly_paths]
    if hidden:
        yield f"Secrets are hidden from your commands: {_listed(hidden)}."
    if policy.ignore_mapping:
        yield "What the project's ignore files name is hidden from your commands."


def _git(policy: SandboxPolicy) -> Iterator[str]:
    if policy.type is PolicyType.WORKSPACE_READONLY or policy.block_git_writes:
        yield "git can look (status, log, diff) and not write: commit, checkout and stash need permission."
    else:
        yield "git may write to `.git`, but for its hooks and configuration."


def _network(policy: SandboxPolicy, settings: Settings) -> Iterator[str]:
    allowed, denied = policy.network.allow or (), policy.network.deny
    if policy.network_access:
        yield "The network is open" + (f", but for {_listed(denied)}." if denied else ".")
    elif settings.network.access is NetworkAccess.NONE or not (allowed or _asks(settings)):
        yield "There is no network; servers of your own on 127.0.0.1 work."
    else:
        passing = f"These hosts can be reached: {_listed(allowed)}." if allowed else "No host is open yet."
        asked = "Any other" if allowed else "Each"
        others = f"{asked} is asked of the person." if _asks(settings) else "No other can be."
        never = f" Never: {_listed(denied)}." if denied else ""
        yield f"{passing} {others}{never}"
    if lent := lent_ports(policy, settings):
        yield f"On your loopback these ports are the machine's own: {_listed(tuple(map(str, sorted(lent))))}."
    if policy.unix_sockets:
        yield f"Of this machine's unix sockets you may connect to: {_listed(policy.unix_sockets)}."
    else:
        yield "Unix sockets of this machine (docker, agents, buses) cannot be connected to."
    if policy.published_ports:
        ports = _listed(tuple(map(str, policy.published_ports)))
        yield f"The person reaches these ports of yours on their own loopback: {ports}."


def _asks(settings: Settings) -> bool:
    return settings.network.access is NetworkAccess.ASK


def _temporary(policy: SandboxPolicy, face: AgentInterface) -> Iterator[str]:
    if policy.disable_tmp_write:
        yield "There is no temporary directory: TMPDIR is not set, and /tmp cannot be written."
    elif _is_shared(policy):
        yield (
            "For temporary files use `$TMPDIR`, which is set for you, as most programs do by themselves. It"
            " is the machine's own /tmp, where other programs' files are too."
        )
    elif face is AgentInterface.HOOK:
        yield (
            "For temporary files use `$TMPDIR`, which is set for you, as most programs do by themselves. It"
            " is a private /tmp, gone when the command ends; the machine's own /tmp is not there. What a"
            " later command needs goes into the workspace."
        )
    else:
        yield (
            "For temporary files use `$TMPDIR`, which is set for you, as most programs do by themselves. It"
            " is a private /tmp, shared by the commands of this session and gone with it; the machine's own"
            " /tmp is not there."
        )


def _is_shared(policy: SandboxPolicy) -> bool:
    """Whether the machine's own /tmp is open to commands."""
    is_granted = TEMPORARY[0] in policy.additional_readwrite_paths
    return is_granted and policy.type is not PolicyType.WORKSPACE_READONLY


def _environment(policy: SandboxPolicy) -> Iterator[str]:
    kept = f", except {_listed(policy.environment.keep)}" if policy.environment.keep else ""
    yield f"Environment variables that look like secrets are taken away{kept}."


def _limits(policy: SandboxPolicy) -> Iterator[str]:
    limits = policy.limits
    told = [
        (limits.timeout, f"{limits.timeout or 0:g} seconds"),
        (limits.memory, f"{limits.memory} bytes of memory"),
        (limits.processes, f"{limits.processes} processes"),
        (limits.output, f"{limits.output} bytes kept of each output stream"),
    ]
    if found := [text for value, text in told if value is not None]:
        yield f"A command has at most: {', '.join(found)}. What it leaves running ends with the session."


def _refusals(settings: Settings) -> Iterator[str]:
    yield (
        'A refusal shows as "Read-only file system", "Permission denied" or "Operation not permitted" for a'
        ' file, as "Network is unreachable", "Connection refused", a name that is not known or a 403 that'
        ' says why for a host, as "Permission denied" or "Address family not supported" for a unix'
        " socket, and, where something is hidden, as a file that cannot be read or a directory that is empty."
    )
    yield (
        "Commands fail for many other reasons (a missing file, a wrong argument, a host that is down): look"
        " at those first. An error's text is a hint; the violations listed with the result are what"
        " the fence has really refused."
    )
    if settings.violations_ignore:
        yield f"Refusals that are expected and not listed: {_listed(tuple(settings.violations_ignore))}."


def _lines(face: AgentInterface) -> Iterator[str]:
    if face is AgentInterface.HOOK:
        yield (
            "Each command line starts in the same directory and ends with everything that it started: `cd`"
            " and variables do not carry over to the next one, so put `cd DIR &&` before what needs it."
        )


def _remedies(face: AgentInterface) -> Iterator[str]:
    if face is AgentInterface.HOOK:
        yield (
            "Where the fence stands in the way of the task, say in a sentence which restriction it was, and"
            " exactly what you need (a path, a host, git writes): the person opens it. Do not run the command"
            " again in the hope that it passes."
        )
        yield from _sensitive()
        return
    yield (
        "Where the fence stands in the way of the task, the person is asked while the call waits; if no"
        f" question was put, name exactly what you need (a path, a host, git writes) with {REQUEST}. Say in"
        " a sentence which restriction it was. Do not run the command again in the hope that it passes."
    )
    yield from _sensitive()


def _sensitive() -> Iterator[str]:
    yield (
        "Do not ask for, or suggest to open, what is sensitive: `~/.ssh`, start-up files such as `~/.bashrc`"
        " and `~/.zshrc`, files with credentials."
    )
    yield "The person sees and changes the restrictions with `pinfold status` and `pinfold settings`."


def _bypass(settings: Settings, face: AgentInterface) -> Iterator[str]:
    if settings.sandbox.excluded_commands:
        rules = tuple(rule.text for rule in settings.sandbox.excluded_commands)
        yield f"These run outside of the fence by themselves, once they are approved: {_listed(rules)}."
    if not settings.sandbox.allow_unsandboxed:
        yield (
            f"Everything else runs inside: {BYPASS} is switched off and has no effect. If a task cannot be"
            " done inside, work out with the person which setting to change."
        )
        if settings.mcp.cli:
            yield "`mcp-cli` is no exception: it runs inside as well, with what can be reached from there."
        return
    if face is AgentInterface.HOOK:
        yield (
            "Each command runs inside by default, whatever the one before did. If your shell tool has"
            f" {BYPASS}, set it only when the person has asked in so many words to run this command without"
            " the fence; they are asked again then. It is no answer to a failure."
        )
        return
    yield (
        f"Leave {BYPASS} alone: each command runs inside by default, whatever the one before did. Set it only"
        " when the person has asked in so many words to run this command without the fence; they are"
        " asked again then. It is no answer to a failure."
    )
    yield 'As usual: {"command": "ls", "description": "List files"}'
    yield (
        "When the person asked for it:"
        ' {"command": "my-tool", "description": "Run my-tool", "dangerouslyDisableSandbox": true}'
    )
    if settings.mcp.cli:
        yield f"`mcp-cli` is the exception: it does not work inside; call it with {BYPASS} and alone."


def _listed(entries: Sequence[str]) -> str:
    shown = ", ".join(f"`{visible(quoted(entry))}`" for entry in entries[:MOST])
    return f"{shown} and {len(entries) - MOST} more" if len(entries) > MOST else shown


REFUSED = (
    " If it is refused, nothing was done: the result says which rule or restriction stood in the way and what"
    " would change that. Tell the person; do not try to get there another way."
)
_TOOLS: Mapping[str, str] = {
    "execute_command": (
        "Runs a shell line inside the fence and returns its output, its exit code and the violations, that"
        " is, what the fence refused while it ran. A command that failed without one failed by itself."
    ),
    "read_file": "Reads a file of the projects. What is hidden does not exist for you.",
    "write_file": "Writes a file of the projects, whole and at once; its mode and line ends are kept.",
    "replace_in_file": "Replaces texts in a file of the projects: all of the given ones, or none.",
    "list_files": "Lists a directory of the projects, without what is hidden.",
    "search_files": "Searches the projects for a regular expression, without what is hidden.",
    "explain": "Says what would be done about a command, and why, and runs nothing.",
    "request_permission": (
        "Asks the person for exactly one more thing: a path to write, a host to reach, or git writes. Use it"
        " when a result or a violation says that this is what was missing, and name why. A no is final."
    ),
}
_BYPASS = (
    " `dangerouslyDisableSandbox` is for commands that the person asked in so many words to run without the"
    " fence; they are asked again."
)
_CLOSED = " There is no way to run it without the fence: `dangerouslyDisableSandbox` has no effect."


def describe_tools(settings: Settings) -> dict[str, str]:
    """The description of each tool, by its name."""
    told = {name: text + REFUSED for name, text in _TOOLS.items()}
    told["execute_command"] += _BYPASS if settings.sandbox.allow_unsandboxed else _CLOSED
    told["explain"] = _TOOLS["explain"]
    return told
