"""What callers hand over becomes a request, or is refused before anything is done."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict, replace

from pinfold.model.errors import PolicyError, RequestError
from pinfold.model.escape_text import quoted
from pinfold.model.handed_streams import HandedStreams
from pinfold.model.load_structs import ready
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement, SettlementOutcome
from pinfold.model.policy import PolicyType
from pinfold.model.request import Request, RunCommand
from pinfold.model.script import LONGEST_LINE
from pinfold.model.settings import IfUnavailable, Settings
from pinfold.model.symlinks import project_directory

if TYPE_CHECKING:
    from pinfold.approval import Approver

ANY = RunCommand("")
CO_COROUTINE = 0x80
NO_SECRET = re.compile(
    r"(?i)_(command|cmd|program|exec|helper|provider|agent|backend|file|files|path|dir|home|config|url|uri|alias.*)$"
)
"""The end of a name that tells a program or a place by which a secret is found, and not the secret."""
_KEY = os.urandom(16)
CHANGED = Settlement(
    Answer.NO, "the settings changed while it was asked; ask again", SettlementOutcome.CHANGED
)


class Given(Struct, frozen=True):
    """What a command is given besides itself."""

    stdin: bytes | int | None
    environment: Mapping[str, str] | None
    terminal: tuple[int, int] | None
    streams: HandedStreams = HandedStreams()
    umask: int | None = None
    is_background: bool = False
    """Whether it has no time limit but one that the call or the settings set."""

    @property
    def source(self) -> bytes | int | None:
        """What standard input is read from."""
        return self.stdin if self.streams.stdin is None else self.streams.stdin


def as_request(request: Request | str | Sequence[str]) -> Request:
    """A shell line or an argument vector as a request; a request as itself, with the line that is judged."""
    if isinstance(request, str):
        return RunCommand(request)
    if isinstance(request, RunCommand):
        whole = _checked(request)
        return whole if whole.argv is None else replace(whole, command=_line(whole.argv))
    if isinstance(request, Request):
        return _checked(request)
    if isinstance(request, list | tuple):
        for word in request:
            if not isinstance(word, str):
                raise RequestError(f"the words of a command must be strings, got {type(word).__name__}")
        return RunCommand(_line(request), argv=tuple(request))
    kind = type(request).__name__
    raise RequestError(f"a request must be a shell line, a list of words or a Request, got {kind}")


_R = TypeVar("_R", bound=Request)


def _checked(request: _R) -> _R:
    """The request with what its type says, which Python does not look at."""
    try:
        return convert(asdict(request), ready(type(request)))
    except ValidationError as error:
        remedy = "; give a list of words as `argv`" if "`$.command`" in str(error) else ""
        raise RequestError(f"this {type(request).__name__} is malformed: {error}{remedy}") from None


def line_of(request: RunCommand) -> str:
    """What will be run; a person may be shown more of it."""
    return request.command if request.argv is None else _line(request.argv)


def judged_line(request: RunCommand) -> str:
    """The line as it is judged, asked about and remembered: with the variables that it is given, which may
    make another program of it. Where they are too long for that, without (`has_unread_variables`)."""
    if not request.variables:
        return line_of(request)
    words = ("bash", "-c", request.command) if request.argv is None else request.argv
    whole = _line(["env", *(f"{name}={_told(name, value)}" for name, value in request.variables), *words])
    return whole if len(whole) <= LONGEST_LINE else line_of(request)


def _told(name: str, value: str) -> str:
    """A placeholder for a secret in questions and the journal. It differs for each value and each start of
    this program, so that an answer holds for this very secret."""
    from pinfold.sandbox.environment import names_secret

    if not names_secret(name) or NO_SECRET.search(name):
        return value
    from hashlib import blake2b

    kept = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=4, key=_KEY)
    return f"...{kept.hexdigest()}"


def has_unread_variables(request: RunCommand) -> bool:
    return bool(request.variables) and judged_line(request) == line_of(request)


def with_variables(
    request: RunCommand, environment: Mapping[str, str] | None, environ: Mapping[str, str]
) -> RunCommand:
    """The request with what a call sets beside it; `environ` is what the session has anyway.

    INVARIANT: a variable beside a line is judged as one in it. Outside the sandbox nothing else looks at it.
    """
    changed = {name: value for name, value in (environment or {}).items() if environ.get(name) != value}
    if not changed and not request.variables:
        return request
    from pinfold.shell.variables import harmless_variable

    variables = tuple((name, value) for name, value in changed.items() if not harmless_variable(name))
    return replace(request, variables=variables)


def _line(words: Sequence[str]) -> str:
    if not words:
        raise RequestError("the list of words is empty: give a program")
    return " ".join([quoted(word) for word in words])


def as_command(
    request: RunCommand | str | Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> RunCommand:
    wanted = as_request(request)
    if not isinstance(wanted, RunCommand):
        raise RequestError(f"only a command can be run, not a {type(wanted).__name__}")
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < float("inf")):
        raise RequestError(f"`timeout` must be a number of seconds above 0, got {timeout!r}")
    if cwd is None and timeout is None:
        return wanted
    return replace(
        wanted,
        cwd=wanted.cwd if cwd is None else _path(cwd),
        timeout=wanted.timeout if timeout is None else timeout,
    )


def _path(cwd: object) -> str:
    if not isinstance(cwd, str | os.PathLike):
        raise RequestError(f"`cwd` must be a path, got {type(cwd).__name__}")
    return os.fspath(cwd)


def require_given(given: Given) -> None:
    """Refuses what no program can be given, before anything is written down of a run."""
    if not isinstance(given.stdin, bytes | int | None):
        raise RequestError(f"`stdin` must be bytes or a descriptor, got {type(given.stdin).__name__}")
    if given.terminal is not None and not _is_size(given.terminal):
        raise RequestError(f"`terminal` must be a tuple of rows and columns, got {given.terminal!r}")
    for name, value in (given.environment or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise RequestError(
                f"names and values of the environment must be strings, got {name!r}: {value!r}"
            )
        if "\0" in name + value or "=" in name or not name:
            raise RequestError(f"no program can be given a variable {name!r} with this value")


def _is_size(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(each, int) for each in given)


def require_approvers(approvers: "Sequence[Approver]") -> None:
    for each in approvers:
        if not callable(each):
            raise RequestError(f"approvers must be callable, got {each!r}")
        if _is_coroutine(each):
            raise RequestError(f"approvers run on a thread and cannot be `async`, got {each!r}")


def _is_coroutine(called: object) -> bool:
    """As `inspect` tells, which is long to load."""
    for each in (called, type(called).__call__):
        code = getattr(getattr(each, "__func__", each), "__code__", None)
        if code is not None and code.co_flags & CO_COROUTINE:
            return True
    return False


def start_in(roots: tuple[str, ...]) -> str:
    """Where we are, if that is in one of the projects; else the first of them."""
    try:
        here = project_directory(os.getcwd())
    except FileNotFoundError:
        if roots:
            return roots[0]
        raise PolicyError("the working directory is gone", help="name the projects to work in") from None
    inside = not roots or any(f"{here}/".startswith(f"{root}/") for root in roots)
    return here if inside else roots[0]


def require_pen_or_way_out(roots: tuple[str, ...], settings: Settings, command: RunCommand = ANY) -> None:
    """Raises if no pen can be made for the command, and it cannot run otherwise. What may run outside of the
    sandbox, or asks for a policy of its own, is left to the decision. Precondition: `/` is among the roots.

    Making the pen would raise too, but only after a scan of the project for ignore files: seconds, if the
    project is the whole machine. A caller with a person waiting calls this first.
    """
    from pinfold.sandbox.plan import require_possible

    sandbox = settings.sandbox
    may_leave = (
        not sandbox.enabled
        or sandbox.if_unavailable is not IfUnavailable.REFUSE
        or sandbox.excluded_commands
        or settings.mcp.cli
        or command.disable_sandbox
    )
    if sandbox.policy is PolicyType.WORKSPACE_READWRITE and command.policy is None and not may_leave:
        require_possible(roots)


def rule_trouble(question: PermissionNeeded, text: str) -> str:
    """Why a text cannot be a rule; empty if it can."""
    from pinfold.policy.hosts import require_pattern
    from pinfold.shell.rule_text import shape

    check: Callable[[str], object] = require_pattern if question.capability is Capability.CONNECT else shape
    try:
        check(text.strip())
    except ValueError as error:
        return f"that is no rule: {error}"
    return ""
