"""What a session works with besides its judge: each part is made when it is first wanted, and closed once.

Knows how the parts are put together, not in which order a request passes them.
"""

import os
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pinfold.model.errors import ConfinementError, SandboxUnavailable
from pinfold.model.permission import Capability
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.probe import sandbox_trouble
from pinfold.session.judge import Judge
from pinfold.session.resources import close_at_exit
from pinfold.state.directory import approvals_file
from pinfold.workspace.made_inside import MadeInside

if TYPE_CHECKING:
    from pinfold.approval import Approver
    from pinfold.approval.broker import Desk
    from pinfold.files import FileTools
    from pinfold.session.files import SessionFiles
    from pinfold.session.journal import Ledger
    from pinfold.session.resources import Fences
    from pinfold.session.write_questions import Elevations

CLOSED = "the session is closed; open another"


class Parts:
    """One session's. May be used from any thread, of the process that made it."""

    def __init__(
        self,
        session: str,
        judge: Callable[[], Judge],
        user: str | Mapping[str, object] | None,
        environ: Mapping[str, str],
        approvers: "tuple[Approver, ...]",
        notes_reads: bool,
        one_command: bool,
        write_down: Callable[[], None],
        made: MadeInside,
    ) -> None:
        """`write_down` keeps what the session has, for a later `resume`."""
        self._session, self._judge, self._user, self._environ = session, judge, user, environ
        self._approvers = approvers
        self._notes_reads, self._one_command = notes_reads, one_command
        self._write_down = write_down
        self._made = made
        self._lock = allocate_lock()
        self._owner = os.getpid()
        self._is_penned = bool(environ.get("PINFOLD_PEN"))
        self.is_closed = False
        self._fences: Fences | None = None
        self._ledger: Ledger | None = None
        self._desk: Desk | None = None
        self._files: SessionFiles | None = None
        self.elevation: Elevations | None = None
        """There once there is a fence."""

    def require_open(self) -> None:
        if self.is_closed:
            raise ConfinementError(CLOSED)
        if self._is_penned and self._judge().is_inside_sandbox:
            raise SandboxUnavailable("this is inside a pen already: run the command itself, without pinfold")
        if os.getpid() != self._owner:
            raise ConfinementError("this session belongs to the process that opened it; open another")

    @property
    def notices(self) -> tuple[str, ...]:
        """What was not written down, and what the desk could not keep."""
        written = self._ledger.troubles if self._ledger else ()
        return (*written, *(self._desk.notices if self._desk else ()))

    def desk(self) -> "Desk":
        with self._lock:
            if self._desk is None:
                from pinfold.approval.broker import Desk
                from pinfold.approval.store import Store
                from pinfold.session.choices import Footing

                footing = Footing(self._judge, self._user, self._environ, self._is_under_way, self._ungranted)
                store = Store(approvals_file(self._environ))
                self._desk = Desk(self._approvers, footing, store, self._one_command)
            return self._desk

    def _is_under_way(self, run: str) -> bool:
        """Whether a run, by its row in the journal, has not ended yet."""
        ledger = self._ledger
        return ledger is not None and ledger.is_under_way(int(run))

    def has_anybody(self) -> bool:
        """Whether there is an approver who could be asked."""
        from pinfold.approval import is_there

        return any(map(is_there, self._approvers))

    def files(self) -> "FileTools":
        self.require_open()
        with self._lock:
            if self._files is None:
                from pinfold.session.files import SessionFiles

                self._files = SessionFiles(
                    self._session, self._judge, self.desk, self.ledger, lambda: self.is_closed
                )
        return self._files.tools()

    def ledger(self) -> "Ledger":
        self.require_open()
        return self._books()

    def _books(self) -> "Ledger":
        """The ledger, in a session that is being closed too."""
        with self._lock:
            if self._ledger is None:
                self.require_open()
                from pinfold.session.journal import Ledger

                judge = self._judge()
                size = judge.law.settings.journal.size
                self._ledger = Ledger(self._session, judge.roots, self._environ, size)
                close_at_exit(self)
                if not self._one_command:
                    self._write_down()
            return self._ledger

    def keep(self, is_known: bool = False) -> None:
        """Writes down what the session has by now, once it has done anything or is known for what it did."""
        if (is_known or self._ledger is not None) and not self._one_command:
            self._write_down()

    def fences(self) -> "Fences":
        self.require_open()
        with self._lock:
            if self._fences is None:
                from pinfold.session.gateway import Gateway
                from pinfold.session.resources import Fences

                self._fences = Fences(
                    self._judge().roots,
                    self._judge().home,
                    self._environ.get("SSH_AUTH_SOCK", ""),
                    lambda: Gateway(self._session, self._judge, self.desk, self._books, self._environ),
                    self._elevations(),
                    lambda: self._judge().law.look_around(),
                    lambda: self._judge().law.closed_env_files(),
                )
                self._made.catch_up = self._fences.catch_up
            return self._fences

    @property
    def have_processes(self) -> bool:
        """Whether commands run, or have left processes running."""
        return self._fences is not None and self._fences.have_processes

    def sandbox_trouble(self) -> str:
        """What speaks against a fence now: nothing while one stands."""
        return "" if self._fences and self._fences.are_open else sandbox_trouble()

    def _elevations(self) -> "Elevations":
        """Preconditions: the lock is held."""
        if self.elevation is None:
            from pinfold.session.write_questions import Elevations

            anybody = self.has_anybody()
            self.elevation = Elevations(
                self._session,
                self._judge,
                self.desk,
                self.ledger,
                anybody,
                self._recalls_writes,
                self._notes_reads,
                self._made.add,
            )
        return self.elevation

    def _recalls_writes(self) -> bool:
        """Whether a person has said, for longer than a run, that something may be written."""
        has_any = os.path.exists(approvals_file(self._environ))
        return has_any and self.desk().recalls(Capability.WRITE, self._session)

    def widened(self, policy: SandboxPolicy) -> SandboxPolicy:
        """A command's policy, with what was granted for the session."""
        return self.elevation.widened(policy) if self.elevation else policy

    def _ungranted(self, policy: SandboxPolicy) -> SandboxPolicy:
        return self.elevation.ungranted(policy) if self.elevation else policy

    def change_roots(self, roots: tuple[str, ...]) -> None:
        if self._fences is not None:
            self._fences.change_roots(roots)

    def require_free(self) -> None:
        """Raises where this thread is in the middle of what a change or the end would wait for."""
        if (fences := self._fences) is not None:
            fences.require_free()

    def close(self) -> None:
        """Ends everything that runs; nothing can be made any more. What runs is not a fork's to end."""
        if os.getpid() != self._owner:
            self.is_closed = True
            return
        self.require_free()
        with self._lock:
            fences, self._fences = self._fences, None
            files, self._files = self._files, None
            self.is_closed = True
        self._judge().close()
        if files is not None:
            files.close()
        if fences is not None:
            fences.close()
        self.keep()
        # Last: how the connections ended that were open is written down too.
        with self._lock:
            ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()
