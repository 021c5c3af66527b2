"""The backends that a session runs its commands with: a fence, opened when it is first needed, and none.

One keeper serves all sessions of this process. A fork of it gets its own.

Sessions that nobody has closed when Python ends are closed then, so that each run has its end.

Facts (atexit): what was registered last is called first. None of it is called where Python is killed, nor in
a fork that ends by `os._exit`, as those of multiprocessing do.
"""

import atexit
import os
import threading
from _weakrefset import WeakSet  # without the rest of `weakref`, which takes a cold start half a millisecond
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from pinfold.model.errors import ConfinementError, SandboxUnavailable
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.backend import Backend, Elevation, Found, Outside, SandboxSession
from pinfold.sandbox.probe import require_platform
from pinfold.sandbox.threads import require_free
from pinfold.workspace.scan import WorkspaceScanner
from pinfold.workspace.watcher import WorkspaceWatcher

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
    """For what is done outside of every pen: meanwhile those of all sessions move nothing (`Backend`)."""
    try:
        backend = _backend()
    except SandboxUnavailable:
        from pinfold.sandbox.unsandboxed import UnsandboxedBackend

        backend = UnsandboxedBackend()
    return backend.block_renames()


def _close(backend: Backend, owner: int) -> None:
    if os.getpid() == owner:
        backend.close()


class Fences:
    """May be used from any thread."""

    def __init__(
        self,
        roots: tuple[str, ...],
        home: str,
        agent: str,
        make_outside: Callable[[], Outside],
        elevation: Elevation,
        look_around: Callable[[], None],
        env_files: Callable[[], tuple[str, ...]],
    ) -> None:
        """`agent` is the socket of the user's ssh agent, if there is one. `make_outside` makes the way out of
        pens, which ends with them. `look_around` is called on every round of who watches the workspace for
        them, and `env_files` tells what is hidden by then."""
        self._roots = roots
        self._make_outside = make_outside
        self._outside = make_outside()
        self._elevation = elevation
        self._look_around = look_around
        self._surveyor = WorkspaceScanner(roots, home, agent=agent, env_files=env_files)
        self._lookout = WorkspaceWatcher(self._surveyor, self._changed, self._tend)
        self._lock = threading.RLock()
        self._pens: SandboxSession | None = None
        self._unfenced: SandboxSession | None = None

    @property
    def are_open(self) -> bool:
        """Whether there are pens already; they may have ended since."""
        return self._pens is not None

    def fenced(self) -> SandboxSession:
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
                        self._roots, self._lookout, self._outside, self._elevation
                    )
                except SandboxUnavailable:
                    raise
                except ConfinementError as error:
                    raise SandboxUnavailable(str(error)) from None
            return self._pens

    def _changed(self, policy: SandboxPolicy, found: Found) -> None:
        if (pens := self._pens) is not None:
            pens.hold(policy, found)

    def _tend(self) -> None:
        self._look_around()
        for opened in (self._pens, self._unfenced):
            if opened is not None:
                opened.tend(IDLE)

    @property
    def have_processes(self) -> bool:
        """Whether commands run, or have left processes running."""
        with self._lock:
            return any(each.has_processes() for each in (self._pens, self._unfenced) if each is not None)

    def catch_up(self) -> None:
        """Returns when the wardens have told what they have made by now."""
        if (pens := self._pens) is not None:
            pens.catch_up()

    def unfenced(self) -> SandboxSession:
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


class Closed(Protocol):
    def close(self) -> None: ...


_open: WeakSet[Closed] = WeakSet()


def close_at_exit(session: Closed) -> None:
    """Unless it was closed before: more is no harm."""
    if not _open:
        close_first()
    _open.add(session)


def close_first() -> None:
    """Sessions are closed before whatever was to be ended until now."""
    atexit.unregister(_close_open)
    atexit.register(_close_open)


def _close_open() -> None:
    for session in list(_open):
        with suppress(Exception):  # there are others
            session.close()


def make_room() -> None:
    """Raises the number of descriptors that this process may have: each session takes some ten."""
    from pinfold.sandbox.linux.limits import raise_descriptor_limit

    raise_descriptor_limit()
