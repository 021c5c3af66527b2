"""The keeper: makes sessions and pens on request, and is what they all end with.

The host starts it once, as `python -I -S`, with a socket as its standard input. It has one thread and imports
the standard library alone, so it may fork; the host, which has threads, may not.

Facts that shape it:
- PR_SET_PDEATHSIG follows the parent **thread**, and a host's thread may end while the host lives on: the
  host is watched by a pidfd.
- We ignore SIGCHLD, and so do the helpers (`building`) and init: the kernel reaps for us.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from functools import lru_cache
from typing import NamedTuple

from pinfold.kernel.process import close_all_but, set_name
from pinfold.kernel.seccomp import pack
from pinfold.kernel.syscall import MACHINE
from pinfold.sandbox.linux.granter import main as granter
from pinfold.sandbox.linux.keeper.cgroups import KEEPER, PenCgroups
from pinfold.sandbox.linux.keeper.forked_helpers import (
    PATIENCE,
    PEN_PATIENCE,
    begin,
    build_session,
    finish,
    wait_for_plan,
)
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.child_process import BuildError, words_of
from pinfold.sandbox.linux.protocol.keeper import (
    Built,
    BuiltEnded,
    EndBuilt,
    KeeperReply,
    KeeperRequest,
    NameRules,
    NewGranter,
    NewPen,
    NewSession,
    NotBuilt,
    NumberedReply,
    NumberedRequest,
    PenPlan,
)
from pinfold.sandbox.linux.protocol.operations import Group, NoteReads, Operations, Seccomp, of_kind
from pinfold.sandbox.seccomp import PAIRS, STREAMS
from pinfold.sandbox.seccomp.profile import ReadNotices, UnixSockets, WardenMode, profile

Reply = tuple[KeeperReply, tuple[int, ...]]
"""An answer, and the descriptors that go with it."""
IDLE = 0.05
"""Seconds without a request after which the next pen's builder is started: not while a command begins."""


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
            asked, _ = channel.receive(control, NumberedRequest)
            channel.send(control, NumberedReply(asked.number, NotBuilt(words_of(error))))
            sys.exit(1)
        # What was imported stays. A collection in a fork would write to all of it, and so copy every page.
        gc.freeze()
        keeper = Keeper(control)
        keeper.prepare()
        try:
            serve(keeper, host)
        finally:
            keeper.remove_cgroups()
    except channel.ChannelClosed:
        sys.exit(0)


def settle(control: socket.socket) -> int:
    """Leaves behind what the host gave us but the connection to it; its pidfd."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    # The host may have left descriptors inheritable.
    close_all_but({0, 1, 2, control.fileno()})
    os.chdir("/")
    return os.pidfd_open(os.getppid())


def serve(keeper: "Keeper", host: int) -> None:
    """Answers while the host lives, and gets ready for the next pen while it is silent."""
    poll = select.poll()
    poll.register(keeper.control, select.POLLIN)
    poll.register(host, select.POLLIN)
    while True:
        ready = poll.poll(None if keeper.is_prepared() else IDLE * 1000)
        if any(descriptor == host for descriptor, _ in ready):
            return
        if ready:
            keeper.answer()
        else:
            keeper.prepare_pen()


class WaitingBuilder(NamedTuple):
    """A process in a session's namespaces that waits for the plan of a pen."""

    session: int
    process: int
    """Its pidfd."""
    connection: socket.socket


class Keeper:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.sessions: dict[int, list[int]] = {}
        """Each session's init, by pidfd, and the namespaces that its pens join."""
        self.pens: dict[int, int] = {}
        """Each pen's spawner, by pidfd."""
        self.cgroups = PenCgroups()
        self.last = 0
        self.ready: list[tuple[int, int, int]] = []
        """Sessions made before a request for one."""
        self.latest: int | None = None
        """The session that the next pen will most likely be for."""
        self.known: tuple[Operations, NameRules] | None = None
        """What the latest pen was made by: the next one will be much like it."""
        self.builder: WaitingBuilder | None = None

    def prepare(self) -> None:
        """Makes the first session while the host still loads what it needs to ask for one."""
        with contextlib.suppress(BuildError, OSError):
            self.ready.append(self.make_session())
            self.prepare_pen()
            if has_message(self.control):
                self.answer()  # the host waits for the session, and not yet for what follows
            compile_ahead()

    def is_prepared(self) -> bool:
        return self.builder is not None or self.latest is None

    def prepare_pen(self) -> None:
        """Starts the builder of the latest session's next pen. At most one waits, for all sessions
        together."""
        session, self.latest = self.latest, None
        if session is None or session not in self.sessions:
            return
        with contextlib.suppress(OSError):
            pid, connection = self.begin_pen(session, rehearses=True)
            self.builder = WaitingBuilder(session, os.pidfd_open(pid), connection)

    def answer(self) -> None:
        asked, _ = channel.receive(self.control, NumberedRequest)
        try:
            reply, descriptors = self.do(asked.request)
        except Exception as error:  # noqa: BLE001  (a fault in one answer must not end every session)
            reply, descriptors = NotBuilt(words_of(error)), ()
        channel.send(self.control, NumberedReply(asked.number, reply), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def do(self, request: KeeperRequest) -> Reply:
        match request:
            case NewSession():
                number, pid, ours = self.ready.pop() if self.ready else self.make_session()
                return Built(number, pid), (ours,)
            case NewPen():
                return self.make_pen(request)
            case NewGranter():
                return self.make_granter()
            case EndBuilt(number):
                self.close(number)
                return BuiltEnded(), ()
        raise BuildError("unknown request")

    def make_session(self) -> tuple[int, int, int]:
        """A new session: its number, its init's pid, and our end of the connection to it."""
        pid, process, ours, held = finish(begin(build_session)[1])
        self.last += 1
        self.sessions[self.last] = [process, *held]
        self.latest = self.last
        return self.last, pid, ours

    def make_pen(self, pen: NewPen) -> Reply:
        operations = tuple(each for each in pen.operations if not isinstance(each, Group))
        pairs = [channel.pair() for _ in range(2 if pen.leads_out else 1)]
        plan = PenPlan(operations, filters_of(operations), pen.names, pen.lent)
        connection = self.asked(pen.session, plan, tuple(theirs.fileno() for _, theirs in pairs))
        for _, theirs in pairs:
            theirs.close()
        pid, process, ours, _ = finish(connection, PEN_PATIENCE)
        self.last += 1
        self.pens[self.last] = process
        self.latest, self.known = pen.session, (operations, pen.names)
        try:
            for group in of_kind(pen.operations, Group):
                self.cgroups.hold(self.last, pid, group.memory, group.processes)
        except (BuildError, OSError):
            self.close(self.last)
            os.close(ours)
            raise
        return Built(self.last, pid), (ours, *(ends.detach() for ends, _ in pairs))

    def make_granter(self) -> Reply:
        """The process that makes granted changes outside of the pens; it ends as a pen does."""
        pid, process, ours, _ = finish(begin(granter.serve)[1])
        self.last += 1
        self.pens[self.last] = process
        return Built(self.last, pid), (ours,)

    def begin_pen(self, session: int, rehearses: bool = False) -> tuple[int, socket.socket]:
        _, *held = self.sessions[session]
        known = self.known if rehearses else None
        return begin(lambda theirs: wait_for_plan(theirs, held, known))

    def asked(self, session: int, plan: PenPlan, wardens: tuple[int, ...]) -> socket.socket:
        """The connection to a builder that has been given the plan: the one that waits for it, or another."""
        if self.builder and self.builder.session == session:
            _, process, connection = self.builder
            self.builder = None
            os.close(process)
            with contextlib.suppress(channel.ChannelClosed):
                channel.send(connection, plan, wardens)
                return connection
        _, connection = self.begin_pen(session)
        with contextlib.suppress(
            channel.ChannelClosed
        ):  # it has ended, and what it said before is still to be read
            channel.send(connection, plan, wardens)
        return connection

    def close(self, number: int) -> None:
        if self.builder and self.builder.session == number:
            _, process, connection = self.builder
            self.builder = None
            connection.close()  # which it ends with
            wait_ended(process)
            os.close(process)
        descriptors = self.sessions.pop(number, None) or [self.pens.pop(number, -1)]
        if descriptors == [-1]:
            raise BuildError(f"there is no session or pen {number}")
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptors[0], signal.SIGKILL)
        wait_ended(descriptors[0])
        for descriptor in descriptors:
            os.close(descriptor)
        self.cgroups.release(number)

    def remove_cgroups(self) -> None:
        """All processes end with the keeper; but it must remove a group itself, once all in it have ended."""
        if self.cgroups.made:
            for number in (*self.sessions, *self.pens):
                self.close(number)


def has_message(control: socket.socket) -> bool:
    poll = select.poll()
    poll.register(control, select.POLLIN)
    return bool(poll.poll(0))


def wait_ended(process: int) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll(PATIENCE * 1000)


UNIX = {PAIRS: UnixSockets.PAIRS, STREAMS: UnixSockets.STREAMS}


def filters_of(operations: Operations) -> dict[str, bytes]:
    """The compiled seccomp programs that a plan names."""
    reads = bool(of_kind(operations, NoteReads))
    steps = of_kind(operations, Seccomp)
    return {step.profile: compiled(step.profile, step.watched, step.asks, reads) for step in steps}


def compile_ahead() -> None:
    """Compiles the program that most plans name, while the host still loads its modules."""
    filters_of((Seccomp(STREAMS, watched=True),))


@lru_cache(maxsize=4)
def compiled(name: str, watched: bool, asks: bool = False, reads: bool = False) -> bytes:
    warden = WardenMode.ASKING if asks else WardenMode.PRESENT if watched else WardenMode.ABSENT
    return pack(profile(MACHINE, warden, UNIX[name], ReadNotices.NOTED if reads else ReadNotices.UNSEEN))
