"""A session's file tools, with the decisions, questions and journal that its commands have.

Every use is judged by where its path really leads, asked about if need be, and journaled before it is done.
Listing a directory is one use, whatever is in it; hidden names are left out.
"""

import os
from _thread import allocate_lock

from pinfold.files import Access, FileTools, HeldDirectories
from pinfold.files.tools import Confirm
from pinfold.model.decision import Decision, Verdict
from pinfold.model.errors import FileRefused
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement
from pinfold.model.request import ReadFile, WriteFile
from pinfold.session.command_questions import settled
from pinfold.session.open_parts import Resources, block_renames
from pinfold.session.request import as_request
from pinfold.session.result import is_allowed, refusal_of

CHOICES = (Answer.NO, Answer.ONCE, Answer.SESSION)


class SessionFiles:
    """They work in other places when there is another project, or another grant."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._lock = allocate_lock()
        self._places: tuple[str, ...] = ()
        self._ground = HeldDirectories()
        self._tools = FileTools(self._ground, self._permit, self._start, block_renames)

    def tools(self) -> FileTools:
        """Over the projects of now, and what the policy adds to them."""
        context = self._resources.now()
        policy = context.policy
        added = (*policy.additional_readwrite_paths, *policy.additional_readonly_paths)
        places = (*context.roots, *added)
        with self._lock:
            if places != self._places:
                self._ground.hold(places)
                self._places = places
            return self._tools

    def permit(self, tool: str, access: Access, path: str) -> None:
        """For a tool that uses the file by itself; raises `FileRefused`."""
        self._permit(tool, access, os.path.join(self._start(), path))

    def close(self) -> None:
        self._ground.close()

    def _start(self) -> str:
        return self._resources.judge.cwd

    def _permit(self, tool: str, access: Access, path: str) -> Confirm:
        is_read = access in (Access.READ, Access.LOOK)
        request = as_request(ReadFile(path) if is_read else WriteFile(path, access is Access.DELETE))
        resources, context = self._resources, self._resources.now()
        decision = resources.judge.decided(request, context)
        if access is Access.LOOK:
            if decision.verdict is Verdict.DENY:
                raise _refused(path, decision, None)
            return _nothing

        def again() -> Decision:
            nonlocal context
            context = resources.now()
            return resources.judge.decided(request, context)

        decision, settlement = settled(
            decision,
            lambda about: resources.desk.ask(
                self._question(tool, access, path, about), lambda: resources.is_closed
            ),
            again,
        )
        allowed = is_allowed(decision, settlement)
        resources.ledger.file(tool, path, decision, settlement, allowed)
        if not allowed:
            raise _refused(path, decision, settlement)

        def confirm() -> None:
            now = resources.judge.judged_again(request, context)
            if now.verdict is Verdict.DENY or (now.verdict is Verdict.ASK and settlement is None):
                raise _refused(path, now, None)

        return confirm

    def _question(self, tool: str, access: Access, path: str, decision: Decision) -> PermissionNeeded:
        return PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=self._resources.id,
            capability=Capability.READ if access is Access.READ else Capability.WRITE,
            command=f"{tool} {path}",
            cwd=self._resources.judge.cwd,
            decision=decision,
            choices=CHOICES,
            operation=tool,
            path=path,
        )


def _nothing() -> None:
    pass


def _refused(path: str, decision: Decision, settlement: Settlement | None) -> FileRefused:
    reason = decision.reasons[0]
    return FileRefused(reason.step, path, refusal_of(decision, settlement), "", decision, settlement)
