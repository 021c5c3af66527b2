"""A pen's warden: answers the calls that the boundary withholds and policy may allow.

Who it is: the process that built the pen's mounts. It lives in the session's user, network and ipc namespaces
and in the pen's mount namespace, but outside of its pid namespace: nothing inside sees it, signals it or
looks into it. It has no Landlock domain and of all capabilities only the one to read its callers, so it can
do what any process of the user could do in these mounts, and no more. What it may take up besides, for a late
mount (`late`), to ask for a bound socket (`binding`) and to listen at low ports (`carrying`), it has not
while it answers.

INVARIANT: it never lets the kernel go on with a call that only the warden forbids. Landlock withholds the
making of names wherever the warden makes them, so a path that is swapped after the look gains nothing.

Facts that shape it:
- It is the only holder of the listener: when it dies, calls that wait or come fail with ENOSYS.
- It ends with the keeper (PR_SET_PDEATHSIG), and by itself when the last process of the pen has ended, which
  the listener tells by POLLHUP. A spawner's end is not enough: what commands left running goes on.
- A signal that comes in the few microseconds before we have taken a call over interrupts it. It is made again
  if the handler was set with SA_RESTART; else the caller sees EINTR, which some of these calls never say
  otherwise. Afterwards only a fatal signal ends the wait (WAIT_KILLABLE_RECV).
- One call is answered at a time. So nothing here may wait: whatever could block is left to the caller. What a
  command makes wait all the same keeps no mount from being restored (`mount_guard`).
"""

import errno
import gc
import os
import select
import signal
import socket
from contextlib import suppress
from time import monotonic

from pinfold.kernel import capabilities, seccomp
from pinfold.kernel.process import close_all_but, set_name
from pinfold.kernel.syscall import number
from pinfold.kernel.syscall_numbers import MACHINE, NUMBERS
from pinfold.model.protected_names import matcher_of
from pinfold.sandbox.linux.limits import keep_reserve, make_room
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.child_process import serve_alone, words_of
from pinfold.sandbox.linux.protocol.rename_lock import Moving
from pinfold.sandbox.linux.protocol.warden import CallAnswer, Settle
from pinfold.sandbox.linux.spawner.main import READY
from pinfold.sandbox.linux.warden import late_mounts, watchdog
from pinfold.sandbox.linux.warden.affinity import Turns
from pinfold.sandbox.linux.warden.config import Charge
from pinfold.sandbox.linux.warden.create import Names
from pinfold.sandbox.linux.warden.elevation import LOOK, Asking
from pinfold.sandbox.linux.warden.filter_budget import FilterBudget
from pinfold.sandbox.linux.warden.gate_client import Carrying
from pinfold.sandbox.linux.warden.git import Git
from pinfold.sandbox.linux.warden.modify import Changing
from pinfold.sandbox.linux.warden.mount_guard import MountGuard, Standing
from pinfold.sandbox.linux.warden.notification import Caller, Handler
from pinfold.sandbox.linux.warden.open import Opening
from pinfold.sandbox.linux.warden.paths import Grounds
from pinfold.sandbox.linux.warden.read_audit import Reading
from pinfold.sandbox.linux.warden.sockets import Sockets
from pinfold.sandbox.linux.warden.violations import Records


def serve(spawner: socket.socket, charge: Charge) -> None:
    """Becomes the warden of the pen around this process, and answers until all in it have ended.

    The spawner, which hands over the listener, is told when there is somebody to answer, or why not.
    """
    try:
        warden = _prepare(spawner, charge)
        spawner.send(READY)
    except Exception as error:
        spawner.send(words_of(error).encode("utf-8", "backslashreplace"))
        raise
    spawner.close()
    try:
        warden.serve()
    except BaseException as error:
        warden.records.last_words(words_of(error))
        raise


def _prepare(spawner: socket.socket, charge: Charge) -> "Warden":
    set_name("pinfold-warden")
    keeper = os.getppid()
    close_all_but({spawner.fileno(), *charge.descriptors})
    make_room()
    keep_reserve()
    drop_powers()
    serve_alone(keeper)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # somebody wants what we have a lease on (`git`)
    charge.neighbours.join()
    # The spawner confines itself meanwhile: until its listener comes another descriptor keeps the number.
    listener = os.dup(charge.proc)
    warden = Warden(listener, charge)
    warden.guard.start(warden.fail)
    _, (came,) = channel.receive_bytes(spawner, 1)
    os.dup2(came, listener, inheritable=False)
    os.close(came)
    seccomp.set_sync_wake_up(listener)
    return warden


def drop_powers() -> None:
    """Leaves the power to read callers, and some to be taken up: by the threads that bind sockets and carry
    connections, and for the moment of a late mount (`late`)."""
    reading = 1 << capabilities.CAP_SYS_PTRACE
    kept = (
        reading
        | 1 << capabilities.CAP_NET_ADMIN
        | 1 << capabilities.CAP_NET_BIND_SERVICE
        | late_mounts.POWERS
    )
    capabilities.drop_all(keep=kept)
    capabilities.capset(capabilities.Sets(reading, kept, 0))


class Warden:
    def __init__(self, listener: int, charge: Charge) -> None:
        proc, bound, rules = charge.proc, charge.bound, charge.rules
        self.listener = listener
        self.records = records = Records(charge.host)
        standing = Standing(proc, charge.operations, charge.queue)
        self.proc = proc
        self.turns = Turns()
        self.next_look = 0.0
        self.guard = MountGuard(charge.host, standing, charge.neighbours)
        grounds = Grounds.of(charge.operations)
        matcher = matcher_of(rules, grounds.roots)
        moving = Moving(charge.moving, matcher.tails, charge.roots, charge.neighbours.answer)
        names = Names(proc, records, grounds, matcher, moving)
        self.spots = names.spots
        opening = Opening(names, grounds, rules)
        names.judging.exemptions.append(Git(names.spots.own, proc, names.judging, charge.neighbours))
        self.asking: Asking | None = None
        handlers = {**names.handlers, **opening.handlers}
        if charge.asks:
            self.asking = names.judging.asking = Asking(charge.host, rules, matcher.roots)
            self.asking.protect = standing.protect
        names.judging.looks = charge.notes_reads or self.asking is not None
        if names.judging.looks:
            handlers |= Changing(names).handlers
        if charge.notes_reads:
            handlers |= Reading(names, opening, standing.hidden).handlers
        changed = [rule.path for rule in charge.granted if "remove" in rule.access]
        carrying = Carrying(charge.gate, records, charge.lent) if charge.gate else None
        covered = charge.covered if charge.notes_reads else ()
        granted, agents = charge.sockets, charge.agents
        sockets = Sockets(listener, proc, bound, records, changed, rules, granted, agents, carrying, covered)
        handlers |= {**sockets.handlers, **FilterBudget(records).handlers}
        self.handlers: dict[int, Handler] = by_number(handlers)

    def serve(self) -> None:
        poll = select.poll()
        # First, since it is most often this one: the other is then only looked at, not waited for.
        poll.register(self.listener, select.POLLIN)
        poll.register(self.guard.bell, select.POLLIN)
        # What a call leaves is counted away.
        gc.disable()
        while True:
            ready = poll.poll(self.patience())
            if not ready:
                self.turns.rest()
                self.look()
            # Each has its turn: no flood of calls may keep an answer waiting.
            for descriptor, event in ready:
                if descriptor == self.listener:
                    if not event & select.POLLIN:
                        return
                    call = seccomp.receive(self.listener)
                    if call:
                        self.answer(call)
                else:
                    self.take()

    def patience(self) -> float | None:
        """How long to wait for a call, in milliseconds."""
        if not self.asking or not self.asking.pending:
            return self.turns.patience
        # Whoever waits for a person may die meanwhile, and nothing tells.
        if monotonic() >= self.next_look:
            self.look()
        return self.turns.patience or LOOK * 1000

    def look(self) -> None:
        self.next_look = monotonic() + LOOK
        if self.asking:
            self.asking.look()

    def take(self) -> None:
        """What the host says."""
        for heard in self.guard.take():
            if heard is None:
                if self.asking:
                    self.asking.give_up()
                continue
            order, descriptors = heard
            if isinstance(order, Settle):
                self.records.settled(order.number)
            elif isinstance(order, CallAnswer) and self.asking:
                self.asking.answer(order, descriptors)

    def fail(self, error: BaseException) -> None:
        """Ends this process, told from another thread: calls that wait or come are refused then."""
        self.records.last_words(words_of(error))
        os._exit(1)

    def answer(self, call: seccomp.Notification) -> None:
        caller = Caller(self.listener, self.proc, self.turns, call)
        handler = self.handlers.get(call.number)
        if handler is None:
            caller.refuse(errno.ENOSYS)
            return
        try:
            handler(caller)
        except Exception as error:  # noqa: BLE001  (a fault of ours is the call's no, not the end of all)
            with suppress(OSError):  # it had its answer already
                caller.refuse((isinstance(error, OSError) and error.errno) or errno.EIO)
        finally:
            watchdog.end()
            if self.spots.is_holding:
                self.spots.release()


def by_number(handlers: dict[str, Handler]) -> dict[int, Handler]:
    """By the numbers of this machine, which has not every call."""
    return {number(name): handler for name, handler in handlers.items() if name in NUMBERS[MACHINE]}
