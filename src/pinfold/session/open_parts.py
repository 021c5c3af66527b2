"""What a session keeps open besides its judge: journal, broker, sandbox, file tools.

Each is opened when it is first needed, and all are closed at once. This module knows how they are put
together, not in which order a request passes them.

One keeper serves all sessions of this process. A fork of it gets its own.

Sessions that are still open when Python ends are closed then, so that each run has its end.

Facts (atexit): what was registered last is called first. None of it is called where Python is killed, nor in
a fork that ends by `os._exit`, as those of multiprocessing do.
"""

import atexit
import os
import threading
from _thread import allocate_lock
from _weakrefset import WeakSet  # without the rest of `weakref`, which takes a cold start half a millisecond
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

from pinfold.model.context import Context
from pinfold.model.errors import ConfinementError, SandboxUnavailable
from pinfold.model.outer_sandbox import outer_sandbox, with_outer_sandbox
from pinfold.model.permission import Capability
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import Settings
from pinfold.sandbox.backend import Backend, Elevation, Found, Outside, SandboxSession
from pinfold.sandbox.probe import require_platform, sandbox_trouble
from pinfold.sandbox.threads import require_free
from pinfold.session.judge import Judge
from pinfold.state.directory import approvals_file
from pinfold.workspace.made_inside import MadeInside
from pinfold.workspace.scan import WorkspaceScanner
from pinfold.workspace.watcher import WorkspaceWatcher

if TYPE_CHECKING:
    from pinfold.approval import Approver
    from pinfold.approval.broker import Desk
    from pinfold.approval.notifications import Surroundings
    from pinfold.approval.write_questions import Elevations
    from pinfold.files import FileTools
    from pinfold.session.files import SessionFiles
    from pinfold.session.journal import Ledger

CLOSED = "the session is closed; open another"
FilePaths = Sequence[str | os.PathLike[str]]
IDLE = 300.0
"""Seconds after which a pen without a command is given up; the next command of its policy gets another."""

_lock = threading.Lock()
_backends: dict[int, Backend] = {}


def _backend() -> Backend:
    with _lock:
        if os.getpid() not in _backends:
            _backends.clear()
            _backends[os.getpid()] = _new()
        return _backends[os.getpid()]


def _new() -> Backend:
    require_platform()
    from pinfold.sandbox.linux.host.backend import LinuxBackend

    backend = LinuxBackend()
    atexit.register(_close, backend, os.getpid())
    close_first()
    return backend


def block_renames() -> AbstractContextManager[None]:
    """For what is done outside of every pen: meanwhile the pens of all sessions move nothing (`Backend`)."""
    try:
        backend = _backend()
    except SandboxUnavailable:
        from pinfold.sandbox.unsandboxed import UnsandboxedBackend

        backend = UnsandboxedBackend()
    return backend.block_renames()


def _close(backend: Backend, owner: int) -> None:
    if os.getpid() == owner:
        backend.close()


class Sandboxes:
    """Where a session's commands run: in its sandbox, which is opened when it is first needed, or outside.
    May be used from any thread."""

    def __init__(
        self,
        judge: Judge,
        make_outside: Callable[[], Outside],
        elevation: Elevation,
        scratch: str,
    ) -> None:
        """`make_outside` makes the gateway of a sandbox, which ends with it. `scratch` is as in
        `Backend.open_session`."""
        self._judge = judge
        self._roots = judge.roots
        self._make_outside = make_outside
        self._outside = make_outside()
        self._elevation, self._scratch = elevation, scratch
        self._surveyor = WorkspaceScanner(
            judge.roots, judge.home, environs=lambda: judge.named_by, env_files=self._env_files
        )
        self._lookout = WorkspaceWatcher(self._surveyor, self._changed, self._tend)
        self._lock = threading.RLock()
        self._pens: SandboxSession | None = None
        self._unfenced: SandboxSession | None = None

    @property
    def are_open(self) -> bool:
        """Whether there are pens already; they may have ended since."""
        return self._pens is not None

    def sandboxed(self) -> SandboxSession:
        """The session's pens; raises SandboxUnavailable, in one line, where there can be none."""
        require_free(self._lock)
        with self._lock:
            self._lookout.require_sight()
            if self._pens is not None and not self._pens.is_alive():
                # The keeper was killed, and everything of the session with it: what comes next starts anew.
                self._pens.close()
                self._pens = None
                self._outside = self._make_outside()
            if self._pens is None:
                self._surveyor.begin()
                try:
                    self._pens = _backend().open_session(
                        self._roots, self._lookout, self._outside, self._elevation, self._scratch
                    )
                except SandboxUnavailable:
                    raise
                except ConfinementError as error:
                    raise SandboxUnavailable(with_outer_sandbox(str(error), os.environ)) from None
            return self._pens

    def _changed(self, policy: SandboxPolicy, found: Found) -> None:
        if (pens := self._pens) is not None:
            pens.hold(policy, found)

    def _env_files(self) -> tuple[str, ...]:
        return self._judge.source.closed_env_files()

    def _tend(self) -> None:
        self._judge.source.look_around()
        for opened in (self._pens, self._unfenced):
            if opened is not None:
                opened.tend(IDLE)

    @property
    def have_processes(self) -> bool:
        """Whether commands run, or have left processes running."""
        with self._lock:
            return any(each.has_processes() for each in (self._pens, self._unfenced) if each is not None)

    def catch_up(self) -> None:
        """Returns once the wardens have reported the names that they have made by now."""
        if (pens := self._pens) is not None:
            pens.catch_up()

    def unsandboxed(self) -> SandboxSession:
        with self._lock:
            if self._unfenced is None:
                from pinfold.sandbox.unsandboxed import UnsandboxedBackend

                self._unfenced = UnsandboxedBackend().open_session(self._roots)
            return self._unfenced

    def change_roots(self, roots: tuple[str, ...]) -> None:
        require_free(self._lock)
        with self._lock:
            self._roots = roots
            self._surveyor = self._surveyor.turned_to(roots)
            self._lookout.turn_to(self._surveyor)
            self._outside.change()
            if self._pens is not None:
                self._pens.change_roots(roots)

    def require_free(self) -> None:
        """Raises where this thread is in the middle of what `close` would wait for."""
        require_free(self._lock)
        if self._pens is not None:
            self._pens.require_free()

    def close(self) -> None:
        """Ends everything that runs."""
        self._lookout.close()
        with self._lock:
            for opened in (self._pens, self._unfenced):
                if opened is not None:
                    opened.close()
            self._pens = self._unfenced = None


class SessionBasis:
    """What answers depend on: the settings in force, the session's grants, and the user's settings file."""

    def __init__(self, resources: "Resources", file: str) -> None:
        self._resources = resources
        self.file = file
        """The user's own settings; empty where they are no file."""
        self._last: tuple[Settings | None, SandboxPolicy | None, str] = (None, None, "")
        self._policies: list[tuple[SandboxPolicy, str]] = []

    def fingerprint(self) -> str:
        context = self._resources.now()
        known = self._last
        if known[0] is not context.settings or known[1] is not context.policy:
            self._last = known = context.settings, context.policy, fingerprint_of(context)
        return known[2]

    def policy_fingerprint(self, policy: SandboxPolicy) -> str:
        from pinfold.policy.fingerprint import policy_fingerprint

        policy = self._resources.ungranted(policy)
        found = next((text for known, text in self._policies if known is policy), "")
        if not found:
            found = policy_fingerprint(policy)
            self._policies = [*self._policies[-7:], (policy, found)]
        return found

    def roots(self) -> tuple[str, ...]:
        return self._resources.judge.roots

    def lasts(self) -> float | None:
        return self._resources.settings.approvals.keep

    def is_under_way(self, run: str) -> bool:
        return self._resources.is_under_way(run)

    def write_rules(self, key: str, rules: tuple[str, ...]) -> None:
        from pinfold.policy.hosts import require_pattern
        from pinfold.settings.change import add_command, add_host
        from pinfold.shell.rule_text import shape

        for rule in rules:
            if key == "network.allow":
                add_host(self.file, key, rule, require_pattern)
            else:
                add_command(self.file, key, rule, shape)


def fingerprint_of(context: Context) -> str:
    """What answers given in this context depend on: one that was given in another holds no more."""
    from pinfold.policy.fingerprint import fingerprint

    return fingerprint(context.settings, context.policy)


class Resources:
    """One session's. May be used from any thread, of the process that made it."""

    def __init__(
        self,
        id: str,
        judge: Judge,
        settings_file: str,
        environ: Mapping[str, str],
        approvers: "tuple[Approver, ...]",
        notes_reads: bool,
        one_command: bool,
        write_down: Callable[[], None],
        made: MadeInside,
        scratch: str,
    ) -> None:
        """`write_down` keeps what the session has, for a later `resume`. `scratch` is as in
        `Backend.open_session`."""
        self.id, self.judge, self.environ = id, judge, environ
        self._settings_file = settings_file
        self._approvers = approvers
        self.notes_reads, self._one_command = notes_reads, one_command
        self._write_down = write_down
        self.made = made
        self._scratch = scratch
        self._lock = allocate_lock()
        self._owner = os.getpid()
        self._is_penned = bool(environ.get("PINFOLD_PEN"))
        self.is_closed = False
        self._sandboxes: Sandboxes | None = None
        self._ledger: Ledger | None = None
        self._desk: Desk | None = None
        self._files: SessionFiles | None = None
        self.elevation: Elevations | None = None
        """There once there is a sandbox."""

    def require_open(self) -> None:
        if self.is_closed:
            raise ConfinementError(CLOSED)
        if self._is_penned and self.judge.is_inside_sandbox:
            raise SandboxUnavailable(outer_sandbox({"PINFOLD_PEN": "1"}))
        if os.getpid() != self._owner:
            raise ConfinementError("this session belongs to the process that opened it; open another")

    # What is in force

    def now(self) -> Context:
        """What a request is judged by that comes now. An open sandbox is proof enough that there is one."""
        is_open = self._sandboxes is not None and self._sandboxes.are_open
        return self.judge.now("" if is_open else sandbox_trouble())

    @property
    def have_processes(self) -> bool:
        """Whether commands run, or have left processes running."""
        return self._sandboxes is not None and self._sandboxes.have_processes

    @property
    def settings(self) -> Settings:
        """The settings in force. The workspace is not looked through for them."""
        return self.judge.source.settings

    @property
    def settings_files(self) -> tuple[str, ...]:
        """Every path that settings are read from, or would be if it were there."""
        return self.judge.source.files

    @property
    def notices(self) -> tuple[str, ...]:
        """What could not be written down, and what answers could not be kept."""
        written = self._ledger.troubles if self._ledger else ()
        return (*written, *(self._desk.notices if self._desk else ()))

    # What is asked

    @property
    def desk(self) -> "Desk":
        with self._lock:
            if self._desk is None:
                from pinfold.approval.broker import Desk
                from pinfold.approval.notifications import with_person_elsewhere
                from pinfold.approval.store import Store

                footing = SessionBasis(self, self._settings_file)
                store = Store(approvals_file(self.environ))
                approvers = with_person_elsewhere(self._approvers, self._surroundings())
                self._desk = Desk(approvers, footing, store, self._one_command)
            return self._desk

    def _surroundings(self) -> "Surroundings":
        from pinfold.approval.notifications import Surroundings
        from pinfold.session.serialize import question_as_plain
        from pinfold.state.directory import webhook_secret

        def writable() -> tuple[str, ...]:
            return (*self.judge.roots, *self.judge.source.policy.additional_readwrite_paths)

        secret = partial(webhook_secret, self.environ)
        return Surroundings(
            lambda: self.settings.approvals, self.environ, writable, question_as_plain, secret
        )

    def is_under_way(self, run: str) -> bool:
        """Whether a run, by its row in the journal, has not ended yet."""
        ledger = self._ledger
        return ledger is not None and ledger.is_under_way(int(run))

    def has_anybody(self) -> bool:
        """Whether there is an approver who could be asked."""
        from pinfold.approval import is_there

        return any(map(is_there, self._approvers)) or bool(self.settings.approvals.webhook)

    def recalls_writes(self) -> bool:
        """Whether a person has said, for longer than a run, that something may be written."""
        has_any = os.path.exists(approvals_file(self.environ))
        return has_any and self.desk.recalls(Capability.WRITE, self.id)

    def widened(self, policy: SandboxPolicy, context: Context) -> SandboxPolicy:
        """A command's policy, with what was granted for the session."""
        return self.elevation.widened(policy, context) if self.elevation else policy

    def ungranted(self, policy: SandboxPolicy) -> SandboxPolicy:
        """A pen's policy, without what was granted for the session."""
        return self.elevation.ungranted(policy) if self.elevation else policy

    # What is done

    @property
    def files(self) -> "FileTools":
        return self._session_files().tools()

    def permit_tool(self, tool: str, reads: FilePaths, writes: FilePaths, deletes: FilePaths) -> None:
        from pinfold.files import Access

        for access, paths in ((Access.READ, reads), (Access.WRITE, writes), (Access.DELETE, deletes)):
            if isinstance(paths, str | bytes | os.PathLike):
                raise TypeError(f"paths must be a list, got {paths!r}")
            for path in paths:
                self._session_files().permit(tool, access, os.fspath(path))

    def _session_files(self) -> "SessionFiles":
        self.require_open()
        with self._lock:
            if self._files is None:
                from pinfold.session.files import SessionFiles

                self._files = SessionFiles(self)
            return self._files

    @property
    def ledger(self) -> "Ledger":
        self.require_open()
        return self.last_ledger

    @property
    def last_ledger(self) -> "Ledger":
        """The ledger, in a session that is being closed too."""
        with self._lock:
            if self._ledger is None:
                self.require_open()
                from pinfold.session.journal import Ledger

                size = self.settings.journal.size
                self._ledger = Ledger(self.id, self.judge.roots, self.environ, size)
                close_at_exit(self)
                if not self._one_command:
                    self._write_down()
            return self._ledger

    def keep(self, is_known: bool = False) -> None:
        """Writes down what the session has by now, once it has done anything or is known for what it did."""
        if (is_known or self._ledger is not None) and not self._one_command:
            self._write_down()

    @property
    def sandboxes(self) -> Sandboxes:
        self.require_open()
        with self._lock:
            if self._sandboxes is None:
                from pinfold.approval.write_questions import Elevations
                from pinfold.network.host.gateway import Gateway

                self.elevation = self.elevation or Elevations(self)
                make_outside = partial(Gateway, self)
                self._sandboxes = Sandboxes(self.judge, make_outside, self.elevation, self._scratch)
                self.made.catch_up = self._sandboxes.catch_up
            return self._sandboxes

    # What changes and ends it

    def change_roots(self, roots: tuple[str, ...]) -> None:
        if self._sandboxes is not None:
            self._sandboxes.change_roots(roots)

    def require_free(self) -> None:
        """Raises where this thread is in the middle of what a change or the end would wait for."""
        if (sandboxes := self._sandboxes) is not None:
            sandboxes.require_free()

    def close(self) -> None:
        """Ends everything that runs; nothing can be made any more. What runs is not a fork's to end."""
        if os.getpid() != self._owner:
            self.is_closed = True
            return
        self.require_free()
        with self._lock:
            sandboxes, self._sandboxes = self._sandboxes, None
            files, self._files = self._files, None
            self.is_closed = True
        self.judge.close()
        if files is not None:
            files.close()
        if sandboxes is not None:
            sandboxes.close()
        if self._desk is not None:
            self._desk.calls.close()
        self.keep()
        # Last: how the connections ended that were open is written down too.
        with self._lock:
            ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()


_open: WeakSet[Resources] = WeakSet()


def close_at_exit(resources: Resources) -> None:
    """Unless they were closed before: more is no harm."""
    if not _open:
        close_first()
    _open.add(resources)


def close_first() -> None:
    """Sessions are closed before anything that was to be ended until now."""
    atexit.unregister(_close_open)
    atexit.register(_close_open)


def _close_open() -> None:
    for resources in list(_open):
        with suppress(Exception):  # there are others
            resources.close()


def make_room() -> None:
    """Raises the number of descriptors that this process may have: each session takes some ten."""
    from pinfold.sandbox.linux.limits import raise_descriptor_limit

    raise_descriptor_limit()
