"""The keeper: makes sessions and pens on request, and is what they all end with.

The host starts it once, as `python -I -S`, with a socket as its standard input. It has one thread and imports
the standard library alone, so it may fork; the host, which has threads, may not.

Facts that shape it:
- PR_SET_PDEATHSIG follows the parent **thread**, and a host's thread may end while the host lives on: the
  host is watched by a pidfd.
- A session's init is made by a helper with CLONE_PARENT, so that it is our own child and dies with us.
- We ignore SIGCHLD, and so do the helpers and init: the kernel reaps for us.
- Only the kernel knows the pid that a process inside has outside: it adds it to the message
  (SCM_CREDENTIALS).
- A process that is not dumpable keeps its /proc/PID/ns closed even to its owner outside, so init opens its
  namespaces itself, before, and sends them.
"""

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from pinfold.kernel import namespaces
from pinfold.kernel.process import close_all_but, pidfd_open, pidfd_send_signal, set_name
from pinfold.model.names import NameRule
from pinfold.sandbox.linux import channel, init
from pinfold.sandbox.linux.assembly import assemble
from pinfold.sandbox.linux.failure import Failed, words_of
from pinfold.sandbox.linux.groups import KEEPER, Groups

NEW = (
    namespaces.CLONE_NEWUSER
    | namespaces.CLONE_NEWNS
    | namespaces.CLONE_NEWPID
    | namespaces.CLONE_NEWNET
    | namespaces.CLONE_NEWIPC
    | namespaces.CLONE_NEWUTS
    | namespaces.CLONE_NEWCGROUP
)
PATIENCE = 30.0


def main() -> None:
    """Serves the host whose end of the socket is our standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_name(KEEPER)
    control = socket.socket(fileno=os.dup(0))
    try:
        try:
            host = settle(control)
        except OSError as error:
            channel.receive(control)
            channel.send(control, ("failed", words_of(error)))
            sys.exit(1)
        keeper = Keeper(control)
        keeper.prepare()
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(host, select.POLLIN)
        try:
            while not any(descriptor == host for descriptor, _ in poll.poll()):
                keeper.answer()
        finally:
            keeper.remove_groups()
    except channel.Closed:
        sys.exit(0)


def settle(control: socket.socket) -> int:
    """Leaves behind what the host gave us but the way to it; its pidfd."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    # posix_spawn passes on whatever the host has left inheritable.
    close_all_but({0, 1, 2, control.fileno()})
    os.chdir("/")
    return os.pidfd_open(os.getppid())


class Keeper:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.sessions: dict[int, list[int]] = {}
        """Each session's init, by pidfd, and the namespaces that its pens join."""
        self.pens: dict[int, int] = {}
        """Each pen's spawner, by pidfd."""
        self.groups = Groups()
        self.last = 0
        self.ready: list[tuple[int, int, list[int]]] = []
        """Sessions made before anybody asked."""

    def prepare(self) -> None:
        """Makes the first session while the host still loads what it needs to ask for one."""
        with contextlib.suppress(Failed, OSError):
            self.ready.append(make(found_session))

    def answer(self) -> None:
        request, _ = channel.receive(self.control)
        try:
            reply, descriptors = self.do(request)
        except Exception as error:  # noqa: BLE001  (a fault in one answer must not end every session)
            reply, descriptors = ("failed", words_of(error)), ()
        channel.send(self.control, reply, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def do(self, request: object) -> tuple[tuple[object, ...], tuple[int, ...]]:
        match request:
            case ("session",):
                pid, ours, held = self.ready.pop() if self.ready else make(found_session)
                self.last += 1
                self.sessions[self.last] = [pidfd_open(pid), *held]
                return ("made", self.last, pid), (ours,)
            case ("pen", int(session), tuple(operations), dict(filters), tuple(names)):
                _, *held, pids = self.sessions[session]
                host, wardens = channel.pair()
                rules = [NameRule(*name) for name in names]
                limits = [operation[1:] for operation in operations if operation[0] == "group"]
                operations = tuple(operation for operation in operations if operation[0] != "group")

                def build(theirs: socket.socket) -> None:
                    join(held)
                    assemble(theirs, wardens, pids, operations, filters, rules)

                try:
                    pid, ours, _ = make(build)
                finally:
                    wardens.close()
                self.last += 1
                self.pens[self.last] = pidfd_open(pid)
                try:
                    for memory, processes in limits:
                        self.groups.hold(self.last, pid, memory, processes)
                except (Failed, OSError):
                    self.close(self.last)
                    os.close(ours)
                    raise
                return ("made", self.last, pid), (ours, host.detach())
            case ("close", int(number)):
                self.close(number)
                return ("closed",), ()
        raise Failed("unknown request")

    def close(self, number: int) -> None:
        descriptors = self.sessions.pop(number, None) or [self.pens.pop(number, -1)]
        if descriptors == [-1]:
            raise Failed(f"there is no session or pen {number}")
        with contextlib.suppress(ProcessLookupError):
            pidfd_send_signal(descriptors[0], signal.SIGKILL)
        wait_ended(descriptors[0])
        for descriptor in descriptors:
            os.close(descriptor)
        self.groups.let_go(number)

    def remove_groups(self) -> None:
        """Our end is everybody's; but a group is removed by hand, once all in it have ended."""
        if self.groups.made:
            for number in (*self.sessions, *self.pens):
                self.close(number)


def wait_ended(process: int) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll(PATIENCE * 1000)


def found_session(theirs: socket.socket) -> None:
    """New namespaces, and an init in them: a child of the keeper itself, which dies with it."""
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(NEW)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    if namespaces.fork(namespaces.CLONE_PARENT) == 0:
        init.serve(theirs)


def join(held: list[int]) -> None:
    """Into the session's namespaces but its pids, then into a mount namespace of our own."""
    for descriptor in held:
        namespaces.setns(descriptor)
    namespaces.unshare(namespaces.CLONE_NEWNS)


def make(build: Callable[[socket.socket], None]) -> tuple[int, int, list[int]]:
    """A process in other namespaces, once it is ready: its pid, our end of its socket, what it sent.

    A helper of ours builds what is needed and leaves the process there.
    """
    ours, theirs = channel.pair()
    channel.name_senders(ours, True)
    if os.fork() == 0:
        ours.close()
        _guarded(theirs, lambda: build(theirs))
    theirs.close()
    ours.settimeout(PATIENCE)
    try:
        message, held, pid = channel.receive_from(ours)
    except (channel.Closed, TimeoutError):
        raise Failed("the process that builds the pen ended without a word") from None
    if message != ("ready",) or not pid:
        raise Failed(str(message[1]) if message[0] == "failed" else "no answer that is known")
    channel.name_senders(ours, False)
    ours.settimeout(None)
    return pid, ours.detach(), held


def _guarded(theirs: socket.socket, work: Callable[[], None]) -> None:
    """Runs the work and ends this process; a failure is told before."""
    try:
        work()
    except channel.Closed:
        pass
    except BaseException as error:  # noqa: BLE001  (whatever it was, this process must end here and say so)
        with contextlib.suppress(channel.Closed, OSError):
            channel.send(theirs, ("failed", words_of(error)))
    finally:
        os._exit(0)
