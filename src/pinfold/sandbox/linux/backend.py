"""The host's side of pens: starts the keeper, asks it for sessions and pens, and runs commands in them.

Everything here may be used from any thread. The host itself never forks: the keeper is a process of its own, and
commands are started by spawners, to which a request and the command's descriptors go directly.

A command's way, and its cost in the host: pipes, one prlimit that tags the spawner, one message, one short answer;
then its output comes straight from its pipes. The keeper sleeps meanwhile.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence

import pinfold
from pinfold.kernel.process import prlimit
from pinfold.model.errors import ConfinementError
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.backend import Request, Result, Stream, Survey, arguments_of
from pinfold.sandbox.compat import Machine, fit, require_accepted
from pinfold.sandbox.drain import Drain
from pinfold.sandbox.enforcement import Enforcement, Layer
from pinfold.sandbox.environment import scrub
from pinfold.sandbox.linux import channel, init
from pinfold.sandbox.linux.command import PennedCommand, receive_terminal
from pinfold.sandbox.linux.filters import filters_of
from pinfold.sandbox.linux.machine import probe_machine
from pinfold.sandbox.linux.places import look
from pinfold.sandbox.linux.spawner import FAILED, STARTED, STATUS
from pinfold.sandbox.linux.tags import FIRST, RLIMIT_RTTIME
from pinfold.sandbox.operations import as_data
from pinfold.sandbox.plan import Plan, plan_pen

PENDING = (Layer.NAMES, Layer.UNIX_SOCKETS, Layer.MEMORY)
"""What only the warden (and cgroups) will close; accepted until it is there, and named in every result."""
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(pinfold.__file__)))
PROGRAM = "import sys; sys.path.insert(0, {!r}); from pinfold.sandbox.linux.keeper import main; main()"


class Pen:
    """One effective policy's confinement, warm."""

    def __init__(
        self, number: int, pid: int, control: socket.socket, plan: Plan, enforcement: Enforcement
    ) -> None:
        self.number = number
        self.pid = pid
        self.control = control
        self.plan = plan
        self.enforcement = enforcement
        self.lock = threading.Lock()


class LinuxSession:
    """One user, pid, net and ipc namespace and one /tmp; a pen for each policy that is asked for."""

    def __init__(
        self, keeper: "Keeper", machine: Machine, roots: Sequence[str], survey: Survey | None, accepted: Collection[Layer]
    ) -> None:
        self.keeper = keeper
        self.machine = machine
        self.roots = tuple(roots)
        self.survey = survey
        self.accepted = accepted
        self.lock = threading.Lock()
        self.killing = threading.Lock()
        self.drain = Drain()
        self.pens: list[tuple[SandboxPolicy, Pen]] = []
        self.running: set[PennedCommand] = set()
        self.tag = FIRST
        self.closed = False
        self.number, self.pid, self.control = keeper.ask(("session",))

    def start(self, request: Request) -> PennedCommand:
        pen = self.pen(request.policy)
        environment = scrub(
            os.environ if request.environment is None else request.environment,
            request.policy.environment,
            network=False,
            temporary=pen.plan.temporary,
        )
        message = (arguments_of(request, SHELL), request.cwd, environment, request.terminal)
        return Start(self, pen, request).send(message)

    def run(self, request: Request) -> Result:
        return self.start(request).wait()

    def pen(self, policy: SandboxPolicy) -> Pen:
        """The pen of a policy, made if there is none yet."""
        with self.lock:
            if self.closed:
                raise ConfinementError("the session is closed")
            for known, pen in self.pens:
                if known is policy or known == policy:
                    return pen
            pen = self._make(policy)
            self.pens.append((policy, pen))
            return pen

    def _make(self, policy: SandboxPolicy) -> Pen:
        protected, hidden = self.survey(policy) if self.survey else ((), ())
        plan = plan_pen(policy, look(policy, self.roots, protected, hidden))
        plan, enforcement = fit(plan, self.machine, policy)
        require_accepted(enforcement, self.accepted)
        operations = tuple(as_data(operation) for operation in plan.operations)
        request = ("pen", self.number, operations, filters_of(plan))
        return Pen(*self.keeper.ask(request), plan, enforcement)

    def next_tag(self) -> int:
        with self.lock:
            self.tag -= 2
            return self.tag

    def kill(self, tag: int) -> None:
        """Ends every process of one command."""
        with self.killing:
            if self.closed:
                return
            try:
                self.control.send(init.REQUEST.pack(tag))
                data, _ = channel.receive_bytes(self.control, init.REPLY.size)
            except (OSError, channel.Closed):
                return  # init is gone, and with it every process of the session
            (left,) = init.REPLY.unpack(data)
        if left:
            raise ConfinementError(f"{left} processes of the command could not be ended; close the session")

    def close(self) -> None:
        with self.lock, self.killing:
            if self.closed:
                return
            self.closed = True
        for command in list(self.running):
            command.cancelled = True
        self.keeper.close(self.number)
        for _, pen in self.pens:
            self.keeper.close(pen.number)
            pen.control.close()
        self.control.close()
        self.drain.close()


SHELL = next((shell for shell in ("/bin/bash", "/usr/bin/bash") if os.path.exists(shell)), "/bin/sh")


class Start:
    """The start of one command: what is opened for it, and closed again whatever happens."""

    def __init__(self, session: LinuxSession, pen: Pen, request: Request) -> None:
        self.session = session
        self.pen = pen
        self.request = request
        self.ours: list[int] = []
        self.theirs: list[int] = []

    def send(self, message: object) -> PennedCommand:
        try:
            return self._send(message)
        except BaseException:
            for descriptor in self.ours:
                os.close(descriptor)
            raise
        finally:
            self._close_theirs()

    def _send(self, message: object) -> PennedCommand:
        status = self._output()
        terminal = self._terminal() if self.request.terminal else None
        feed = self._input() if self.request.stdin is not None and not terminal else None
        streams = {} if terminal else {self._output(): Stream.STDOUT, self._output(): Stream.STDERR}
        tag = self._tagged(message, status)
        if terminal:
            with terminal:
                master = receive_terminal(terminal)
            self.ours.append(master)
            streams[master] = Stream.STDOUT
        command = PennedCommand(
            self.request,
            self.pen.enforcement,
            streams,
            status,
            (feed, self.request.stdin or b"") if feed is not None else None,
            lambda: self.session.kill(tag),
            self.session.drain,
        )
        return command

    def _tagged(self, message: object, status: int) -> int:
        """Sends the request while the spawner carries the command's tag; its children inherit it."""
        pen = self.pen
        with pen.lock:
            tag = self.session.next_tag()
            try:
                prlimit(pen.pid, RLIMIT_RTTIME, (tag, tag))
                channel.send(pen.control, message, tuple(self.theirs))
                self._close_theirs()
                answer = os.read(status, STATUS.size)
                prlimit(pen.pid, RLIMIT_RTTIME, (tag - 1, tag - 1))
            except (OSError, channel.Closed) as error:
                raise ConfinementError(f"the pen is gone: {error or 'closed'}") from None
        if len(answer) != STATUS.size:
            raise ConfinementError("the pen is gone; nothing was run")
        kind, value = STATUS.unpack(answer)
        if kind != STARTED:
            raise not_started(kind, value, self.request)
        return tag

    def _output(self) -> int:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        self.ours.append(ours)
        self.theirs.append(theirs)
        return ours

    def _input(self) -> int:
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        self.ours.append(ours)
        self.theirs.append(theirs)
        return ours

    def _terminal(self) -> socket.socket:
        ours, theirs = channel.pair()
        self.theirs.append(theirs.detach())
        return ours

    def _close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())


def not_started(kind: int, value: int, request: Request) -> ConfinementError:
    why = os.strerror(value) if kind == FAILED else "no answer"
    return ConfinementError(f"{arguments_of(request, SHELL)[0]!r} in {request.cwd!r} was not started: {why}")


class Keeper:
    """The keeper process, as the host holds it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        if not sys.executable:
            raise ConfinementError("this Python does not know its own program, so no keeper can be started")
        self.control, theirs = channel.pair()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM.format(SOURCE)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        finally:
            theirs.close()

    def ask(self, request: object) -> tuple[int, int, socket.socket]:
        """A session or a pen: its number, its first process, and the way to it."""
        with self.lock:
            try:
                channel.send(self.control, request)
                answer, descriptors = channel.receive(self.control)
            except (channel.Closed, OSError):
                raise ConfinementError("the keeper is gone; nothing was run") from None
        match answer:
            case ("made", int(number), int(pid)):
                return number, pid, socket.socket(fileno=descriptors[0])
            case ("failed", str(why)):
                raise ConfinementError(f"no pen could be made: {why}")
        raise ConfinementError("the keeper gave no answer that is known")

    def close(self, number: int) -> None:
        with self.lock:
            try:
                channel.send(self.control, ("close", number))
                channel.receive(self.control)
            except (channel.Closed, OSError):
                return  # it is gone, and with it all that it kept

    def end(self) -> None:
        self.control.close()
        self.process.wait()

    def is_alive(self) -> bool:
        return self.process.poll() is None


class LinuxBackend:
    """Pens on this machine. The keeper starts with the first session."""

    def __init__(self, accepted: Collection[Layer] = PENDING) -> None:
        self.accepted = accepted
        self.lock = threading.Lock()
        self.keeper: Keeper | None = None
        self.machine = probe_machine()

    def open_session(self, roots: Sequence[str], survey: Survey | None = None) -> LinuxSession:
        with self.lock:
            if self.keeper is None or not self.keeper.is_alive():
                self.keeper = Keeper()
            keeper = self.keeper
        return LinuxSession(keeper, self.machine, roots, survey, self.accepted)

    def close(self) -> None:
        with self.lock:
            if self.keeper:
                self.keeper.end()
            self.keeper = None
