"""Explains a violation: which setting caused it, where that is written, and what would allow it. Pure.

`violations.ignore` hides violations from reports, never from the journal.
"""

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from posixpath import dirname
from typing import NamedTuple

from msgspec.structs import replace

from pinfold.model.codes import ViolationCode
from pinfold.model.policy import TEMPORARY, NetworkRules, PolicyType, SandboxPolicy
from pinfold.model.settings import NetworkAccess, Settings, TmpAccess
from pinfold.model.text_positions import Origin
from pinfold.model.violation import AGENT, READ, WARDEN, Violation
from pinfold.policy.hidden_paths import (
    OF_AGENT,
    HiddenBy,
    hidden_by,
    hiding_rule,
    is_hidden_env_file,
    shown_in,
)
from pinfold.policy.paths import contains, is_covered, outermost
from pinfold.policy.reasons import remedy_for
from pinfold.policy.shipped_protected import (
    GIT_BLOCKED,
    NOT_GRANTABLE,
    USED_BY_PINFOLD,
    is_used_by_pinfold,
    protected_names,
    why_protected,
)

SHIPPED = "pinfold's list of protected names"
EVERY_COMMAND = "*"
ASK_FOR_HOSTS = 'set `network.access = "ask"`'
USE_RULES = 'set `network.access = "rules"`'
LISTENS_OUTSIDE = "but a program outside the sandbox does"
ANSWER_YES = "answer yes when pinfold asks"
USE_WORKSPACE_WRITE = "use the policy `workspace-write`"
IN_PLACE = ("open", "truncate", "chmod", "chown", "setxattr", "removexattr")
"""Calls for which a grant of the file's own path is enough, if the file exists."""


class _Writing(NamedTuple):
    """What `_write_remedy` needs to know about a path that a command tried to write."""

    granted: tuple[str, ...]
    home: str
    is_there: Callable[[str], bool]
    may_write: Callable[[str], bool]


def explained(
    violation: Violation,
    settings: Settings,
    command: str,
    policy: SandboxPolicy | None = None,
    roots: tuple[str, ...] = (),
    home: str = "",
    is_there: Callable[[str], bool] = lambda _: False,
    may_write: Callable[[str], bool] = lambda _: True,
    own: Callable[[], tuple[str, ...]] = tuple,
    is_git_file: Callable[[str], bool] = lambda _: False,
) -> Violation:
    """The violation with its command, the origin of its rule, and what would allow it.

    `policy` and `roots` say what hides a path that a command tried to read; `is_there`, whether a path
    exists; `may_write`, whether the user could change it without a sandbox; `own`, the files that pinfold
    reads and runs; `is_git_file`, whether a path outside of the roots is open once git's writes are."""
    if violation.operation == READ and policy:
        return replace(_of_hidden(violation, settings, policy, roots), command=command)
    if violation.operation.startswith(AGENT):
        return replace(violation, command=command)
    if is_used_by_pinfold(violation.rule, own):
        return replace(
            violation,
            command=command,
            why=f"{USED_BY_PINFOLD}, and {NOT_GRANTABLE}",
            grantable=False,
            code=ViolationCode.OBEYED,
        )
    if policy and shown_in(violation.path, policy):
        return replace(
            violation,
            command=command,
            why=f"{OF_AGENT}, and {NOT_GRANTABLE}",
            grantable=False,
            code=ViolationCode.NEVER,
        )
    if not violation.answered:
        why = why_protected(violation.rule, violation.why, violation.code, own)
        violation = replace(violation, why=why)
    is_ours = violation.path.startswith("/") and violation.operation != "connect"
    if policy and is_ours and _waits_for_git_writes(violation, policy) and is_git_file(violation.path):
        violation = replace(violation, why=GIT_BLOCKED, is_git_writes=True, code=ViolationCode.GIT_WRITES)
    if (
        policy
        and policy.type is PolicyType.WORKSPACE_READONLY
        and is_ours
        and is_covered(violation.path, roots)
    ):
        origin, remedy = _of_setting(settings, "sandbox.policy", USE_WORKSPACE_WRITE)
    else:
        writing = _Writing(policy.additional_readwrite_paths if policy else (), home, is_there, may_write)
        origin, remedy = _origin_and_remedy(violation, settings, writing)
    return replace(violation, command=command, origin=origin, remedy=violation.remedy or remedy)


def _waits_for_git_writes(violation: Violation, policy: SandboxPolicy) -> bool:
    """Whether blocked git writes may be the only reason. A no from a person is reported as that instead."""
    is_closed = policy.type is PolicyType.WORKSPACE_READWRITE and bool(policy.block_git_writes)
    return is_closed and violation.grantable and not (violation.rule or violation.answered)


def _of_hidden(
    violation: Violation, settings: Settings, policy: SandboxPolicy, roots: tuple[str, ...]
) -> Violation:
    """The violation with the rule that hides the path."""
    rule = hidden_by(violation.path, policy, roots) or ""
    found = hiding_rule(violation.path, rule, settings, policy, roots)
    where = f"`{found.rule}` of {found.origin}" if rule is HiddenBy.IGNORE_FILES else str(found.origin or "")
    grantable = is_hidden_env_file(violation.path, rule, policy)
    return replace(violation, rule=rule, origin=where, remedy=found.remedy, grantable=grantable)


def _is_of_host(violation: Violation) -> bool:
    return violation.operation == "connect" and not violation.path.startswith(("/", "@"))


def _origin_and_remedy(violation: Violation, settings: Settings, writing: _Writing) -> tuple[str, str]:
    if violation.operation == WARDEN or (violation.operation == "connect" and not violation.grantable):
        return "", ""
    if violation.code is ViolationCode.HEARD_OUTSIDE:
        return _of_setting(settings, "network.allow", _lending_remedy(violation, settings))
    if violation.operation == "resolve":
        is_closed = settings.network.access is NetworkAccess.NONE
        remedy = ASK_FOR_HOSTS if is_closed else "add the host to `network.allow`"
        return _of_setting(settings, "network.access", remedy)
    if _is_of_host(violation):
        is_ruled = violation.grantable
        return _of_setting(settings, "network.access", _host_remedy(settings)) if is_ruled else ("", "")
    if violation.operation == "connect":
        key = "network.unix_sockets"
        return _of_setting(settings, key, f"add `{violation.path}` to `{key}`")
    if violation.is_git_writes:
        return _of_setting(settings, "filesystem.git_writes", "set `filesystem.git_writes = true`")
    if violation.rule:
        return _of_name(violation, settings)
    if settings.filesystem.tmp is TmpAccess.NONE and is_covered(violation.path, TEMPORARY):
        return _of_setting(settings, "filesystem.tmp", 'set `filesystem.tmp = "private"`')
    return _of_setting(settings, "filesystem.write", _write_remedy(violation, writing))


def _write_remedy(violation: Violation, writing: _Writing) -> str:
    """What would allow this write. Never the whole home for one name in it, nor files of other users."""
    path = violation.path
    where = writable_place(violation.operation, path, writing.is_there)
    if violation.code is ViolationCode.NEVER or not writing.may_write(where):
        return ""
    for entry in writing.granted:
        if not writing.is_there(entry) and (contains(entry, path) or contains(path, entry)):
            return f"create `{entry}`: `filesystem.write` lists it, but it does not exist"
    if violation.operation == "mkdir" and path != writing.home and not writing.is_there(path):
        return f"create `{path}` and add it to `filesystem.write`"
    if writing.home and contains(where, writing.home):
        return ANSWER_YES if violation.grantable else ""
    return f"add `{where}` to `filesystem.write`"


def _of_name(violation: Violation, settings: Settings) -> tuple[str, str]:
    key = "filesystem.protect"
    for place, entry in enumerate(settings.filesystem.protect):
        if entry == violation.rule:
            origin = settings.origin(key, place)
            return str(origin), remedy_for(origin, f"remove `{entry}` from `{key}`")
    listed = any(each.name == violation.rule for each in protected_names())
    remedy = ANSWER_YES if violation.grantable else ""
    return SHIPPED if listed else "", remedy


def _of_setting(settings: Settings, key: str, remedy: str) -> tuple[str, str]:
    origin: Origin = settings.origin(key)
    if remedy and origin.layer.startswith("project"):
        # A project has narrowed it: what the user writes elsewhere would change nothing.
        remedy = f"{remedy}, in {origin}"
    return f"`{key}`, {origin}", remedy_for(origin, remedy)


def _host_remedy(settings: Settings) -> str:
    """The remedy if the network is off; empty if it is on, since the gate names the list that would help.

    If the gate names no list, a list or a person allowed the host, but it does not exist or does not answer.
    """
    return ASK_FOR_HOSTS if settings.network.access is NetworkAccess.NONE else ""


def _lending_remedy(violation: Violation, settings: Settings) -> str:
    lending = f"add `{violation.path}` to `network.allow`"
    return f"{lending} and {USE_RULES}" if settings.network.access is NetworkAccess.NONE else lending


def drop_closed_ports(
    violations: Iterable[Violation], is_heard: Callable[[int], bool]
) -> Iterator[Violation]:
    """The violations without connects to a loopback port on which nothing listens.

    A connect stays if `is_heard` finds a listener on that port outside the sandbox: it may have meant that.
    """
    for each in violations:
        if each.code is not ViolationCode.UNHEARD:
            yield each
        elif is_heard(int(each.path.rpartition(":")[2])):
            yield replace(each, why=f"{each.why}, {LISTENS_OUTSIDE}", code=ViolationCode.HEARD_OUTSIDE)


def _host(target: str) -> str:
    return target.rpartition(":")[0] or target


def sufficient_policy(
    violations: Iterable[Violation], is_there: Callable[[str], bool]
) -> SandboxPolicy | None:
    """The smallest additions to a policy that would allow all of these; None if there are none, or not
    enough.

    `is_there` says whether a path exists: to create a name, a command needs its directory.
    """
    paths: list[str] = []
    hosts: list[str] = []
    sockets: list[str] = []
    reads: list[str] = []
    git: bool | None = None
    for each in violations:
        if not each.grantable or each.operation in (WARDEN, "bind", "resolve"):
            return None
        if each.operation == READ:
            reads.append(each.path)
        elif each.operation == "connect":
            (sockets if each.path.startswith("/") else hosts).append(each.path)
        elif each.is_git_writes:
            git = False
        elif each.rule or not each.path:
            return None
        else:
            paths.append(writable_place(each.operation, each.path, is_there))
    if not (paths or hosts or sockets or reads or git is False):
        return None
    return SandboxPolicy(
        additional_readwrite_paths=outermost(paths),
        additional_readonly_paths=tuple(dict.fromkeys(reads)),
        unix_sockets=tuple(dict.fromkeys(sockets)),
        network=NetworkRules(allow=tuple(dict.fromkeys(hosts)) or None),
        block_git_writes=git,
    )


def writable_place(operation: str, path: str, is_there: Callable[[str], bool]) -> str:
    """The smallest path whose grant would allow a call: the file that it changes, or its directory."""
    return path if operation in IN_PLACE and is_there(path) else dirname(path)


def is_ignored(violation: Violation, settings: Settings, commands: Iterable[str]) -> bool:
    """Whether `violations.ignore` says not to report it. `commands` are the line's simple commands."""
    texts = tuple(commands)
    return any(
        _names(entry, violation)
        for words, entries in settings.violations_ignore.items()
        if words == EVERY_COMMAND or any(_starts(text, words) for text in texts)
        for entry in entries
    )


def _starts(command: str, words: str) -> bool:
    return command == words or command.startswith(f"{words} ")


def _names(entry: str, violation: Violation) -> bool:
    """Whether an entry matches: a path or a directory above it, a host with or without port, or a pattern."""
    path = violation.path
    if entry.startswith("/") and contains(entry, path):
        return True
    return fnmatchcase(path, entry) or fnmatchcase(_host(path), entry)
