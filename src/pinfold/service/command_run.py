"""Runs one command of a conversation on the streams of its client.

A pipe is handed to the command as it is: nothing copies, and the agent sees its end when the last process
that has it open ends. A regular file or a socket is copied to: from inside a sandbox neither can be opened
again by `/dev/stdout`, and a socket leads to the agent. If both outputs are one file, they share one pipe,
in their order.

A command on a terminal gets one of its own, and the two are joined as for `pinfold run` (`OnTerminal`).

The client's end ends the command and all that it has started. What the line has left running when it ended
by itself goes on, as in the agent's own shell.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Protocol

from msgspec import Struct

from pinfold.model.agent_variables import AgentVariables
from pinfold.model.errors import PinfoldError
from pinfold.model.events import Exited, Output, Stream
from pinfold.model.handed_streams import HandedStreams
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.policy.reasons import describe_refusal
from pinfold.service import local_socket as local
from pinfold.service.command_client import DIRECTORY
from pinfold.service.conversations import Conversation, Conversations
from pinfold.service.daemon import ServiceCall
from pinfold.service.grant_requests import names_to_ask, request_for_denied
from pinfold.session import Session
from pinfold.session.execution import Execution
from pinfold.session.permission_requests import Asked

DENIED, FAILED, TIMED_OUT, SIGNALLED = 126, 125, 124, 128
LARGEST_UMASK = 0o777
ASKING = frozenset(["claude-code", "cursor", "gemini", "pi", "vscode"])
"""Agents whose hooks put a question about a line into the agent's own dialog."""
ASK_AGAIN = "pinfold: to ask the user for this, run exactly the same command again"
ELSEWHERE = (
    "ask them to open `pinfold web`, where the same command asks while it runs, or to run it at a terminal"
)
ASK_ELSEWHERE = f"pinfold: no dialog of this agent can ask the user for this: {ELSEWHERE}"
READ_ONLY = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)


class Wording(Protocol):
    """What is said of a command, a line each."""

    def refused(self, command: RunCommand, execution: Execution) -> Iterable[str]: ...

    def ended(
        self, session: Session, execution: Execution, end: Exited, environ: Mapping[str, str]
    ) -> Iterable[str]: ...


OnTerminal = Callable[[Execution, ServiceCall], Exited]
"""Makes the client's terminal the command's window until its end."""


class ClientCommand(Struct, frozen=True):
    """What a client's words say."""

    agent: str
    conversation: str
    roots: tuple[str, ...]
    line: str
    cwd: str
    umask: int
    is_plan: bool
    leaves_sandbox: bool
    is_background: bool
    tells_directory: bool
    offer: str = ""

    @property
    def request(self) -> RunCommand:
        policy = READ_ONLY if self.is_plan else None
        return RunCommand(self.line, cwd=self.cwd, policy=policy, disable_sandbox=self.leaves_sandbox)


def command_of(words: tuple[str, ...]) -> ClientCommand | None:
    """None for words that are not those of an agent's hook: a cold run says what is wrong with them."""
    umask, cwd, *rest = words
    if not (umask.isascii() and umask.isdecimal() and int(umask) <= LARGEST_UMASK and os.path.isabs(cwd)):
        return None
    tells_directory = rest[:1] == [DIRECTORY]
    given = iter(rest[tells_directory:])
    named: dict[str, str] = {}
    roots: list[str] = []
    switches = {"--dangerously-disable-sandbox": False, "--background": False}
    for word in given:
        if word in switches:
            switches[word] = True
        elif (value := next(given, None)) is None:
            return None
        elif word == "--project":
            roots.append(value)
        elif word in ("--asked-by", "--conversation", "--policy", "--offer", "-c") and word not in named:
            named[word] = value
        else:
            return None
    policy, offer = named.pop("--policy", None), named.pop("--offer", "")
    if {*named} != {"--asked-by", "--conversation", "-c"} or not roots or policy not in (None, "read-only"):
        return None
    return ClientCommand(
        named["--asked-by"],
        named["--conversation"],
        tuple(roots),
        named["-c"],
        cwd,
        int(umask),
        policy is not None,
        switches["--dangerously-disable-sandbox"],
        switches["--background"],
        tells_directory,
        offer,
    )


class AgentCommands:
    def __init__(self, conversations: Conversations, wording: Wording, on_terminal: OnTerminal) -> None:
        self._conversations, self._wording, self._on_terminal = conversations, wording, on_terminal

    def serve(self, call: ServiceCall) -> None:
        command = command_of(call.words)
        if command is None or not are_carried(call.streams, command.tells_directory):
            local.send_reply(call.connection, local.NOT_HERE)
            return
        code, directory = FAILED, b""
        try:
            held = self._conversations.of(
                command.agent, command.conversation, command.roots, AgentVariables(call.environ), call.pid
            )
            with held:
                code, directory = self._run(held, command, call)
        except PinfoldError as error:
            tell(call.streams[2], [f"pinfold: {error}"])
        local.send_reply(call.connection, code, directory)

    def _run(self, held: Conversation, command: ClientCommand, call: ServiceCall) -> tuple[int, bytes]:
        session = held.session
        session.adopt(AgentVariables(call.environ))
        if offer := held.take_offer(command.line, command.cwd, command.offer):
            asked = held.grant(offer)
            self._conversations.keep(command.agent, command.conversation, held)
            if offer.is_request:
                tell(call.streams[1], [f"granted: {name}" for name in asked.given])
                if not asked.given:
                    tell(call.streams[2], [f"pinfold: nothing was granted: {why_nothing(asked)}"])
                return 0 if asked.is_granted else DENIED, b""
        with ExitStack() as stack:
            directory, into = -1, -1
            if command.tells_directory:
                directory, into = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                stack.callback(os.close, directory)
            on_terminal = os.isatty(call.streams[0])
            try:
                execution = session.start(
                    command.request,
                    environment=call.environ,
                    stdin=None if on_terminal else source_of(call.streams[0]),
                    streams=handed(call.streams, into if command.tells_directory else None),
                    terminal=size_of(call.streams[1]) if on_terminal else None,
                    umask=command.umask,
                    # A person at a terminal ends it when they like, or the agent moves it to the background.
                    is_background=command.is_background or held.has_person,
                )
            finally:
                if into >= 0:
                    os.close(into)
            if execution.refusal:
                tell(call.streams[2], self._wording.refused(command.request, execution))
                return DENIED, b""
            end = self._on_terminal(execution, call) if on_terminal else self._followed(execution, call)
            held.note(command.line, command.cwd, execution.violations)
            tell(call.streams[2], self._wording.ended(session, execution, end, call.environ))
            request = request_for_denied(session, execution.violations)
            if names_to_ask(session, request):
                tell(call.streams[2], [how_to_ask(held, command.agent)])
            where = b""
            if directory >= 0:
                with suppress(BlockingIOError):  # the line failed, or left by `exit`
                    where = os.read(directory, 1 << 14).rstrip(b"\n")
            return exit_code(end), where

    def _followed(self, execution: Execution, call: ServiceCall) -> Exited:
        """Carries the command's output, if any of it is copied, until its end."""
        over = threading.Event()

        def hear() -> None:
            try:
                heard = call.connection.recv(1)
            except OSError:
                heard = b""
            if not heard and not over.is_set():
                execution.cancel()  # the client has ended

        threading.Thread(target=hear, name="pinfold-client-end", daemon=True).start()
        try:
            return self._carried(execution, call)
        finally:
            over.set()

    @staticmethod
    def _carried(execution: Execution, call: ServiceCall) -> Exited:
        end = Exited(None, None)
        for event in execution.events():
            if isinstance(event, Exited):
                end = event
            elif isinstance(event, Output):
                try:
                    write_all(call.streams[1 if event.stream is Stream.STDOUT else 2], event.data)
                except OSError:
                    execution.cancel()  # the agent does not read any more
        return end


def how_to_ask(held: Conversation, agent: str) -> str:
    """Where the user can be asked for what a command was denied, in a sentence for a model."""
    if agent not in ASKING:
        return ASK_ELSEWHERE
    return ASK_AGAIN if held.is_attended(agent) else f"{ASK_AGAIN}; if no dialog opens, {ELSEWHERE}"


def why_nothing(asked: Asked) -> str:
    """Why a request added nothing: it was granted before, may not be, or no person said yes."""
    settlement = asked.settlement
    if settlement is None:
        return describe_refusal(asked.decision) if not asked.is_granted else asked.decision.reasons[0].message
    return "the user said no" if settlement.is_refusal else settlement.by


def exit_code(end: Exited) -> int:
    if end.timed_out:
        return TIMED_OUT
    return end.exit_code if end.exit_code is not None else SIGNALLED + (end.signal or 0)


def source_of(stdin: int) -> int | None:
    """What is copied to the command's standard input; None if that is handed over, or empty."""
    kind = os.fstat(stdin).st_mode
    return stdin if stat.S_ISREG(kind) or stat.S_ISSOCK(kind) else None


def handed(streams: tuple[int, ...], directory: int | None) -> HandedStreams:
    pipes = [each if stat.S_ISFIFO(os.fstat(each).st_mode) else None for each in streams]
    is_one = os.path.sameopenfile(streams[1], streams[2])
    stdin, stdout, stderr = pipes
    return HandedStreams(stdin, stdout, stderr, joined=is_one and stdout is None, directory=directory)


def are_carried(streams: tuple[int, ...], tells_directory: bool) -> bool:
    """Whether these are the three streams of a command: all on one terminal, or none on any."""
    terminals = [each for each in streams if os.isatty(each)]
    if not terminals:
        return len(streams) == 3
    devices = {os.fstat(each).st_rdev for each in terminals}
    return len(terminals) == 3 and len(devices) == 1 and not tells_directory


def size_of(terminal: int) -> tuple[int, int]:
    """Its rows and columns."""
    columns, rows = os.get_terminal_size(terminal)
    return rows, columns


def tell(stderr: int, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    with suppress(OSError):  # the agent does not read any more
        write_all(stderr, text.encode("utf-8", "replace"))


def write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
