"""The warden of a pen: the process that answers the system calls which the kernel alone would refuse.

The warden is the process that built the pen's mounts. It lives in the session's user, network and ipc
namespaces and in the pen's mount namespace, but outside the pid namespace. So no process inside sees it,
signals it or reads its memory. It has no Landlock domain, and one effective capability: to read its callers.
It can therefore do what any process of the user could do in these mounts, and no more. Its further permitted
capabilities stay unused while it answers: threads and functions raise them for a late mount (`late_mounts`),
to ask which inode a socket was bound to (`bind`), and to listen at low ports (`gate_client`).

INVARIANT: the warden never lets the kernel continue a call that only the warden forbids. Landlock withholds
the right to make names wherever the warden makes them. So a path that another thread swaps after the check
gains nothing.

Facts that shape it:
- The warden is the only holder of the listener. When it dies, waiting and later calls fail with ENOSYS.
- It ends with the keeper (PR_SET_PDEATHSIG). It also ends by itself when the last process of the pen has
  ended, which the listener reports by POLLHUP. The spawner's end is not enough: commands may still run.
- A signal that arrives in the few microseconds before the warden has received a call interrupts that call.
  The kernel restarts it if the handler has SA_RESTART. Otherwise the caller gets EINTR, which some of these
  calls never return elsewhere. Once received, only a fatal signal ends the wait (WAIT_KILLABLE_RECV).
- The loop answers one call at a time, so nothing here may block: a call that could block goes back to the
  kernel. If a command makes the loop wait all the same, a second thread still restores mounts
  (`mount_guard`).
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
from pinfold.kernel.syscall import MACHINE, NUMBERS, number
from pinfold.model.protected_names import matcher_of
from pinfold.sandbox.linux.limits import raise_descriptor_limit, reserve_descriptors
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.child_process import serve_alone, words_of
from pinfold.sandbox.linux.protocol.rename_lock import RenameLock
from pinfold.sandbox.linux.protocol.warden import CallAnswer, Settle
from pinfold.sandbox.linux.spawner.main import READY
from pinfold.sandbox.linux.warden import late_mounts, watchdog
from pinfold.sandbox.linux.warden.affinity import CallerAffinity
from pinfold.sandbox.linux.warden.config import WardenConfig
from pinfold.sandbox.linux.warden.create import CreateCalls
from pinfold.sandbox.linux.warden.filter_budget import FilterBudget
from pinfold.sandbox.linux.warden.gate_client import GateClient
from pinfold.sandbox.linux.warden.git import GitExemption
from pinfold.sandbox.linux.warden.modify import ModifyCalls
from pinfold.sandbox.linux.warden.mount_guard import MountGuard, MountRestorer
from pinfold.sandbox.linux.warden.notification import Caller, Handler
from pinfold.sandbox.linux.warden.open import OpenCalls
from pinfold.sandbox.linux.warden.paths import PlanPaths
from pinfold.sandbox.linux.warden.questions import CHECK_INTERVAL, PendingQuestions
from pinfold.sandbox.linux.warden.read_audit import ReadAudit
from pinfold.sandbox.linux.warden.sockets import SocketCalls
from pinfold.sandbox.linux.warden.violations import ViolationLog


def serve(spawner: socket.socket, config: WardenConfig) -> None:
    """Becomes the warden of the pen around this process, and answers until every process in it has ended.

    The spawner hands over the listener. It hears READY once the warden can answer, or why the warden cannot.
    """
    try:
        warden = _prepare(spawner, config)
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


def _prepare(spawner: socket.socket, config: WardenConfig) -> "Warden":
    set_name("pinfold-warden")
    keeper = os.getppid()
    close_all_but({spawner.fileno(), *config.descriptors})
    raise_descriptor_limit()
    reserve_descriptors()
    drop_capabilities()
    serve_alone(keeper)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # a process opens a file that we hold a lease on (`git`)
    config.peers.join(config.proc, config.roots, config.above)
    # The spawner confines itself meanwhile. Until its listener arrives, another descriptor reserves the
    # number.
    listener = os.dup(config.proc)
    warden = Warden(listener, config)
    warden.guard.start(warden.fail)
    _, (came,) = channel.receive_bytes(spawner, 1)
    os.dup2(came, listener, inheritable=False)
    os.close(came)
    seccomp.set_sync_wake_up(listener)
    return warden


def drop_capabilities() -> None:
    """Keeps the capability to read callers, and a few permitted ones to be raised later: by the threads that
    bind sockets and connect to the gate, and for a late mount (`late_mounts`)."""
    reading = 1 << capabilities.CAP_SYS_PTRACE
    kept = (
        reading
        | 1 << capabilities.CAP_NET_ADMIN
        | 1 << capabilities.CAP_NET_BIND_SERVICE
        | late_mounts.CAPABILITIES
    )
    capabilities.drop_all(keep=kept)
    capabilities.capset(capabilities.Sets(reading, kept, 0))


class Warden:
    def __init__(self, listener: int, config: WardenConfig) -> None:
        proc, bound, rules = config.proc, config.bound, config.rules
        self.listener = listener
        self.records = records = ViolationLog(config.host)
        restorer = MountRestorer(proc, config.operations, config.queue, config.peers.mounts)
        self.proc = proc
        self.affinity = CallerAffinity()
        self.next_check = 0.0
        self.guard = MountGuard(config.host, restorer, config.peers)
        plan = PlanPaths.of(config.operations)
        matcher = matcher_of(rules, plan.roots)
        rename_lock = RenameLock(config.lock_directory, matcher.tails, config.roots, config.peers.answer)
        create = CreateCalls(proc, records, plan, matcher, rename_lock)
        self.paths = create.paths
        opens = OpenCalls(create, plan, rules)
        create.checks.exemptions.append(GitExemption(create.paths.own_fds, proc, create.checks, config.peers))
        self.questions: PendingQuestions | None = None
        handlers = {**create.handlers, **opens.handlers}
        if config.asks:
            self.questions = create.checks.questions = PendingQuestions(config.host, rules, matcher.roots)
            self.questions.protect = restorer.protect
        create.checks.sees_all_changes = config.notes_reads or self.questions is not None
        if create.checks.sees_all_changes:
            handlers |= ModifyCalls(create).handlers
        if config.notes_reads:
            handlers |= ReadAudit(create, opens, restorer.hidden).handlers
        changed = [rule.path for rule in config.granted if "remove" in rule.access]
        gate_client = GateClient(config.gate, records, config.lent_ports) if config.gate else None
        covered = config.covered if config.notes_reads else ()
        granted, agents = config.sockets, config.agents
        sockets = SocketCalls(
            listener, proc, bound, records, changed, rules, granted, agents, gate_client, covered
        )
        handlers |= {**sockets.handlers, **FilterBudget(records).handlers}
        self.handlers: dict[int, Handler] = by_number(handlers)

    def serve(self) -> None:
        poll = select.poll()
        # The listener comes first, since most events are calls; the bell is then only checked.
        poll.register(self.listener, select.POLLIN)
        poll.register(self.guard.bell, select.POLLIN)
        # Reference counts free everything that a call allocates.
        gc.disable()
        while True:
            ready = poll.poll(self.timeout())
            if not ready:
                self.affinity.unpin_self()
                self.check_waiting()
            # Each descriptor gets its turn: no flood of calls may delay an answer from the host.
            for descriptor, event in ready:
                if descriptor == self.listener:
                    if not event & select.POLLIN:
                        return
                    call = seccomp.receive(self.listener)
                    if call:
                        self.answer(call)
                else:
                    self.take_messages()

    def timeout(self) -> float | None:
        """How long to wait for a call, in milliseconds."""
        if not self.questions or not self.questions.pending:
            return self.affinity.idle_timeout
        # A caller that waits for a person may die meanwhile, and no event says so.
        if monotonic() >= self.next_check:
            self.check_waiting()
        return self.affinity.idle_timeout or CHECK_INTERVAL * 1000

    def check_waiting(self) -> None:
        self.next_check = monotonic() + CHECK_INTERVAL
        if self.questions:
            self.questions.check_waiting()

    def take_messages(self) -> None:
        """Handles the messages of the host that are for this loop."""
        for heard in self.guard.messages():
            if heard is None:
                if self.questions:
                    self.questions.give_up()
                continue
            message, descriptors = heard
            if isinstance(message, Settle):
                self.records.settled(message.number)
            elif isinstance(message, CallAnswer) and self.questions:
                self.questions.answer(message, descriptors)

    def fail(self, error: BaseException) -> None:
        """Ends this process; another thread calls it. Waiting and later calls then fail."""
        self.records.last_words(words_of(error))
        os._exit(1)

    def answer(self, call: seccomp.Notification) -> None:
        caller = Caller(self.listener, self.proc, self.affinity, call)
        handler = self.handlers.get(call.number)
        if handler is None:
            caller.refuse(errno.ENOSYS)
            return
        try:
            handler(caller)
        except Exception as error:  # noqa: BLE001  (an internal error refuses this call, and must not end the warden)
            with suppress(OSError):  # the call has its answer already
                caller.refuse((isinstance(error, OSError) and error.errno) or errno.EIO)
        finally:
            watchdog.end()
            if self.paths.is_holding:
                self.paths.release()


def by_number(handlers: dict[str, Handler]) -> dict[int, Handler]:
    """The handlers by this machine's system call numbers; calls that it does not have are left out."""
    return {number(name): handler for name, handler in handlers.items() if name in NUMBERS[MACHINE]}
