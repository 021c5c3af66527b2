"""Decides about the agent's file tools: may this path be read or written?

A hidden path is denied, since for an agent it does not exist. About other unusual paths a person decides.
"""

from posixpath import normpath

from msgspec.structs import replace

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.facts import Facts
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.request import ReadFile, WriteFile
from pinfold.model.settings import Settings
from pinfold.policy.hidden_paths import (
    OF_AGENT,
    UNTRACKED,
    hidden_by,
    hiding_rule,
    is_hidden_env_file,
    shown_in,
)
from pinfold.policy.operand_paths import absolute, is_own_process, is_ruinous, writable_roots
from pinfold.policy.reasons import by_setting, needs_person
from pinfold.policy.shipped_protected import Grantable, protected_by
from pinfold.policy.unsandboxed_checks import hides_something_below, write_objection


def judge_read(request: ReadFile, settings: Settings, facts: Facts) -> Decision:
    path = _real(request.path, facts)
    reason = (
        _malformed(request.path)
        or _process_own(request.path, facts)
        or _hidden(request.path, path, settings, facts)
        or _hidden_env_file(request.path, path, settings, facts)
        or _hides_below(request, path, facts)
        or needs_person(settings, "every file")
        or Reason(StepCode.FILE_READ, f"{path} may be read", Verdict.ALLOW)
    )
    return _decision(reason, facts.policy)


def judge_write(request: WriteFile, settings: Settings, facts: Facts) -> Decision:
    path = _real(request.path, facts)
    reason = (
        _malformed(request.path)
        or _process_own(request.path, facts)
        or _hidden(request.path, path, settings, facts)
        or _never(path, facts)
        or _of_agent(request.path, path, facts)
        or _read_only(settings, facts)
        or _hidden_env_file(request.path, path, settings, facts)
        or _ruins(request, path, facts)
        or needs_person(settings, "every file")
        or _protected(request, path, settings, facts)
        or _deletes(request, settings)
        or _git_ignored(path, settings, facts)
        or Reason(
            StepCode.FILE_WRITE, f"{path} may be {'deleted' if request.delete else 'written'}", Verdict.ALLOW
        )
    )
    return _decision(reason, facts.policy)


def _real(path: str, facts: Facts) -> str:
    return path if "\0" in path else facts.files.real(absolute(path, facts))


def _decision(reason: Reason, policy: SandboxPolicy) -> Decision:
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=policy)


def _malformed(path: str) -> Reason | None:
    if path and "\0" not in path:
        return None
    what = "contains a NUL character" if path else "is empty"
    return Reason(StepCode.MALFORMED_PATH, f"the path {what}", Verdict.DENY, remedy="send a path")


def _process_own(written: str, facts: Facts) -> Reason | None:
    """`/proc/self` is the process that opens it: here Pinfold's own process, never the agent's."""
    path = absolute(written, facts)
    if not (is_own_process(path) or facts.files.is_process_own(path)):
        return None
    message, remedy = f"{written} leads through a process's own directory in /proc", "name the file itself"
    return Reason(StepCode.PROCESS_OWN, message, Verdict.DENY, remedy=remedy)


def _hidden(written: str, path: str, settings: Settings, facts: Facts) -> Reason | None:
    """Checks the path as written and the path after links: a link must not reveal a hidden file."""
    for place in (path, normpath(absolute(written, facts))):
        pattern = hidden_by(place, facts.policy, facts.roots)
        if pattern and not is_hidden_env_file(place, pattern, facts.policy):
            found = hiding_rule(place, pattern, settings, facts.policy, facts.roots)
            message = f"{place} is hidden by `{found.rule}`"
            return Reason(
                StepCode.HIDDEN,
                message,
                Verdict.DENY,
                rule=found.rule,
                origin=found.origin,
                remedy=found.remedy,
            )
    return None


def _hidden_env_file(written: str, path: str, settings: Settings, facts: Facts) -> Reason | None:
    """Checked after every deny, since a person may allow it."""
    for place in (path, normpath(absolute(written, facts))):
        if is_hidden_env_file(place, hidden_by(place, facts.policy, facts.roots), facts.policy):
            found = hiding_rule(place, place, settings, facts.policy, facts.roots)
            message = f"{place} is hidden: {UNTRACKED}"
            return Reason(
                StepCode.ENV_FILE,
                message,
                Verdict.ASK,
                found.rule,
                found.origin,
                remedy=found.remedy,
                arguments=(place,),
            )
    return None


def _hides_below(request: ReadFile, path: str, facts: Facts) -> Reason | None:
    if not request.below or (pattern := hides_something_below(path, facts)) is None:
        return None
    message = f"it reads all of {path}, where `{pattern}` is hidden"
    remedy = "search a directory that does not contain it, or search with a command in the sandbox"
    return Reason(StepCode.HIDDEN_BELOW, message, Verdict.ASK, rule=pattern, remedy=remedy, arguments=(path,))


def _never(path: str, facts: Facts) -> Reason | None:
    name = protected_by(path, writable_roots(facts), facts.policy.protected)
    if name is None or name.grant is not Grantable.NEVER:
        return None
    message = f"{path} is protected: {name.why}"
    return Reason(StepCode.PROTECTED, message, Verdict.DENY, rule=name.name, remedy="edit it yourself")


def _of_agent(written: str, path: str, facts: Facts) -> Reason | None:
    """What is shown of an agent's own directory: the agent obeys it, so it is there to be read alone."""
    for place in (path, normpath(absolute(written, facts))):
        if directory := shown_in(place, facts.policy):
            message = f"{place} cannot be written: {OF_AGENT}"
            return Reason(
                StepCode.PROTECTED, message, Verdict.DENY, rule=directory, remedy="edit it yourself"
            )
    return None


def _ruins(request: WriteFile, path: str, facts: Facts) -> Reason | None:
    if not (request.delete and is_ruinous(path, facts)):
        return None
    message = f"it would delete {path}, and everything in it"
    return Reason(StepCode.RUINOUS, message, Verdict.ASK, remedy="name the files to delete explicitly")


def _read_only(settings: Settings, facts: Facts) -> Reason | None:
    if facts.policy.type is not PolicyType.WORKSPACE_READONLY:
        return None
    message, key = "the policy is read-only", "sandbox.policy"
    return by_setting(settings, StepCode.READ_ONLY, Verdict.DENY, message, key, "read-only")


def _protected(request: WriteFile, path: str, settings: Settings, facts: Facts) -> Reason | None:
    reason = write_objection(path, settings, facts, is_file=not request.delete)
    if reason is None:
        return None
    remedy = f"change `{reason.rule}`" if reason.rule else "ask a person to edit it"
    return replace(reason, step=StepCode.FILE_PROTECTION, remedy=remedy)


def _deletes(request: WriteFile, settings: Settings) -> Reason | None:
    if not (request.delete and settings.protect.delete_files):
        return None
    message, key = "it deletes a file", "protect.delete_files"
    return by_setting(settings, StepCode.DELETE_PROTECTION, Verdict.ASK, message, key, True)


def _git_ignored(path: str, settings: Settings, facts: Facts) -> Reason | None:
    if not (settings.protect.git_ignored and facts.files.is_git_ignored(path)):
        return None
    message, key = f"{path} is ignored by git", "protect.git_ignored"
    return replace(
        by_setting(settings, StepCode.GIT_IGNORED, Verdict.ASK, message, key, True), arguments=(path,)
    )
