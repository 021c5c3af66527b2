"""What an agent or its client may ask for by itself, before anything has been refused.

Another project, a path, a host, git writes: each is judged, put at the session's desk, journaled, and holds
from the next request on, for as long as the session does. INVARIANT: without a person's yes, or settings of
the user's own that name the directory, nothing is added.

Facts that shape it: grants are paths, and a command that may write next to a path can replace it by a link,
which the next policy would follow. So a path where commands can write already is neither granted nor added:
it needs no grant to be written, and one to be read could be turned into one for something else.
"""

import os
from _thread import allocate_lock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert

from pinfold.approval.question_limits import too_many
from pinfold.model.decision import Decision, Reason, StepCode, Verdict, Widening
from pinfold.model.escape_text import visible
from pinfold.model.home import expanded, home_of
from pinfold.model.load_structs import ready
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement
from pinfold.model.policy import NetworkRules, PolicyType, SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.symlinks import project_directory, real_path
from pinfold.policy.hosts import require_pattern
from pinfold.policy.paths import is_covered
from pinfold.session.result import is_allowed
from pinfold.settings.sources import find_project

if TYPE_CHECKING:
    from pinfold.session.session import Session

CHOICES = (Answer.NO, Answer.SESSION)
GRANTS = {
    "additional_readwrite_paths": ("filesystem", "write"),
    "additional_readonly_paths": ("filesystem", "read"),
    "network": ("network", "allow"),
}
"""A field of a policy, and the setting that adds to it."""
WORDS = {
    "additional_readwrite_paths": "write",
    "additional_readonly_paths": "read",
    "network": "connect to",
    "block_git_writes": "git writes",
}

_granting = allocate_lock()


class Asked:
    """What came of it. `given` tells what is there now that was not before."""

    def __init__(self, decision: Decision, settlement: Settlement | None, given: Sequence[str] = ()) -> None:
        self.decision, self.settlement, self.given = decision, settlement, tuple(given)

    @property
    def is_granted(self) -> bool:
        return is_allowed(self.decision, self.settlement)


def ask_for_project(session: "Session", path: str) -> Asked:
    """One more directory to work in: silently if the user's settings list it, else if a person says yes."""
    root = project_directory(_placed(session, path))
    decision = _judged_project(session, root)
    asked = _asked(session, "add_project", root, decision, f"add the project {root}", "")
    if not asked.is_granted or is_covered(root, _writable(session)):
        return asked
    if project_directory(root) != root:
        said = f"`{root}` became another directory while it was asked about"
        return Asked(
            _decided(session, Reason(StepCode.PROJECT, said, Verdict.DENY, remedy="ask again")), None
        )
    session.add_project(root)
    return Asked(asked.decision, asked.settlement, (root,))


def ask_for_first_projects(session: "Session", own: str | None) -> Asked | None:
    """Those that a client has opened a session for, before it is given it: the first refusal, or None.

    No question is asked if the person who started the service named them (`own`), or if the user's settings
    list them.
    """
    for root in session.roots:
        if own and _is_own(session, root, find_project(project_directory(own), session.environ)):
            continue
        decision = _decided(session, _listed(session, root) or _wanted(root, "work"))
        asked = _asked(session, "create_session", root, decision, f"open a session in {root}", "")
        if not asked.is_granted:
            return asked
    return None


def _is_own(session: "Session", root: str, own: str) -> bool:
    # A service that was started in a home, or above, was started there for no project in particular.
    home = real_path(home_of(session.environ))
    return root == own or (is_covered(root, (own,)) and not is_covered(home, (own,)))


def _decided(session: "Session", reason: Reason) -> Decision:
    return Decision(reason.verdict, (reason,), sandboxed=True, policy=session.policy)


def _judged_project(session: "Session", root: str) -> Decision:
    if is_covered(root, _writable(session)):
        reason = Reason(StepCode.PROJECT, f"`{root}` is this session's to work in already", Verdict.ALLOW)
    elif inner := [each for each in session.roots if is_covered(each, (root,))]:
        said = f"`{inner[0]}` lies in `{root}`, and could be moved from there"
        reason = Reason(StepCode.PROJECT, said, Verdict.DENY, remedy="open another session for it")
    else:
        reason = _listed(session, root) or _wanted(root, "work too")
    return _decided(session, reason)


def _listed(session: "Session", root: str) -> Reason | None:
    home = home_of(session.environ)
    listed = [real_path(expanded(entry, home)) for entry in session.settings.projects]
    if not is_covered(root, listed):
        return None
    return Reason(StepCode.PROJECT, f"your settings list `{root}`", Verdict.ALLOW, rule="projects")


def _wanted(root: str, what: str) -> Reason:
    remedy = "add it to `projects` in your settings, or answer the question"
    return Reason(StepCode.PROJECT, f"the client wants to {what} in `{root}`", Verdict.ASK, remedy=remedy)


class PermissionRequest(Struct, frozen=True):
    """What is asked for, beyond the policy in force."""

    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    git_writes: bool = False
    projects: tuple[str, ...] = ()
    why: str = ""


def ask_for_permission(session: "Session", params: object) -> Asked:
    """Exactly what a call's parameters ask for, without what the policy already grants."""
    request = convert(params, ready(PermissionRequest), from_attributes=True)
    if reason := _unaskable(request):
        return Asked(_decided(session, reason), None)
    given: list[str] = []
    for project in request.projects:
        asked = ask_for_project(session, project)
        if not asked.is_granted:
            return Asked(asked.decision, asked.settlement, given)
        given += [f"project: {root}" for root in asked.given]
    if request.projects and not (request.write or request.read or request.hosts or request.git_writes):
        return Asked(asked.decision, asked.settlement, given)
    asked = _asked_beyond(session, request)
    return Asked(asked.decision, asked.settlement, (*given, *asked.given))


def _unaskable(request: PermissionRequest) -> Reason | None:
    """Why nothing of it is asked about: there is too much of it, or a host that no setting could allow."""
    if trouble := too_many(
        len((*request.projects, *request.write, *request.read, *request.hosts)) + request.git_writes
    ):
        return Reason(StepCode.WIDENING, trouble, Verdict.DENY, remedy="ask in parts")
    for host in request.hosts:
        try:
            require_pattern(host, "network.allow")
        except ValueError as error:
            said = f"`{visible(host[:60])}` cannot be allowed as a host: {error}"
            return Reason(
                StepCode.WIDENING, said, Verdict.DENY, remedy="name hosts such as `example.org:443`"
            )
    return None


def names_beyond(session: "Session", params: object) -> tuple[str, ...]:
    """What a person would be asked to grant, by name, for a call's parameters; empty where nothing would be
    asked, or all of it would be denied."""
    request = convert(params, ready(PermissionRequest), from_attributes=True)
    wanted, decision = _judged_beyond(session, request)
    is_denied = decision.verdict is Verdict.DENY or _unaskable(request) or _swappable(session, wanted)
    return () if is_denied else tuple(map(named, decision.widening))


def _judged_beyond(session: "Session", request: PermissionRequest) -> tuple[SandboxPolicy, Decision]:
    writable = _writable(session)
    wanted = SandboxPolicy(
        additional_readwrite_paths=tuple(
            path for path in _absolute(session, request.write) if not is_covered(path, writable)
        ),
        additional_readonly_paths=_absolute(session, request.read),
        network=NetworkRules(allow=request.hosts or None),
        block_git_writes=False if request.git_writes else None,
    )
    return wanted, session.check(RunCommand(":", policy=wanted, description=request.why))


def _asked_beyond(session: "Session", request: PermissionRequest) -> Asked:
    wanted, decision = _judged_beyond(session, request)
    names = [named(each) for each in decision.widening]
    reason = None
    if swappable := _swappable(session, wanted):
        said = f"`{swappable[0]}` lies where commands can write, so it could become something else"
        remedy = "take it off the list that hides it, while nothing runs"
        reason = Reason(StepCode.WIDENING, said, Verdict.DENY, remedy=remedy)
    elif not names:
        reason = Reason(StepCode.WIDENING, "the policy in force has all of that already", Verdict.ALLOW)
    if reason:
        decision = Decision(reason.verdict, (reason,), decision.sandboxed, decision.policy)
    asked = _asked(
        session, "request_permission", ", ".join(names), decision, "request_permission", request.why
    )
    if asked.is_granted and names:
        _grant(session, decision)
        return Asked(asked.decision, asked.settlement, names)
    return asked


def _swappable(session: "Session", wanted: SandboxPolicy) -> list[str]:
    """Paths to be read that could become something else."""
    writable = _writable(session)
    return [path for path in wanted.additional_readonly_paths if is_covered(path, writable)]


def _writable(session: "Session") -> tuple[str, ...]:
    if session.policy.type is PolicyType.WORKSPACE_READONLY:
        return session.policy.additional_readwrite_paths
    return (*session.roots, *session.policy.additional_readwrite_paths)


def named(widening: Widening) -> str:
    """How a person is told of one thing that is wanted."""
    word = WORDS.get(widening.field, widening.field)
    return word if widening.field == "block_git_writes" else f"{word} {widening.value}"


def _absolute(session: "Session", paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(real_path(_placed(session, path)) for path in paths)


def _placed(session: "Session", path: str) -> str:
    return os.path.join(session.cwd, expanded(path, home_of(session.environ)))


def _grant(session: "Session", decision: Decision) -> None:
    with _granting:  # two at once would each add to what was there before both
        sections: dict[str, dict[str, Any]] = {}
        for each in decision.widening:
            if each.field == "block_git_writes":
                sections.setdefault("filesystem", {})["git_writes"] = True
            elif each.field in GRANTS:
                section, key = GRANTS[each.field]
                lists = sections.setdefault(section, {})
                before = lists.get(key) or session.override(section, key)
                # One that lies in another needs no place of its own, and could be moved from there.
                kept = [entry for entry in before if not is_covered(str(entry), (each.value,))]
                lists[key] = [*kept, each.value]
        session.change(sections)


def _asked(
    session: "Session", tool: str, what: str, decision: Decision, command: str, description: str
) -> Asked:
    settlement = None
    if decision.verdict is Verdict.ASK:
        settlement = session.desk.ask(
            PermissionNeeded(
                request_id=os.urandom(8).hex(),
                session=session.id,
                capability=Capability.WIDEN,
                command=command,
                cwd=session.cwd,
                decision=decision,
                description=description,
                choices=CHOICES,
                operation=tool,
                path=what,
            ),
            lambda: session.is_closed,
        )
    asked = Asked(decision, settlement)
    session.ledger.file(tool, what, decision, settlement, asked.is_granted)
    return asked
