"""`pinfold serve --agents`: answers agents' hooks, and runs commands of agents and of `pinfold run`.

Hooks start it, and so does `pinfold run` at a terminal.
"""

import os
import threading
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import cache, partial
from socket import SHUT_RD
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import json

from pinfold.approval.terminal import TerminalApprover
from pinfold.approval.terminal_turn import Turn, terminal_of
from pinfold.cli import FAILED, VERBS, exit_code_of
from pinfold.cli.command_streams import carry_on_terminal
from pinfold.cli.judged_arguments import overrides_of
from pinfold.cli.output import VerbCaller, working_for
from pinfold.cli.question_view import QuestionView
from pinfold.cli.run import (
    command_from_args,
    ending_lines,
    lists_of,
    not_run,
    open_session,
    refusal_lines,
    run_in,
    tell_of_page,
    violation_lines,
)
from pinfold.integrations.hooks import answer
from pinfold.integrations.hooks.approval_tickets import AgentApprover
from pinfold.model.agent_variables import AgentVariables
from pinfold.model.errors import PinfoldError
from pinfold.model.events import Exited
from pinfold.model.permission import PermissionNeeded, Reply
from pinfold.model.request import RunCommand
from pinfold.service import local_socket as local
from pinfold.service.agent_process import limits_of, stat_fields
from pinfold.service.command_client import INTERRUPTED, RESIZE
from pinfold.service.command_run import AgentCommands, handed, source_of
from pinfold.service.conversations import (
    NAMED,
    Conversation,
    Conversations,
    SessionOptions,
    Terminals,
)
from pinfold.service.daemon import Daemon, Serve, ServiceCall
from pinfold.service.hook_calls import HeldForHook, HookCalls, HookReplyBytes
from pinfold.session import Session
from pinfold.session.execution import Execution
from pinfold.settings.sources import find_project
from pinfold.state.conversation_tmp import scratch_directory
from pinfold.web import WebApprover

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from pinfold.approval import Approver


SPARE_SECONDS = 60.0
"""For how long a session that was opened ahead is kept, and a kind of session is expected again."""
MOST_SPARE = 4
ALONE = "only a process of its own can do it"
KEYS_ALONE = (
    "its input is a terminal, and its output is not, or it is in the background; "
    "add `< /dev/null`, or redirect the output in the shell line"
)


def serve_agents(limits: tuple[str, ...]) -> int:
    """`limits` are those that this process was started with."""
    os.chdir("/")  # no project stays busy, nor is one's own directory gone when another is taken up
    environ = dict(os.environ)
    if not os.path.isdir(environ.get("HOME", "")):
        return FAILED  # the home has gone since a hook started this, and is not to be made again
    conversations = Conversations(open_conversation, environ)
    verbs: dict[str, Serve] = {
        "hook": HookCalls(conversations, answered).serve,
        "run": AgentCommands(conversations, PlainWording(), carry_on_client_terminal).serve,
        "pinfold": RunCalls(conversations, limits).serve,
        "sessions": partial(answer_about_sessions, conversations),
    }
    daemon = Daemon(verbs, conversations)
    try:
        daemon.serve(local.socket_path(environ))
    finally:
        conversations.close()
    return 0


def answered(agent: str, data: bytes, environ: Mapping[str, str], held: HeldForHook) -> HookReplyBytes:
    reply = answer(agent, data, environ, held)
    return HookReplyBytes(reply.exit_code, reply.stdout, reply.stderr.encode("utf-8", "replace"))


def open_conversation(
    agent: str,
    id: str,
    roots: tuple[str, ...],
    environ: Mapping[str, str],
    held: Conversation,
    resume: str,
) -> Session:
    """The session of a conversation, or one with a name. Its person answers at the terminal of a `pinfold
    run` in it, in the agent's dialog, or on the page."""
    approvers: list[Approver] = [held, held.terminals, WebApprover(environ)]
    if agent != NAMED:
        approvers.insert(2, AgentApprover(agent, environ))
    options = SessionOptions() if resume else held.options
    return Session(
        () if resume else roots,
        settings=options.settings,
        overrides=options.overrides,
        environ=environ,
        approvers=approvers,
        conversation="" if agent == NAMED else id,
        resume=resume,
        scratch="" if agent == NAMED else scratch_directory(agent, id, environ),
    )


def answer_about_sessions(conversations: Conversations, call: ServiceCall) -> None:
    """`pinfold sessions`: lists them, or ends the one of this name or id."""
    if call.words[:1] == ("end",):
        conversations.end_named(call.words[1])
    local.send_reply(call.connection, 0, json.encode(conversations.known()))


class PlainWording:
    """What `pinfold run` says of a command, for an agent to read."""

    def refused(self, command: RunCommand, execution: Execution) -> Iterable[str]:
        return [*refusal_lines(command, execution, coloured=False), f"pinfold: {not_run(execution)}"]

    def ended(
        self, session: Session, execution: Execution, end: Exited, environ: Mapping[str, str]
    ) -> Iterator[str]:
        lines, violations = ending_lines(session, execution, end, environ)
        for line in (*lines, *violation_lines(violations, failed=bool(end.exit_code or end.signal))):
            yield f"pinfold: {line}"


# `pinfold run`


class RunClient(VerbCaller):
    """A `pinfold run` that has handed over its streams. It says when its terminal's size changes, and when a
    signal is to end its command; its own end does that too."""

    is_remote = True

    def __init__(self, call: ServiceCall, execution: Execution | None = None) -> None:
        umask, self._cwd, *words = call.words
        self.words = tuple(words)
        self.umask = int(umask)
        self.stdin, self.stdout, self.stderr = call.streams
        self.terminal = terminal_of(call.pid, call.streams)
        self._environ = dict(call.environ)
        self._connection, self._pid = call.connection, call.pid
        self._lock = threading.Lock()
        self._execution = execution
        self.is_cancelled = False
        self.died_of_interrupt = False
        self._is_over = False
        self._resized: Callable[[], object] | None = None
        self._threads: list[threading.Thread] = []
        self.wake, self._waking = os.pipe2(os.O_CLOEXEC)
        self._texts: dict[int, TextIO] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def out(self) -> TextIO:
        return self._text(self.stdout)

    @property
    def err(self) -> TextIO:
        return self._text(self.stderr)

    def _text(self, descriptor: int) -> TextIO:
        if descriptor not in self._texts:
            self._texts[descriptor] = open(  # noqa: SIM115  (it does not own the descriptor)
                descriptor, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False
            )
        return self._texts[descriptor]

    @property
    def has_input(self) -> bool:
        return True

    def is_in_front(self) -> bool:
        """Facts (proc(5)): fields 5, 7 and 8 are its process group, the terminal that controls it and the
        foreground group of that. No other terminal stops it."""
        try:
            _, _, group, _, terminal, front, *_ = stat_fields(self._pid)
            return group == front or int(terminal) != _tty_number(os.fstat(self.stdin).st_rdev)
        except (OSError, ValueError):
            return False

    def may_read_keys(self) -> bool:
        return self.is_in_front()

    def follow_size(self, do: Callable[[], object] | None) -> None:
        self._resized = do

    def start(self, do: Callable[[], object]) -> None:
        def work() -> None:
            with working_for(self):
                do()

        thread = threading.Thread(target=work, name="pinfold-client", daemon=True)
        self._threads.append(thread)
        thread.start()

    def started(self, session: Session, command: RunCommand, **given: Any) -> Execution:
        if given["terminal"] is None:
            given["streams"] = handed((self.stdin, self.stdout, self.stderr), None)
            given["stdin"] = source_of(self.stdin)
        execution = session.start(
            command,
            environment=self._environ,
            umask=self.umask,
            is_withdrawn=lambda: self.is_cancelled,
            **given,
        )
        with self._lock:
            self._execution = execution
        if self.is_cancelled:
            execution.cancel()
        return execution

    def cancel(self) -> None:
        """Ends its command, or sees to it that none begins."""
        self.is_cancelled = True
        with self._lock:
            if self._execution is not None:
                self._execution.cancel()

    def note_interrupt(self) -> None:
        self.died_of_interrupt = True

    def hear(self) -> None:
        """Reads what the client says until it says no more. Its end ends its command, while that runs."""
        while True:
            try:
                said = self._connection.recv(1)
            except OSError:
                said = b""
            if said == RESIZE and (do := self._resized):
                do()
            elif said != RESIZE and not self._is_over:
                self.cancel()
            if not said:
                return

    def answer(self, code: int) -> None:
        for text in self._texts.values():
            with suppress(OSError):  # no process reads it any more
                text.flush()
        self._is_over = True
        with suppress(OSError):  # the client has ended
            local.send_reply(self._connection, code, INTERRUPTED if self.died_of_interrupt else b"")

    def finish(self) -> None:
        """Stops its threads: none uses its descriptors afterwards. The client can still get its reply."""
        self._is_over = True
        os.close(self._waking)
        with suppress(OSError):  # the client has ended
            self._connection.shutdown(SHUT_RD)
        for thread in self._threads:
            thread.join()
        os.close(self.wake)


def _tty_number(device: int) -> int:
    """The number by which /proc/PID/stat names a terminal: the low byte of its minor number, its major
    number, then the rest of the minor number."""
    minor = os.minor(device)
    return (minor & 0xFF) | (os.major(device) << 8) | ((minor & ~0xFF) << 12)


def carry_on_client_terminal(execution: Execution, call: ServiceCall) -> Exited:
    client = RunClient(call, execution)
    client.start(client.hear)
    try:
        with working_for(client):
            return carry_on_terminal(execution, Turn(client.terminal), lambda: None)
    except OSError:  # the terminal has gone
        execution.cancel()
        result = execution.wait()
        return Exited(result.exit_code, result.signal, result.timed_out, result.cancelled)
    finally:
        client.finish()


class ClientTerminal(TerminalApprover):
    """Asks at the terminal of a client."""

    def __init__(self, client: RunClient) -> None:
        super().__init__(QuestionView(), terminal=client.terminal, environ=client.environ)
        self._client = client
        self.interrupt = client.cancel

    def __call__(self, question: PermissionNeeded) -> Reply | None:
        with working_for(self._client):
            return super().__call__(question)


class OwnSession:
    """A session for one `pinfold run`, which may have been opened before that came."""

    def __init__(self, args: Namespace, environ: Mapping[str, str]) -> None:
        self.terminals = Terminals()
        self.page = WebApprover(environ, told=self._tell_of_page)
        self._client: RunClient | None = None
        self.session = open_session(args, approvers=[self.terminals, self.page], environ=environ)

    def begin(self, client: "RunClient") -> None:
        self._client = client
        self.session.adopt(client.environ)

    def _tell_of_page(self, question: PermissionNeeded) -> None:
        if self._client is not None:
            with working_for(self._client):
                tell_of_page(question)


class SpareSessions:
    """Sessions that are opened ahead, for a `pinfold run` like the last ones in the same directory.

    Nothing has run in them. Settings and files that change meanwhile count in them as in any session.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: dict[bytes, OwnSession] = {}
        self._last: dict[bytes, float] = {}
        """When each kind was last wanted."""

    def take(self, args: Namespace, client: RunClient) -> OwnSession:
        with self._lock:
            found = self._spare.pop(_kind_of(args), None)
        found = found or OwnSession(args, client.environ)
        try:
            found.begin(client)
        except BaseException:
            found.session.close()
            raise
        return found

    def replace(self, args: Namespace, environ: Mapping[str, str]) -> None:
        """Opens another session of this kind, if that is wanted again and again."""
        kind, now = _kind_of(args), monotonic()
        with self._lock:
            is_wanted = now - self._last.get(kind, -SPARE_SECONDS) < SPARE_SECONDS
            self._last = {each: at for each, at in self._last.items() if now - at < SPARE_SECONDS}
            self._last[kind] = now
            if not is_wanted or kind in self._spare or len(self._spare) >= MOST_SPARE:
                return
        try:
            spare = OwnSession(args, environ)
        except (PinfoldError, OSError):
            return  # the next command says why
        try:
            spare.session.prepare()
        except (PinfoldError, OSError):
            spare.session.close()
            return
        with self._lock:
            other = self._spare.get(kind)
            self._spare[kind] = spare
        if other:
            other.session.close()
        late = threading.Timer(SPARE_SECONDS, self._drop, (kind, spare))
        late.daemon = True
        late.start()

    def _drop(self, kind: bytes, spare: OwnSession) -> None:
        with self._lock:
            if self._spare.get(kind) is not spare:
                return
            del self._spare[kind]
        spare.session.close()


def _kind_of(args: Namespace) -> bytes:
    return json.encode([args.cwd, args.settings, args.project, overrides_of(args, lists_of(args))])


@cache
def _parser() -> "ArgumentParser":
    return VERBS["run"].parser("run")


class RunCalls:
    """Calls of `pinfold run`: the service runs their commands as the clients themselves would."""

    def __init__(self, conversations: Conversations, limits: tuple[str, ...]) -> None:
        self._conversations, self._limits = conversations, limits
        self._spares = SpareSessions()
        self._parsing = threading.Lock()

    def serve(self, call: ServiceCall) -> None:
        if len(call.streams) != local.STREAMS:
            self._decline(call, "its standard streams did not come with it")
            return
        if limits_of(call.pid) != self._limits:
            self._decline(call, "it has other limits or priorities (`ulimit`, `nice`, `taskset`)")
            return
        client = RunClient(call)
        args = self._args_of(client)
        if isinstance(args, str):
            self._decline(call, args)
        else:
            client.start(client.hear)
            self._run(client, args, call)
        client.finish()

    @staticmethod
    def _decline(call: ServiceCall, why: str) -> None:
        """The client is to run it by itself."""
        local.send_reply(call.connection, local.NOT_HERE, err=why.encode())

    def _args_of(self, client: RunClient) -> Namespace | str:
        """The client's arguments, or why only a process of its own can do it: also to say what is wrong with
        them."""
        if {"-h", "--help"} & {*client.words} or not client.cwd.startswith("/"):
            return ALONE
        is_typed = os.isatty(client.stdin)
        if is_typed and not (os.isatty(client.stdout) and client.is_in_front() and client.terminal):
            return KEYS_ALONE  # what is typed would be taken from the shell, were the client stopped
        try:
            with self._parsing, working_for(client):
                args = _parser().parse_args(client.words)
        except PinfoldError:
            return ALONE
        if args.json or args.asked_by is not None:
            return ALONE
        here = partial(os.path.join, client.cwd)
        args.cwd = here(args.cwd or "")
        args.settings = args.settings and here(args.settings)
        args.project = args.project and [*map(here, args.project)]
        return args

    def _run(self, client: RunClient, args: Namespace, call: ServiceCall) -> None:
        with ExitStack() as after:
            with working_for(client):
                try:
                    code = exit_code_of(lambda: self._code(client, args, after))
                except Exception as error:  # noqa: BLE001  (the client must not wait for ever)
                    print(f"pinfold: {type(error).__name__}: {error}", file=client.err)
                    code = FAILED
            client.answer(code)
            call.later.append(after.pop_all().close)

    def _code(self, client: RunClient, args: Namespace, after: ExitStack) -> int:
        command = command_from_args(args)
        person = ClientTerminal(client)
        try:
            if args.session is not None:
                return self._in_named(client, args, command, person)
            after.callback(self._spares.replace, args, client.environ)
            own = self._spares.take(args, client)
            session = own.session
            with ExitStack() as closing, own.terminals.beside(person):
                closing.callback(session.close)
                code = run_in(session, args, command, person, [own.page])
                if not (session.has_processes or session.settings.network.publish):
                    after.push(closing.pop_all())  # no caller notices, so none need wait for it
                return code
        finally:
            person.close()

    def _in_named(
        self, client: RunClient, args: Namespace, command: RunCommand, person: ClientTerminal
    ) -> int:
        given = SessionOptions(args.settings, overrides_of(args, lists_of(args)))
        projects = tuple(args.project or (find_project(os.path.realpath(args.cwd), client.environ),))
        held = self._conversations.named(args.session, projects, client.environ, given)
        session = held.session
        with held, held.terminals.beside(person):
            session.adopt(client.environ if held.is_named else AgentVariables(client.environ))
            return run_in(session, args, _at(command, args.cwd), person, ())


def _at(command: RunCommand, cwd: str) -> RunCommand:
    from msgspec.structs import replace

    return replace(command, cwd=cwd)
