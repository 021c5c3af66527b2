"""What every way of running commands offers, sandboxed or not, and how much of the sandbox it enforces.

A backend opens sessions; a session runs commands, each under its own policy. `tests/sandbox/contract.py`
checks all backends. Nothing here decides whether a command may run.

A command's failure is a `CommandResult`. A `ConfinementError` means that nothing was run, or that the pen
failed under the command; it never looks like the command's own output.
"""

import os
from _socket import socket  # `socket` itself takes a cold start 2 ms
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from pinfold.model.codes import AskedAt, ViolationCode
from pinfold.model.env_files import FileIdentity
from pinfold.model.errors import ConfinementError
from pinfold.model.escape_text import quoted
from pinfold.model.events import Event, Exited
from pinfold.model.handed_streams import HandedStreams
from pinfold.model.policy import SandboxPolicy
from pinfold.model.protected_names import NameRule
from pinfold.model.violation import Violation


class SandboxLayer(StrEnum):
    """What can be missing; settings accept a loss by these names."""

    FENCE = "fence"
    """Every layer: there is no sandbox at all."""
    NAMESPACES = "namespaces"
    PROC = "proc"
    """A /proc of its own."""
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    UNIX_SOCKETS = "unix_sockets"
    """The machine's pathname sockets: no namespace closes them."""
    NAMES = "names"
    """Protected names that do not exist yet."""
    PROCESSES = "processes"
    MEMORY = "memory"


class EnforcementLevel(StrEnum):
    NONE = "none"
    PARTIAL = "partial"
    FULL = "full"


class Gap(Struct, frozen=True):
    """A layer that is not enforced."""

    layer: SandboxLayer
    why: str
    remedy: str = ""


class Enforcement(Struct, frozen=True):
    level: EnforcementLevel
    missing: tuple[Gap, ...] = ()

    def __str__(self) -> str:
        return ", ".join((self.level, *(f"without {gap.layer} ({gap.why})" for gap in self.missing)))


NOTHING = Enforcement(
    EnforcementLevel.NONE, (Gap(SandboxLayer.FENCE, "commands run as the user, with nothing around them"),)
)


class Found(Struct, frozen=True):
    """The paths of the workspace that a pen hides or protects."""

    protected: tuple[str, ...] = ()
    """Paths that exist and may not be written."""
    hidden: tuple[str, ...] = ()
    """Paths that exist and may not be seen."""
    names: tuple[NameRule, ...] = ()
    """Names that may not be made in the roots, whether or not they exist."""
    writable: tuple[str, ...] = ()
    """Directories outside of the roots that work in them has to write: git's, of linked worktrees."""
    placed: tuple[str, ...] = ()
    """Paths that have to stay where they are: elsewhere nothing would hide or protect them."""
    links: tuple[str, ...] = ()
    """Links in the roots that something hidden or protected is found by: they have to stay as they are."""
    home: str = ""
    """Whose owner's files root's commands may read, as they may read no other that only root may."""
    agents: tuple[str, ...] = ()
    """The sockets that the user's environment says ssh agents have."""
    closed: tuple[str, ...] = ()
    """Directories that could not be looked into: hidden in new pens. Those that run have hidden what is in
    them, and what they close they may open again."""


Survey = Callable[[SandboxPolicy], Found]
"""Looks for a policy's protected and hidden things; asked once for each pen."""


class Outside(Protocol):
    """The way out of a session's pens: hosts that are named, and nothing else."""

    def leads_out(self, policy: SandboxPolicy) -> bool:
        """Whether anything may leave under this policy, or be asked for."""

    def lent_ports(self, policy: SandboxPolicy) -> dict[int, str]:
        """Ports of this machine's loopback that a pen has as its own, and the host each is granted as."""

    def attend(
        self, pen: str, policy: SandboxPolicy, warden: socket, refused: Callable[[int, Violation], None]
    ) -> None:
        """Takes the line to a new pen's warden, which says what its programs want to reach.

        It calls `refused`, with a command's tag, for each denial that the warden does not see: the proxy's.
        """

    def catch_up(self, pen: str, tag: int) -> None:
        """Returns once all denials of a command have been reported; it has ended, or the caller asks
        early."""

    def attend_names(self, resolver: socket) -> None:
        """Takes the socket that the session's questions about names come to."""

    def publish(self, ports: Sequence[int], reach: Callable[[], socket]) -> None:
        """The machine's loopback is to lead to these ports of the session, if it does not do so already.

        `reach` makes a stream socket of the session's own network, and raises OSError where there is none.
        """

    def began(self, pen: str, tag: int, request: "StartRequest") -> None:
        """A command begins; what it wants to reach will have its pen and its tag."""

    def ended(self, pen: str) -> None:
        """A pen has ended: nothing that is kept for it is needed any more."""

    def change(self) -> None:
        """The rules have changed: the new ones decide about connections from now on."""

    def close(self) -> None: ...


class Wanted(Struct, frozen=True):
    """A call that waits, since it would change what its policy denies."""

    policy: SandboxPolicy
    request: "StartRequest | None"
    """The command, if it is known."""
    operation: str
    paths: tuple[str, ...]
    """What it changes, every link followed; behind it, of a rename or a link, what it takes for that."""
    text: str
    """Of a symlink, where it is to lead."""
    modes: tuple[int, int] | None
    """Of a change of mode, what it is (as `st_mode` has it, with the type) and what it is to be."""
    rule: str
    """The protected name that is in the way; empty if the place as such is closed."""
    why: str
    code: ViolationCode
    is_git_writes: bool
    """Whether that is git's writes as a whole."""
    program: str
    pid: int


class Ruling(Struct, frozen=True):
    """What becomes of a call that waits."""

    allowed: bool
    said: str = ""
    """Why not, for later readers."""
    asked_at: AskedAt = AskedAt.NOWHERE
    """Where the question was put that this came of."""
    code: ViolationCode | None = None
    """Why not, where that is another code than that of the rule in the way."""
    ends_with_run: bool = False
    """Whether it holds no longer than the command's run, for calls that come later."""


class Elevation(Protocol):
    """Lets more through than a pen's policy does, call by call."""

    notes_reads: bool
    """Whether reads of hidden things are reported as well, which makes every open slower."""

    def made(self, identity: FileIdentity) -> None:
        """A command has made an `.env` file, or given a file such a name."""

    def asks(self, policy: SandboxPolicy) -> bool:
        """Whether a person can be asked about commands of this policy."""

    def known(self, wanted: Wanted) -> Ruling | None:
        """The answer, if there is no need to ask, or no person may be asked."""

    def put(
        self,
        command: Hashable,
        wanted: Wanted,
        obstacle: Callable[[], Ruling | None],
        answered: Callable[[Ruling], None],
    ) -> Callable[[], None]:
        """Asks about a call of this command, and returns what withdraws the call. Like calls of a command are
        one question. `answered` gets the answer on any thread, at once or after as long as a person takes.
        `obstacle` finds what would be in the way of a yes; it may wait. Raises RuntimeError if there is no
        thread to ask."""


class CommandResult(Struct, frozen=True):
    """How a command went."""

    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    """Whether output beyond the cap was thrown away."""
    enforcement: Enforcement
    cancelled: bool = False
    violations: tuple[Violation, ...] = ()
    """What it tried and was refused, as far as the warden saw it."""


class StartRequest(Struct, frozen=True):
    """One command, and what it is given."""

    command: str | tuple[str, ...]
    """A shell line, or arguments without a shell."""
    policy: SandboxPolicy
    cwd: str
    environment: Mapping[str, str] | None = None
    """What to scrub and pass on; None is this process's own, as it was when the session was opened."""
    variables: Mapping[str, str] = {}
    """Set in addition; no name is filtered."""
    stdin: bytes | int | None = None
    """What to feed it: bytes, or all that a descriptor of ours reads, which stays ours; None is /dev/null."""
    timeout: float | None = None
    output: int | None = None
    """How many bytes of each stream are kept; None keeps all."""
    terminal: tuple[int, int] | None = None
    """Rows and columns: run on a terminal, where stdout and stderr are one and stdin stays open."""
    entry: int = 0
    """Its row in the journal."""
    streams: HandedStreams = HandedStreams()
    umask: int | None = None
    """The file mode creation mask; None is that of the process that opened the session."""

    @property
    def line(self) -> str:
        """The command as one shell line: two that run differently read differently."""
        return self.command if isinstance(self.command, str) else " ".join(map(quoted, self.command))

    def without_contents(self) -> "StartRequest":
        """What tells of the command, without what may be large: its input, its environment and its policy."""
        return StartRequest(self.command, _NO_POLICY, self.cwd, entry=self.entry)


_NO_POLICY = SandboxPolicy()


class RunningCommand(Protocol):
    """A command under way."""

    left_running: tuple[str, ...]
    """What earlier commands left running in the session under other rules: a line each."""

    @property
    def end(self) -> Exited | None:
        """How it ended. None while it runs, and until its follower has seen the end. A follower that leaves
        ends the command."""

    @property
    def failure(self) -> str:
        """Why its exit cannot be known; empty as long as it can."""

    def events(self) -> Iterator[Event]:
        """What happens, as it happens; `Exited` is the last. A second one raises, on its first step."""

    def wait(self) -> CommandResult:
        """Runs it to its end and gathers what it wrote; again, the same. Output that `events` gave is not in
        it."""

    def violations(self) -> tuple[Violation, ...]:
        """What it tried and was refused so far, as far as the warden saw it."""

    def cancel(self) -> None:
        """Ends the command and everything it started, daemons included. From any thread."""

    def write(self, data: bytes) -> int:
        """Types on its terminal; how many of the bytes it took for now."""

    def resize(self, rows: int, columns: int) -> None: ...


class SandboxSession(Protocol):
    """One agent's processes, loopback and /tmp."""

    def start(self, request: StartRequest) -> RunningCommand: ...

    def run(self, request: StartRequest) -> CommandResult: ...

    def hold(self, policy: SandboxPolicy, found: Found) -> None:
        """What has come into being since is held too, in commands of this policy that run."""

    def catch_up(self) -> None:
        """Returns once everything that commands have done by now has been reported."""

    def tend(self, idle_seconds: float) -> None:
        """To be called every now and then: ends commands whose time is up, followed or not, and
        frees pens that no command has used for `idle_seconds`."""

    def has_processes(self) -> bool:
        """Whether a command runs in it, or has left a process running."""

    def is_alive(self) -> bool:
        """Whether it can still run something; once it cannot it never will, and another is to be opened."""

    def require_free(self) -> None:
        """Raises where this thread is in the middle of what `close` would wait for."""

    def plan(self, policy: SandboxPolicy) -> str:
        """How this policy's commands are confined, for a person; empty if they are not."""

    def change_roots(self, roots: Sequence[str]) -> None:
        """Other roots, from the next command on."""

    def close(self) -> None:
        """Ends everything that runs in it."""


class Backend(Protocol):
    def open_session(
        self,
        roots: Sequence[str],
        survey: Survey | None = None,
        outside: Outside | None = None,
        elevation: Elevation | None = None,
        scratch: str = "",
    ) -> SandboxSession:
        """`scratch` is a directory of the machine that commands have as /tmp, where the policy gives them a
        private one; empty if the session is to have one of its own."""

    def block_renames(self) -> AbstractContextManager[None]:
        """Blocks renames of directories, and names that a rename could make protected, in every pen while
        code outside of pens works. Raises OSError if the pens do not come to rest."""

    def close(self) -> None: ...


SHELL = next((shell for shell in ("/bin/bash", "/usr/bin/bash") if os.access(shell, os.X_OK)), None)
"""Lines are judged as bash reads them, and other shells read some of them differently: `$'a\\''` for one."""


DIRECTORY_STREAM = 3
"""The descriptor in a pen that is told in which directory a line ended."""
TELLING_DIRECTORY = '__line=$1; shift; eval "unset -v __line; $__line" {0}>&- && pwd -P >&{0}'
"""Runs a line and then tells its directory. What the line leaves running does not hold that descriptor."""


def arguments_of(request: StartRequest, directory: int = DIRECTORY_STREAM) -> list[str]:
    """What is executed: a line goes to the shell that it was judged for, arguments go as they are.

    `directory` is the number that the descriptor for the line's final directory has in the command.
    """
    if not isinstance(request.command, str):
        if not request.command:
            raise ConfinementError("there is no program to run; nothing was run")
        return list(request.command)
    if SHELL is None:
        raise ConfinementError(
            "/bin/bash is missing, and shell lines need it; nothing was run; "
            "give a program and its arguments instead (`pinfold run -- PROGRAM ARG...`)"
        )
    if request.streams.directory is not None:
        return [SHELL, "-c", TELLING_DIRECTORY.format(directory), SHELL, request.command]
    return [SHELL, "-c", request.command]
