"""What an agent's hook is asked, and what it answers, in terms that all agents share.

Each agent's module reads its payload into a `HookCall` and puts a `HookOutcome` into that agent's answer.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import DecodeError, Struct, json

from pinfold.model.request import Request

SHELL = "beforeShellExecution"
"""Cursor's event with the line that its other hook has changed."""
BLOCKED = 2
"""The exit status that every one of these agents takes for a no."""


class UnjudgedError(ValueError):
    """The call is one that we judge, and it does not say enough for that."""


class Opinion(StrEnum):
    """The refusing one is first: any doubt becomes it."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"
    NONE = "none"
    """No objection: the agent applies its own rules."""


class Mode(StrEnum):
    """The agent's permission mode, as far as it bears on our answer."""

    PLAN = "plan"
    """Nothing is to be changed, and nothing runs unseen."""
    UNATTENDED = "unattended"
    """The agent would take a question for a yes, or has no person to ask."""
    NORMAL = "normal"


class HookCall(Struct, frozen=True):
    """One use of a tool that an agent wants to make."""

    agent: str
    event: str
    tool: str
    cwd: str
    """Where the agent is; absolute."""
    workspace: tuple[str, ...] = ()
    """What the agent works in, by its own word; empty where it does not say."""
    requests: tuple[Request, ...] = ()
    """What it comes to. All of them must be allowed; none is a tool that we do not judge."""
    trouble: str = ""
    """Why it cannot be judged, though it should be."""
    tool_input: Mapping[str, object] = {}
    """As the agent sent it, with what we do not know."""
    can_rewrite: bool = False
    """Whether the agent lets this hook change the command."""
    can_ask: bool = True
    """Whether the agent puts this hook's questions to its person."""
    mode: Mode = Mode.NORMAL
    conversation: str = ""
    generation: str = ""
    model: str = ""

    @property
    def is_asked(self) -> bool:
        """Whether a question is put to a person, and not taken for a yes."""
        return self.can_ask and self.mode is Mode.NORMAL

    @property
    def is_of_conversation(self) -> bool:
        """Whether its command can be led to the conversation's session, or has been."""
        return bool(self.conversation) and (self.can_rewrite or self.event == SHELL)


class HookOutcome(Struct, frozen=True):
    """What is to be done about a call."""

    opinion: Opinion
    message: str = ""
    """For the person and the model, in one line."""
    command: str | None = None
    """The line to run in place of the one that was asked for."""
    tool_input: Mapping[str, object] | None = None
    """The whole input to use in place of the one that was asked for."""
    context: str = ""
    """For the model: at the start of its work, or about this call."""


class HookReply(Struct, frozen=True):
    """What a hook's process writes, and how it exits."""

    stdout: bytes = b""
    stderr: str = ""
    exit_code: int = 0


class MalformedError(ValueError):
    """The payload is not what this agent sends."""


def no_directory(path: str) -> str:
    """Why no command can be started there, and what to do."""
    from pinfold.model.escape_text import visible

    return f"the directory {visible(path)} does not exist; use one that does"


def blocked(message: str) -> HookReply:
    """A no that needs no payload to be understood."""
    return HookReply(b"", f"pinfold: {message}\n", BLOCKED)


Payload = Mapping[str, object]


def decoded(data: bytes) -> Payload:
    """The one JSON object in the bytes."""
    try:
        value = json.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"what the agent sent is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise MalformedError("what the agent sent is no JSON object")
    return value


def text(payload: Payload, *names: str) -> str:
    """The first of these fields that is there; it must be."""
    found = optional(payload, *names)
    if not found:
        raise MalformedError(f"there is no `{names[0]}` in what the agent sent")
    return found


def optional(payload: Payload, *names: str) -> str:
    for name in names:
        value = payload.get(name)
        if isinstance(value, str):
            return value
        if value is not None:
            raise MalformedError(f"`{name}` is not a string")
    return ""


def table(payload: Payload, name: str) -> Payload:
    """A field that is an object; one that is missing is an empty one."""
    value = payload.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(f"`{name}` is no object")
    return value


def texts(payload: Payload, name: str) -> tuple[str, ...]:
    value = payload.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise MalformedError(f"`{name}` is no list of texts")
    return tuple(value)


def directory(payload: Payload, environ: Mapping[str, str], *names: str) -> str:
    """Where the agent is: it must say, and in full."""
    found = optional(payload, "cwd") or next((environ[name] for name in names if environ.get(name)), "")
    if not found.startswith("/") or "\0" in found:
        raise MalformedError("the agent does not say in which directory it is")
    return found
