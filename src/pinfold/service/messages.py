"""What may be said: a value for the parameters of each method, and for each kind of error. Pure.

What is not understood refuses: a parameter that is left out of account may be the one that narrows.

INVARIANT: an error's `data` has a `kind` and a `message`; a refusal's says also which step and rule spoke,
what would change the answer (`remedy`) and what whoever asked may do next (`next`).
"""

from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pinfold.model.errors import (
    ConfinementError,
    FileRefused,
    PinfoldError,
    PolicyError,
    RequestError,
    SandboxUnavailable,
)
from pinfold.model.load_structs import ready
from pinfold.model.permission import Answer

SERVICE_VERSION = "v3"
"""Cursor's name for the first terminal service with a fence; what a client says it speaks."""
PARSE, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
REFUSED, UNAVAILABLE, NO_SESSION, BUSY, NOT_YOU = -32001, -32002, -32003, -32004, -32005

HALF_A_PAIR = "half of a surrogate pair, as `\\ud800` alone, is no text"


class Fault(Exception):  # noqa: N818  (it is an answer, not ours to mend)
    """An answer that is an error."""

    def __init__(self, code: int, kind: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.data = {"kind": kind, "message": message, **data}


class Call(Struct):
    """One line from a client. Without an `id`, nobody wants an answer."""

    jsonrpc: str = ""
    method: str = ""
    params: Raw = Raw(b"{}")
    id: int | str | UnsetType | None = UNSET


class Params(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The base of every method's parameters."""


P = TypeVar("P", bound=Params)


class Initialize(Params, frozen=True):
    service_version: str = ""
    """What the client was written for; below ours, no command runs without a question."""
    proof: str = ""
    """On a socket: that the client knows the token; `proof` says how."""
    client_name: str = ""
    """For whoever reads the exchange: nothing is decided by it."""
    asks: bool = True
    """Whether the client puts questions to a person; else they go to the page, or the answer is no."""


class Challenge(Params, frozen=True):
    nonce: str = ""
    """32 random bytes of the client's, in hex."""


class CreateSession(Params, frozen=True):
    projects: tuple[str, ...] = ()
    cwd: str | None = None
    conversation: str = ""
    generation: str = ""
    model: str = ""


class OfSession(Params, frozen=True):
    session_id: str


class Command(OfSession, frozen=True):
    command: str | tuple[str, ...]
    """A shell line, or a program and its arguments without a shell."""
    cwd: str | None = None
    description: str = ""
    timeout: float | None = None
    """Seconds."""
    sandbox_policy: dict[str, Any] | None = None
    dangerously_disable_sandbox: bool = False


class Execute(Command, frozen=True):
    execution_id: str = ""
    """A name of the client's own, by which it may cancel before it has an answer."""
    stdin: str | None = None
    environment: dict[str, str] | None = None
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """How output is told."""


class Check(Params, frozen=True):
    """One of a command, a path, a host with its port, and a tool with its server."""

    session_id: str
    command: str | tuple[str, ...] | None = None
    cwd: str | None = None
    description: str = ""
    timeout: float | None = None
    sandbox_policy: dict[str, Any] | None = None
    dangerously_disable_sandbox: bool = False
    path: str | None = None
    access: Literal["read", "write", "delete"] = "read"
    host: str | None = None
    port: int = 443
    server: str = ""
    tool: str | None = None


class Cancel(OfSession, frozen=True):
    execution_id: str = ""
    """Empty for all of the session's."""


class AddProject(OfSession, frozen=True):
    path: str


class RequestPermission(OfSession, frozen=True):
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    git_writes: bool = False
    why: str = ""


class GiveAnswer(Params, frozen=True):
    request_id: str
    answer: Answer


class ReadFile(OfSession, frozen=True):
    path: str
    first_line: int = 1
    lines: int | None = None


class PutFile(OfSession, frozen=True):
    """To write, or to append."""

    path: str
    text: str


class Block(Struct, frozen=True, forbid_unknown_fields=True):
    search: str
    replace: str


class ReplaceInFile(OfSession, frozen=True):
    path: str
    blocks: tuple[Block, ...]


class OfPath(OfSession, frozen=True):
    path: str = "."


class DeleteFile(OfSession, frozen=True):
    path: str


class MoveFile(OfSession, frozen=True):
    old: str
    new: str


class GlobFiles(OfSession, frozen=True):
    pattern: str
    path: str = "."


class SearchFiles(OfSession, frozen=True):
    pattern: str
    path: str = "."
    only: str = "**"


def decode(line: bytes) -> Call:
    """A line as a call; `Fault` says what is wrong with it."""
    try:
        call = msgspec.json.decode(line, type=ready(Call))
    except msgspec.ValidationError as error:
        raise Fault(INVALID_REQUEST, "invalid", f"not a request of JSON-RPC 2.0: {error}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        why = HALF_A_PAIR if _has_half_a_pair(line) else f"not a line of JSON: {error}"
        raise Fault(PARSE, "invalid", why) from None
    if call.jsonrpc != "2.0" or not call.method:
        raise Fault(INVALID_REQUEST, "invalid", 'a request has "jsonrpc": "2.0" and a method')
    return call


def _has_half_a_pair(line: bytes) -> bool:
    """Whether it is JSON and no text: at the end of a string msgspec takes that for the end of the line."""
    import json

    try:
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def id_of(line: bytes) -> int | str | None:
    """Whose answer it is that a line is no call; None if that cannot be told.

    Python's own reader takes what is JSON and no text (`HALF_A_PAIR`).
    """
    import json

    try:
        told = json.loads(line)
        found = msgspec.json.decode(json.dumps({"id": told["id"]}), type=ready(Call)).id
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return None if isinstance(found, UnsetType) else found


def params_of(call: Call, kind: type[P]) -> P:
    try:
        return msgspec.json.decode(call.params, type=ready(kind))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Fault(INVALID_PARAMS, "invalid", f"`{call.method}`: {error}") from None


def result_line(id: object, result: object) -> bytes:
    return _answer_line(id, "result", result)


def fault_line(id: object, fault: Fault) -> bytes:
    error = {"code": fault.code, "message": str(fault), "data": fault.data}
    return _answer_line(id, "error", error)


def _answer_line(id: object, kind: str, told: object) -> bytes:
    known = {} if id is UNSET else {"id": id}  # without one it is told to nobody
    return msgspec.json.encode({"jsonrpc": "2.0", **known, kind: told}) + b"\n"


def event_line(method: str, params: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def fault_of(error: BaseException) -> Fault:
    """Whatever went wrong, sorted by blame as the exceptions are."""
    match error:
        case Fault():
            return error
        case FileRefused():
            from pinfold.session.serialize import file_refusal_as_plain

            told = file_refusal_as_plain(error)
            return Fault(REFUSED, told.pop("kind"), told.pop("message"), **told)
        case PolicyError():
            return Fault(INVALID_PARAMS, "invalid", str(error), remedy=error.help or None)
        case SandboxUnavailable():
            return Fault(UNAVAILABLE, "unavailable", str(error), remedy="pinfold doctor")
        case RequestError():
            return Fault(INVALID_PARAMS, "invalid", str(error))
        case ConfinementError() | PinfoldError():
            return Fault(UNAVAILABLE, "failed", str(error))
        case TypeError() | ValueError():
            return Fault(INVALID_PARAMS, "invalid", str(error))
    said = f"a fault of pinfold's own, please report it: {type(error).__name__}: {error}"
    return Fault(INTERNAL, "internal", said)
