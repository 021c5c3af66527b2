"""A question in words: what is wanted, why, and what each answer would do; the same on every screen.

INVARIANT: text from elsewhere is shown in visible characters (`model.escape_text`). This module does not
draw.
"""

import os
from collections.abc import Callable

from msgspec import Struct

from pinfold.approval.keystrokes import KEYS
from pinfold.model.decision import Reason, StepCode, Verdict, Widening
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reach
from pinfold.model.policy import POLICY_WORDS
from pinfold.model.text_positions import Span
from pinfold.policy.grants import TREE

FOR_THE_SESSION = {
    "add_project": "add the project {}: every command of this session may write there",
    "create_session": "open a session in {}: every command in it may write there",
    "request_permission": "let every command of this session do more than your own policy gives",
}
"""What is asked for besides any command -> the question."""
WANTED = {
    "additional_readwrite_paths": "write {}, and everything in it",
    "additional_readonly_paths": "read {}, and everything in it",
    "unix_sockets": "connect to the socket {}",
    "published_ports": "open port {} to every program of this machine",
    "environment": "get the variables {}",
    "network": "connect to {}",
    "network_access": "connect to every host",
    "block_git_writes": "write to git's directories, hooks and configuration excepted",
    "disable_tmp_write": "write to its /tmp",
    "debug_output_dir": "write debugging output to {}",
    "type": "run under {}",
}
"""A field of a policy -> what may be done once it is granted."""
DONE = {
    "open": "write",
    "mkdir": "make the directory",
    "mknod": "make",
    "symlink": "make the link",
    "link": "make the link",
    "rename": "replace or make",
    "unlink": "delete",
    "rmdir": "delete the directory",
    TREE: "delete all of",
    "truncate": "cut",
    "chmod": "change the mode of",
}
"""An operation of a call that waits -> what it does to the path."""
Short = Callable[[str], str]
"""A path as short as it can be said where it is shown."""
RUNNING = (Capability.CONNECT, Capability.WRITE)
"""What a command wants that runs already."""


class Offer(Struct, frozen=True):
    """One answer that may be given."""

    answer: Answer
    key: str
    effect: str
    """What it would do."""


def headline(question: PermissionNeeded, short: Short) -> str:
    match question.capability:
        case Capability.CONNECT:
            return f"connect to {visible(question.host)}:{question.port}"
        case Capability.WRITE:
            return f"{_action(question)} {visible(short(question.path))}"
        case Capability.READ:
            return f"read {visible(short(question.path))}"
        case Capability.BYPASS:
            return "run this without the sandbox: it may read, change and send everything that you can"
        case Capability.WIDEN if question.operation:
            return FOR_THE_SESSION[question.operation].format(visible(short(question.path)))
        case Capability.WIDEN:
            return "run this with more than your own policy gives"
    return "run this in the sandbox" if question.decision.sandboxed else "run this outside the sandbox"


def _action(question: PermissionNeeded) -> str:
    return "write in" if _is_git(question) else DONE.get(question.operation, visible(question.operation))


def _is_git(question: PermissionNeeded) -> bool:
    """Of git it is asked for the whole repository, whichever file comes first."""
    return any(reason.step is StepCode.GIT_WRITES for reason in question.decision.reasons)


def marks(question: PermissionNeeded) -> list[Span]:
    """The parts of the command that the reasons are about; else all that it would start."""
    decision = question.decision
    spans = [reason.span for reason in decision.reasons if reason.span]
    return spans or [command.span for command in decision.commands]


def reasons(question: PermissionNeeded) -> list[Reason]:
    """Why it is asked."""
    return [reason for reason in question.decision.reasons if reason.verdict is not Verdict.ALLOW]


def circumstances(question: PermissionNeeded, short: Short) -> list[tuple[str, str]]:
    """Which command wants it, and where."""
    told = []
    if question.capability in RUNNING:
        told.append(("wanted by", visible(question.command)))
        if question.program:
            told.append(("program", visible(question.program)))
    if question.cwd:
        told.append(("in", visible(short(question.cwd))))
    names = ("it may", *[""] * len(question.decision.widening))
    told += zip(names, wanted(question, short), strict=False)
    return told


def wanted(question: PermissionNeeded, short: Short) -> list[str]:
    """Each thing that a yes grants beyond the policy in force."""
    return [_wanted(each, short) for each in question.decision.widening]


def _wanted(widening: Widening, short: Short) -> str:
    if widening.field == "network" and widening.value == "*":
        return WANTED["network_access"]
    if widening.field == "type":
        words = {policy.name: word for word, policy in POLICY_WORDS.items()}
        return WANTED["type"].format(f"`{words.get(widening.value, visible(widening.value))}`")
    return WANTED[widening.field].format(visible(short(widening.value)))


def offers(question: PermissionNeeded, reach: Reach, short: Short) -> list[Offer]:
    """The answers that may be given, the refusing one last."""
    what = _what(question, reach, short)
    effects = {
        Answer.ONCE: _this_time(question),
        Answer.SESSION: f"{what}, while this {'run' if question.ends_session else 'session'} lasts",
        Answer.ALWAYS: f"{what}, in later sessions too",
        Answer.RULE: f"edit {rules(question)} and add it to `{question.rule_key}`; not asked again",
        Answer.NO: "not this time",
    }
    offered = question.offered(reach)
    return [Offer(each, KEYS[each], effect) for each, effect in effects.items() if each in offered]


def rules(question: PermissionNeeded) -> str:
    """What an answer of `rule` would add."""
    return ", ".join(f"`{visible(rule)}`" for rule in question.rules)


def widening(question: PermissionNeeded, reach: Reach, short: Short) -> str:
    """What lasting answers would count for, one step wider than `reach`."""
    wider = question.next_reach(reach)
    if wider is Reach.DIRECTORY:
        return f"what is in {visible(short(os.path.dirname(question.path)))}"
    return {Reach.TARGET: "any command", Reach.COMMAND: "this very command again"}[wider]


def _this_time(question: PermissionNeeded) -> str:
    if question.capability is Capability.CONNECT:
        return "this run of the command may connect to it"
    return "this run of the command may do it" if question.capability is Capability.WRITE else "run it now"


def _what(question: PermissionNeeded, reach: Reach, short: Short) -> str:
    may = _may(question)
    if reach is Reach.DIRECTORY:
        return f"any command may change what is in {visible(short(os.path.dirname(question.path)))}"
    if reach is Reach.TARGET:
        return f"any command may {may}"
    if question.operation in FOR_THE_SESSION:
        return "any command"
    is_running = question.capability in RUNNING
    return f"this very command may {may}" if is_running else "this very command, here"


def _may(question: PermissionNeeded) -> str:
    """What a lasting answer would let be done: of a change that is not a write, just that."""
    if question.capability is Capability.CONNECT:
        return "connect to it"
    from pinfold.policy.grants import is_write

    return "change it" if _is_git(question) or is_write(question.operation) else "do just this"
