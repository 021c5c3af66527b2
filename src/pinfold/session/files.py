"""A session's file tools: the same decision, questions and journal as its commands have.

Every use is judged where it really is, asked about if need be, and written down before it is done. Looking
over a directory is one use, whatever is in it; what is hidden there is passed over.
"""

import os
from _thread import allocate_lock
from collections.abc import Callable
from typing import TYPE_CHECKING

from pinfold.files import Access, FileTools, HeldDirectories
from pinfold.files.tools import Confirm
from pinfold.model.decision import Decision, Verdict
from pinfold.model.errors import FileRefused
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement
from pinfold.model.request import ReadFile, WriteFile
from pinfold.session.judge import Judge
from pinfold.session.resources import block_renames
from pinfold.session.result import is_allowed, refusal_of
from pinfold.session.settling import settled

if TYPE_CHECKING:
    from pinfold.approval.broker import Desk
    from pinfold.session.journal import Ledger

CHOICES = (Answer.NO, Answer.ONCE, Answer.SESSION)


class SessionFiles:
    """They work in other places when there is another project, or another grant."""

    def __init__(
        self,
        session: str,
        judge: Callable[[], Judge],
        desk: "Callable[[], Desk]",
        ledger: "Callable[[], Ledger]",
        is_over: Callable[[], bool],
    ) -> None:
        """`is_over` tells whether the session has ended, so that nobody waits for its questions."""
        self._session, self._judge, self._desk, self._ledger = session, judge, desk, ledger
        self._is_over = is_over
        self._lock = allocate_lock()
        self._places: tuple[str, ...] = ()
        self._ground = HeldDirectories()
        self._tools = FileTools(self._ground, self._permit, self._start, block_renames)

    def tools(self) -> FileTools:
        """Over the projects of now, and what the policy adds to them."""
        policy = self._judge().law.policy
        added = (*policy.additional_readwrite_paths, *policy.additional_readonly_paths)
        places = (*self._judge().roots, *added)
        with self._lock:
            if places != self._places:
                self._ground.hold(places)
                self._places = places
            return self._tools

    def close(self) -> None:
        self._ground.close()

    def _start(self) -> str:
        return self._judge().cwd

    def _permit(self, tool: str, access: Access, path: str) -> Confirm:
        request = (
            ReadFile(path)
            if access in (Access.READ, Access.LOOK)
            else WriteFile(path, access is Access.DELETE)
        )
        decision = self._judge().check(request)
        if access is Access.LOOK:
            if decision.verdict is Verdict.DENY:
                raise _refused(path, decision, None)
            return _nothing
        decision, settlement = settled(
            decision,
            lambda about: self._desk().ask(self._question(tool, access, path, about), self._is_over),
            lambda: self._judge().check(request),
        )
        allowed = is_allowed(decision, settlement)
        self._ledger().file(tool, path, decision, settlement, allowed)
        if not allowed:
            raise _refused(path, decision, settlement)

        def confirm() -> None:
            now = self._judge().judged_again(request)
            if now.verdict is Verdict.DENY or (now.verdict is Verdict.ASK and settlement is None):
                raise _refused(path, now, None)

        return confirm

    def _question(self, tool: str, access: Access, path: str, decision: Decision) -> PermissionNeeded:
        return PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=self._session,
            capability=Capability.READ if access is Access.READ else Capability.WRITE,
            command=f"{tool} {path}",
            cwd=self._judge().cwd,
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
