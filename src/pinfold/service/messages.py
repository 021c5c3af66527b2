"""The service's messages: the parameters of each method, and each kind of error. Pure.

Unknown parameters are rejected: ignoring one could drop a restriction.

INVARIANT: an error's `data` has a `kind` and a `message`. For a refusal it also has the step and the rule
that decided, what would change the answer (`remedy`) and what the caller may do next (`next`).
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
from pinfold.model.tool_parameters import (
    CommandOptions,
    PermissionParameters,
    ReadFileParameters,
    ReplaceInFileParameters,
    SearchFilesParameters,
    ToolParameters,
    WriteFileParameters,
)

SERVICE_VERSION = "v3"
"""Cursor's name for its first terminal service with a sandbox; a client sends the version it was written
for."""
PARSE, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
REFUSED, UNAVAILABLE, NO_SESSION, BUSY, NOT_YOU = -32001, -32002, -32003, -32004, -32005

HALF_A_PAIR = "the text has half of a surrogate pair, such as `\\ud800` alone"


class Fault(Exception):  # noqa: N818  (it becomes an answer)
    """An error that a client gets as its answer."""

    def __init__(self, code: int, kind: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.data = {"kind": kind, "message": message, **data}


class RpcCall(Struct):
    """One line from a client. A call without an `id` gets no answer."""

    jsonrpc: str = ""
    method: str = ""
    params: Raw = Raw(b"{}")
    id: int | str | UnsetType | None = UNSET


class Params(ToolParameters, frozen=True, rename="camel"):
    """The base of parameters that only the service has. A tool's parameters come from
    `model.tool_parameters`, and each class here that builds on one adds the session."""


P = TypeVar("P", bound=ToolParameters)


class Initialize(Params, frozen=True):
    service_version: str = ""
    """The version that the client was written for. Below ours, every command is a question."""
    proof: str = ""
    """On a socket, the proof that the client knows the token (`socket_trust`)."""
    client_name: str = ""
    """For people who read a log of the exchange; nothing depends on it."""
    asks: bool = True
    """Whether the client shows questions to a person. If not, the page of `pinfold web` does, or the answer
    is no."""


class Challenge(Params, frozen=True):
    nonce: str = ""
    """32 random bytes in hex, from the client."""


class CreateSession(Params, frozen=True):
    projects: tuple[str, ...] = ()
    cwd: str | None = None
    conversation: str = ""
    generation: str = ""
    model: str = ""
    resume: str = ""
    """The id of a session that has ended."""


class OfSession(Params, frozen=True):
    session_id: str


class Execute(CommandOptions, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    command: str | tuple[str, ...]
    """A shell line, or a program and its arguments without a shell."""
    execution_id: str = ""
    """A name that the client chooses, so that it may cancel before it has an answer."""
    stdin: str | None = None
    environment: dict[str, str] | None = None
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """How events carry output."""


class Check(CommandOptions, frozen=True, kw_only=True, rename="camel"):
    """One of a command, a path, a host with its port, and a tool with its server."""

    session_id: str
    command: str | tuple[str, ...] | None = None
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


class RequestPermission(PermissionParameters, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    git_writes: bool = False
    why: str = ""


class GiveAnswer(Params, frozen=True):
    request_id: str
    answer: Answer


class ReadFileCall(ReadFileParameters, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    first_line: int = 1


class WriteFileCall(WriteFileParameters, frozen=True, kw_only=True, rename="camel"):
    """To write, or to append."""

    session_id: str


class ReplaceInFile(ReplaceInFileParameters, frozen=True, kw_only=True, rename="camel"):
    session_id: str


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


class SearchFiles(SearchFilesParameters, frozen=True, kw_only=True, rename="camel"):
    session_id: str


def decode(line: bytes) -> RpcCall:
    """Decodes a line. Raises `Fault` for one that is no call."""
    try:
        call = msgspec.json.decode(line, type=ready(RpcCall))
    except msgspec.ValidationError as error:
        raise Fault(INVALID_REQUEST, "invalid", f"not a request of JSON-RPC 2.0: {error}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        why = HALF_A_PAIR if _has_half_a_pair(line) else f"not a line of JSON: {error}"
        raise Fault(PARSE, "invalid", why) from None
    if call.jsonrpc != "2.0" or not call.method:
        raise Fault(INVALID_REQUEST, "invalid", 'a request has "jsonrpc": "2.0" and a method')
    return call


def _has_half_a_pair(line: bytes) -> bool:
    """Whether it is JSON whose text cannot be encoded. msgspec reports that as an end of the line."""
    import json

    try:
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def id_of(line: bytes) -> int | str | None:
    """The `id` of a line that is no valid call; None if it has none.

    Uses Python's own JSON reader, which also takes text that cannot be encoded (`HALF_A_PAIR`).
    """
    import json

    try:
        told = json.loads(line)
        found = msgspec.json.decode(json.dumps({"id": told["id"]}), type=ready(RpcCall)).id
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return None if isinstance(found, UnsetType) else found


def params_of(call: RpcCall, kind: type[P]) -> P:
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
    known = {} if id is UNSET else {"id": id}
    return msgspec.json.encode({"jsonrpc": "2.0", **known, kind: told}) + b"\n"


def event_line(method: str, params: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def fault_of(error: BaseException) -> Fault:
    """Any exception as an error of the service, by whose fault it was."""
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
    said = f"internal error in pinfold; please report it: {type(error).__name__}: {error}"
    return Fault(INTERNAL, "internal", said)
