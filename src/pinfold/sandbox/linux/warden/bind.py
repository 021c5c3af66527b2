"""Binds of unix paths, on a caller's behalf, by a thread of the warden's that can do little else.

The path is used as the caller gave it, word for word, since that is what getsockname tells its program for
good, and programs hand it to others. So the kernel walks it, at that moment, whatever it was a moment
before; and what must not happen on such a walk must be impossible for whoever makes it.

Facts that shape it:
- Links of /proc lead into other processes' roots for those who may trace them, and init's root holds the
  whole machine. A Landlock domain ends that: no process outside of it can be traced from inside. It also
  holds new names to where the plan lets commands make any. Domains and capabilities are a thread's own.
- A unix bind follows no link at the end: the name that appears is the path's last component. So a socket may
  have no name that is protected anywhere, and where it would lie does not matter. What is protected and
  exists is mounted read-only. Nor a name that a repository is made of (`bare`): git asks of `objects` and
  `refs` only whether they may be searched, and a socket has the mode for it.
- The working directory and the umask are the caller's. `unshare(CLONE_FS)` makes them a thread's own.
- Which inode was made is told by the socket (SIOCUNIXFILE, CAP_NET_ADMIN), not by the path, which may lead to
  a socket of the host by now.
"""

import os
from _queue import SimpleQueue
from _thread import start_new_thread
from collections.abc import Callable, Iterable

from pinfold.kernel import capabilities, landlock
from pinfold.kernel.namespaces import CLONE_FS, unshare
from pinfold.kernel.sockets import bind, bound_file
from pinfold.sandbox.linux.warden.blocking_connect import close
from pinfold.sandbox.linux.warden.bound_sockets import Bound
from pinfold.sandbox.linux.warden.caller_state import Umasks
from pinfold.sandbox.linux.warden.notification import Caller

Answer = Callable[[int], None]
"""Answers a call with an errno, or 0."""
EIO, EAGAIN, EACCES, ENOBUFS = 5, 11, 13, 105


class Binding:
    """Its thread starts with the first bind."""

    def __init__(self, proc: int, places: Iterable[str], bound: Bound) -> None:
        """`places` are where commands may make names, by themselves or through the warden."""
        self.proc = proc
        self.domain = _domain(places)
        self.bound = bound
        self.asked: SimpleQueue[tuple[Caller, int, int, bytes, Answer]] = SimpleQueue()
        self.started = False

    def bind(self, caller: Caller, socket: int, directory: int, address: bytes, answer: Answer) -> None:
        """Answers later, from the thread. Takes the two descriptors."""
        if not self.started:
            caller.turns.rest()
            try:
                start_new_thread(self._serve, ())
            except RuntimeError:  # the user's processes are all used up
                answer(EAGAIN)
                return close((socket, directory))
            self.started = True
        return self.asked.put((caller, socket, directory, address, answer))

    def _serve(self) -> None:
        unconfined = self._confine()
        umasks = Umasks(self.proc)
        while True:
            caller, socket, directory, address, answer = self.asked.get()
            try:
                error = unconfined or self._bind(umasks, caller, socket, directory, address)
            except Exception as fault:  # noqa: BLE001  (a fault of ours is this bind's no, and not the end of all)
                error = getattr(fault, "errno", None) or EIO
            close((socket, directory))
            answer(error)

    def _confine(self) -> int:
        """0, or why nothing may be bound by this thread."""
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

    def _bind(self, umasks: Umasks, caller: Caller, socket: int, directory: int, address: bytes) -> int:
        os.fchdir(directory)
        umasks.take_over(caller.pid)
        if not caller.is_waiting():
            return 0
        if self.bound.is_full():
            return ENOBUFS
        error = bind(socket, address)
        if not error and (inode := bound_file(socket)) is not None:
            self.bound.add(inode)
        return error


def _domain(places: Iterable[str]) -> int:
    """A ruleset that holds these places by their inodes, whatever is put in their stead later; or none."""
    try:
        ruleset = landlock.create_ruleset(landlock.MAKE_SOCK)
        for place in places:
            landlock.allow_path(ruleset, place, landlock.MAKE_SOCK)
    except OSError:
        return -1
    return ruleset
