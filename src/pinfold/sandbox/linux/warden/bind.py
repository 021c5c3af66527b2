"""Binds unix sockets to paths for callers, on a thread of the warden with hardly any rights.

The kernel gets the path exactly as the caller gave it: getsockname returns this path from then on, and
programs pass it to others. So the kernel walks the path at that moment, and it may lead elsewhere than
before. What must not happen on such a walk must be impossible for the thread that makes it.

Facts that shape it:
- For a process that may trace others, links of /proc lead into their roots, and init's root holds the whole
  machine. A Landlock domain ends that: its processes can trace none outside it. The domain also limits new
  names to where the plan lets commands make any. Domains and capabilities are a thread's own.
- A unix bind follows no link at the end: the new name is the path's last component. So a socket may have no
  name that is protected anywhere; its directory does not matter. An existing protected file is mounted
  read-only. Nor may the socket have a name that makes a repository (`name_check.completes`): git only asks
  whether `objects` and `refs` can be searched, and a socket's mode allows that.
- The thread takes the caller's working directory and umask. `unshare(CLONE_FS)` makes them a thread's own.
- The socket itself tells which inode was made (SIOCUNIXFILE, CAP_NET_ADMIN). The path may lead to a socket of
  the host by now.
"""

import os
from _queue import SimpleQueue
from _thread import start_new_thread
from collections.abc import Callable, Iterable

from pinfold.kernel import capabilities, landlock
from pinfold.kernel.namespaces import CLONE_FS, unshare
from pinfold.kernel.sockets import bind, bound_file
from pinfold.sandbox.linux.warden.blocking_connect import close
from pinfold.sandbox.linux.warden.bound_sockets import BoundSockets
from pinfold.sandbox.linux.warden.caller_state import CallerUmasks
from pinfold.sandbox.linux.warden.notification import Caller

Respond = Callable[[int], None]
"""Answers a call with an errno, or 0."""
EIO, EAGAIN, EACCES, ENOBUFS = 5, 11, 13, 105


class BindThread:
    """The thread starts with the first bind."""

    def __init__(self, proc: int, places: Iterable[str], bound: BoundSockets) -> None:
        """`places` are where commands may make names, by themselves or through the warden."""
        self.proc = proc
        self.domain = _domain(places)
        self.bound = bound
        self.asked: SimpleQueue[tuple[Caller, int, int, bytes, Respond]] = SimpleQueue()
        self.started = False

    def bind(self, caller: Caller, socket: int, directory: int, address: bytes, answer: Respond) -> None:
        """Answers later, from the thread. Takes ownership of the two descriptors."""
        if not self.started:
            caller.affinity.unpin_self()
            try:
                start_new_thread(self._serve, ())
            except RuntimeError:  # the user may start no further thread
                answer(EAGAIN)
                return close((socket, directory))
            self.started = True
        return self.asked.put((caller, socket, directory, address, answer))

    def _serve(self) -> None:
        unconfined = self._confine()
        umasks = CallerUmasks(self.proc)
        while True:
            caller, socket, directory, address, answer = self.asked.get()
            try:
                error = unconfined or self._bind(umasks, caller, socket, directory, address)
            except Exception as fault:  # noqa: BLE001  (an internal error refuses this bind only)
                error = getattr(fault, "errno", None) or EIO
            close((socket, directory))
            answer(error)

    def _confine(self) -> int:
        """0, or the errno why this thread may bind nothing."""
        if self.domain < 0:
            return EACCES
        try:
            unshare(CLONE_FS)
            power = 1 << capabilities.CAP_NET_ADMIN
            capabilities.capset(capabilities.Sets(power, power, 0))
            landlock.restrict_self(self.domain)
        except OSError as error:
            return error.errno or EIO
        return 0

    def _bind(self, umasks: CallerUmasks, caller: Caller, socket: int, directory: int, address: bytes) -> int:
        os.fchdir(directory)
        umasks.adopt(caller.pid)
        if not caller.is_waiting():
            return 0
        if self.bound.is_full():
            return ENOBUFS
        error = bind(socket, address)
        if not error and (inode := bound_file(socket)) is not None:
            self.bound.add(inode)
        return error


def _domain(places: Iterable[str]) -> int:
    """A ruleset with these directories' inodes, even if other directories replace them later; -1 if there is
    none."""
    try:
        ruleset = landlock.create_ruleset(landlock.MAKE_SOCK)
        for place in places:
            landlock.allow_path(ruleset, place, landlock.MAKE_SOCK)
    except OSError:
        return -1
    return ruleset
