"""A session: one user, pid, net and ipc namespace and one /tmp, and in it a pen for each policy asked for."""

import _socket
import os
import select
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from errno import EMFILE
from functools import partial
from typing import TYPE_CHECKING

from pinfold.kernel.process import pace_of
from pinfold.model.errors import ConfinementError
from pinfold.model.machine import Machine
from pinfold.model.policy import SandboxPolicy
from pinfold.model.symlinks import real_path
from pinfold.sandbox.backend import (
    CommandResult,
    Elevation,
    Found,
    Outside,
    RunningCommand,
    SandboxLayer,
    StartRequest,
    Survey,
)
from pinfold.sandbox.environment import scrub
from pinfold.sandbox.linux.host.command import PennedCommand, Start
from pinfold.sandbox.linux.host.init_client import InitClient
from pinfold.sandbox.linux.host.keeper_client import KeeperClient
from pinfold.sandbox.linux.host.paths import look
from pinfold.sandbox.linux.host.pen import Pen, PenGone, RootMoved, is_left, left_running
from pinfold.sandbox.linux.host.pen_draft import PenDraft, draft_pen, snapshot
from pinfold.sandbox.linux.host.warden_client import WardenClient
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.command import FIRST_TAG
from pinfold.sandbox.linux.protocol.keeper import NewPen, NewSession, OutletMade
from pinfold.sandbox.linux.protocol.pen_registry import building
from pinfold.sandbox.pipes import Drain
from pinfold.sandbox.plan import Plan
from pinfold.sandbox.threads import require_free

if TYPE_CHECKING:
    from pinfold.sandbox.linux.host.overuse import OveruseFinder
    from pinfold.sandbox.linux.host.waiting_calls import Elevating


class LinuxSession:
    """May be used from any thread."""

    def __init__(
        self,
        keeper: KeeperClient,
        machine: Machine,
        roots: Sequence[str],
        survey: Survey | None,
        accepted: Collection[SandboxLayer],
        outside: Outside | None = None,
        elevation: Elevation | None = None,
        scratch: str = "",
    ) -> None:
        self.keeper = keeper
        self.machine = machine
        self.roots = tuple(map(_found_at, roots))
        self.survey = survey
        self.accepted = accepted
        self.outside = outside
        self.elevation = elevation
        self.scratch = scratch
        self.elevating: Elevating | None = None
        self.environment = dict(os.environ)
        """The host's own, as it was; reading it again for each command would cost a fifth of `true`."""
        self.lock = threading.RLock()
        self.tagging = threading.Lock()
        self.drain = Drain()
        self.pens: list[tuple[SandboxPolicy, Pen]] = []
        self.doubtful: set[Pen] = set()
        """Those that are looked at again before their next command."""
        self.retired: list[Pen] = []
        self.latest: Pen | None = None
        """The one that the last command began in."""
        self.running: set[PennedCommand] = set()
        self.tag = FIRST_TAG
        self.unheard: list[_socket.socket] = []
        """Sockets for the session's name lookups that no gate listens to yet."""
        self.closed = False
        self.number, self.pid, (control,) = keeper.ask(NewSession())
        self.init = InitClient(control)
        self.overuse: OveruseFinder | None = None

    def start(self, request: StartRequest) -> RunningCommand:
        pen = self.pen(request.policy)
        try:
            return self._start(pen, request)
        except PenGone:
            # A command may have ended its pen's spawner, which has its uid; the next one gets another.
            self._forget(pen)
        except RootMoved:
            with self.lock:
                self._retire((pen,))
        pen = self.pen(request.policy)
        return self._start(pen, request)

    def run(self, request: StartRequest) -> CommandResult:
        return self.start(request).wait()

    def _start(self, pen: Pen, request: StartRequest) -> RunningCommand:
        try:
            if self.outside and request.policy.published_ports:
                self.outside.publish(request.policy.published_ports, self.init.reach)
            if request.environment is None:
                environment = pen.environment
            else:
                environment = self._scrub(request.environment, request.policy, pen.plan, pen.leads_out)
            if request.variables:
                environment = {**environment, **request.variables}
            return Start(self, pen, request, self._left_running(pen)).send(environment)
        finally:
            pen.ended()

    def _left_running(self, pen: Pen) -> tuple[str, ...]:
        """What runs in other pens, where the command before was in one of those."""
        if pen is self.latest:
            return ()
        with self.lock:
            self.latest = pen
            others = [each for each in (*self.retired, *(each for _, each in self.pens)) if each is not pen]
        return left_running(others, self.init)

    def pen(self, policy: SandboxPolicy) -> Pen:
        """The pen of a policy, made if there is none yet. It counts as in use until `ended`."""
        require_free(self.lock)
        with self.lock:
            if self.closed:
                raise ConfinementError("the session is closed")
            self.keeper.require_own()
            pen = next((pen for known, pen in self.pens if known is policy or known == policy), None)
            is_known = pen and pen not in self.doubtful and not pen.shown.may_have_changed()
            if pen and is_known and pen.is_usable():
                pen.began()
                return pen
            try:
                with building(self._writable(policy)):
                    pen = self._renewed(policy, pen)
            except OSError as error:
                why = error.strerror or error
                raise ConfinementError(
                    f"the sandbox could not be built: {why}; nothing was run; run `pinfold doctor`"
                ) from None
            pen.began()
            return pen

    def _writable(self, policy: SandboxPolicy) -> tuple[str, ...]:
        scratch = (self.scratch,) if self.scratch else ()
        return (*self.roots, *policy.additional_readwrite_paths, *scratch)

    def _renewed(self, policy: SandboxPolicy, pen: Pen | None) -> Pen:
        """The policy's pen, if it is as one that was built now; else one that is built now."""
        wanted = draft_pen(
            policy,
            self.roots,
            self.machine,
            self.survey,
            self.accepted,
            self.outside,
            self.elevation,
            self.scratch,
        )
        if pen:
            if pen.is_usable() and wanted.is_as(pen.draft):
                pen.shown = wanted.shown
                self.doubtful.discard(pen)
                return pen
            self._retire((pen,))
        made = self._build(policy, wanted)
        self.pens.append((policy, made))
        return made

    def _build(self, policy: SandboxPolicy, wanted: PenDraft) -> Pen:
        if self.machine.superuser:
            self.init.bound(policy.limits.processes)
        leads_out = wanted.leads_out
        number, pid, connections = self.keeper.ask(
            NewPen(self.number, wanted.plan.operations, wanted.names, leads_out, wanted.lent),
            3 if leads_out else 2,
        )
        handle = -1
        try:
            control, to_warden = connections[:2]
            pace, handle = pace_of(self.keeper.pid), os.pidfd_open(pid)
            warden = WardenClient(to_warden)
            if self.outside and leads_out:
                self._lead_out(self.outside, number, policy, connections.pop(), warden)
            if self.elevation:
                warden.made = self.elevation.made
            if wanted.asks:
                self._attend(warden, policy)
            environment = self._scrub(self.environment, policy, wanted.plan, leads_out)
            return Pen(number, pid, handle, control, warden, wanted, environment, pace)
        except BaseException:
            self.keeper.close(number)
            if self.outside and leads_out:
                self.outside.ended(str(number))
            for connection in connections:
                connection.close()
            if handle >= 0:
                os.close(handle)
            raise

    def _lead_out(
        self,
        outside: Outside,
        number: int,
        policy: SandboxPolicy,
        gate: _socket.socket,
        warden: WardenClient,
    ) -> None:
        """The gate carries the pen's connections from here on. Raises OSError."""
        try:
            outlet, resolvers = channel.receive(gate, OutletMade)
            self.unheard += [_socket.socket(fileno=descriptor) for descriptor in resolvers]
            if len(resolvers) != outlet.is_first:
                raise OSError(EMFILE, os.strerror(EMFILE))
            outside.attend(str(number), policy, gate, warden.add)
        except BaseException:
            gate.close()
            raise
        warden.catch_up = partial(outside.catch_up, str(number))
        while self.unheard:
            outside.attend_names(self.unheard[-1])
            self.unheard.pop()

    def _attend(self, warden: WardenClient, policy: SandboxPolicy) -> None:
        """Listens to the questions of the pen's warden. Preconditions: the lock is held."""
        if self.elevating is None and self.elevation is not None:
            from pinfold.sandbox.linux.host.waiting_calls import Elevating

            self.elevating = Elevating(self.elevation, self.keeper)
        if self.elevating is not None:
            self.elevating.attend(warden, policy)

    def _scrub(
        self, environment: Mapping[str, str], policy: SandboxPolicy, plan: Plan, leads_out: bool
    ) -> dict[str, str]:
        return scrub(
            environment,
            policy.environment,
            network=leads_out,
            temporary=plan.temporary,
            sockets=policy.unix_sockets,
            is_closed=self.machine.superuser,
        )

    def _forget(self, pen: Pen) -> None:
        with self.lock:
            kept = [(policy, known) for policy, known in self.pens if known is not pen]
            if len(kept) == len(self.pens):
                return
            self.pens = kept
            self.doubtful.discard(pen)
        self._end(pen)

    def hold(self, policy: SandboxPolicy, found: Found) -> None:
        """Protects and hides new paths in the pens of a policy, while commands run.

        Raises if a pen could not be reached: the caller tries again.
        """
        places = look(policy, self.roots, found.protected, found.hidden, found.writable)
        trouble: ConfinementError | None = None
        with self.lock:
            pens = [pen for known, pen in self.pens if known == policy]
            # Pens of other policies that no command has used since the last time are retired as well.
            self._retire(self.doubtful.difference(pens))
            for pen in (*pens, *self.retired):
                protected = tuple(each.path for each in places.protected if each.path not in pen.protected)
                hidden = tuple(each.path for each in places.hidden if each.path not in pen.hidden)
                if not protected and not hidden:
                    continue
                try:
                    pen.warden.hold(protected, hidden)
                except ConfinementError as error:
                    trouble = error
                    continue
                pen.protected.update(protected)
                pen.hidden.update(hidden)
                pen.held = (*pen.held, *snapshot((*protected, *hidden)))
            # The next command's pen is planned anew, with everything that has changed.
            self._retire(pens)
        self.look_again()
        if trouble:
            raise trouble

    def catch_up(self) -> None:
        """Returns once the wardens have reported the names that they have made by now.

        Without the lock: a thread that builds a pen holds it and waits for the settings, and the caller may
        hold their lock. A pen that is retired meanwhile is in both lists, so no pen is missed.
        """
        pens = [*self.pens]
        for pen in {*self.retired, *(pen for _, pen in pens)}:
            pen.warden.settle()

    def plan(self, policy: SandboxPolicy) -> str:
        pen = self.pen(policy)
        pen.ended()
        return str(pen.plan)

    def change_roots(self, roots: Sequence[str]) -> None:
        """Other roots, from the next command on."""
        require_free(self.lock)
        with self.lock:
            # Those that we have are where they were found: a link there by now is a command's.
            self.roots = tuple(path if path in self.roots else _found_at(path) for path in roots)
        self.look_again()

    def look_again(self) -> None:
        """The next command of each policy gets a pen that is planned by what the file system has then."""
        with self.lock:
            pens = [pen for _, pen in self.pens]
        # From no other pen do later commands reach what has been left running in it.
        doubtful = {pen for pen in pens if pen.running or is_left(pen, self.init)}
        with self.lock:
            self._retire({pen for pen in pens if pen not in doubtful})
            self.doubtful = {pen for _, pen in self.pens}
        self.close_idle()

    def _retire(self, pens: Collection[Pen]) -> None:
        """No command begins in them any more. Preconditions: the lock is held."""
        self.retired += [pen for _, pen in self.pens if pen in pens]
        self.pens = [(policy, pen) for policy, pen in self.pens if pen not in pens]
        self.doubtful.difference_update(pens)

    def tend(self, idle_seconds: float) -> None:
        for command in self.running.copy():
            with suppress(ConfinementError):  # the next round tries again
                command.expire()
        before = time.monotonic() - idle_seconds
        with self.lock:
            late = [pen for _, pen in self.pens if pen.idle_since <= before]
        for pen in late:
            # From no other pen do later commands reach what has been left running in it.
            if is_left(pen, self.init):
                pen.idle_since = time.monotonic()
        self.close_idle(idle_seconds)
        self._end_overuse()

    def _end_overuse(self) -> None:
        """Ends the command that leaves the user's other programs too little."""
        if self.overuse is None:
            from pinfold.sandbox.linux.host.overuse import OveruseFinder

            self.overuse = OveruseFinder(self.init, self.pid)
        with suppress(OSError):  # the session has ended
            for tag, violation in self.overuse.find():
                for command in [each for each in self.running.copy() if each.tag == tag]:
                    command.pen.warden.add(tag, violation)
                self.kill(tag)

    def has_processes(self) -> bool:
        with self.lock:
            pens = [*self.retired, *(pen for _, pen in self.pens)]
        return any(pen.running or is_left(pen, self.init) for pen in pens)

    def is_alive(self) -> bool:
        """Whether keeper and init are there."""
        if self.closed:
            return False
        poll = select.poll()
        try:
            poll.register(self.init.control, 0)
            poll.register(self.keeper.process, select.POLLIN)
        except ValueError:  # closed just now
            return False
        return not poll.poll(0)

    def close_idle(self, seconds: float = 0.0) -> int:
        """Ends pens that no command will use again, and those idle for so long. Returns how many."""
        before = time.monotonic() - seconds
        with self.lock:
            idle = [pen for pen in self.retired if not pen.running]
            self.retired = [pen for pen in self.retired if pen not in idle]
            if seconds:
                late = [pen for _, pen in self.pens if not pen.running and pen.idle_since <= before]
                self.pens = [(policy, pen) for policy, pen in self.pens if pen not in late]
                self.doubtful.difference_update(late)
                idle += late
        for pen in idle:
            self._end(pen)
        return len(idle)

    def _end(self, pen: Pen) -> None:
        self.keeper.close(pen.number)
        if self.outside and pen.leads_out:
            self.outside.ended(str(pen.number))
        pen.close()

    def next_tag(self, pen: Pen, request: StartRequest) -> int:
        with self.tagging:
            self.tag -= 2
            tag = self.tag
        pen.note(tag, request.command)
        kept = request.without_contents()
        if self.outside and pen.leads_out:
            self.outside.began(str(pen.number), tag, kept)
        if self.elevating:
            self.elevating.began(tag, kept)
        return tag

    def kill(self, tag: int) -> None:
        """Ends every process of one command."""
        try:
            self.init.kill(tag)
        finally:
            for pen in (*self.retired, *(pen for _, pen in self.pens)):
                pen.wake()

    def require_free(self) -> None:
        require_free(self.lock)
        require_free(self.keeper.lock)

    def close(self) -> None:
        """Ends everything in it, running commands too."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            # Taken out, so that no other thread ends one of them too.
            pens = (*self.retired, *(pen for _, pen in self.pens))
            self.retired, self.pens = [], []
        for pen in pens:
            pen.warden.is_closing = True
        if self.elevating:
            self.elevating.close()
        self.keeper.close(self.number)
        for pen in pens:
            self._end(pen)
        self.init.close()
        self.drain.close()
        for resolver in self.unheard:
            resolver.close()
        if self.outside:
            self.outside.close()


def _found_at(root: str) -> str:
    """Where a root is now. One that is not absolute is refused, when a pen is to be made of it."""
    return real_path(root) if os.path.isabs(root) else root
