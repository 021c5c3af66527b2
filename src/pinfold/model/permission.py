"""What a person is asked, and what they may answer."""

from enum import StrEnum

from msgspec import Struct

from pinfold.model.decision import Decision


class Answer(StrEnum):
    """The refusing one stands first: it is what any doubt falls to."""

    NO = "no"
    ONCE = "once"


class Capability(StrEnum):
    """What kind of thing is asked for."""

    RUN = "run"
    """To run a command as it would be run: inside the fence, or outside where settings put it there."""
    WIDEN = "widen"
    """To run it with more than the user's own policy gives."""
    BYPASS = "bypass"
    """To run it without the fence."""
    CONNECT = "connect"
    """To let it reach a host; the call waits for the answer."""


class PermissionNeeded(Struct, frozen=True):
    """One question; on the wire, `SandboxPermissionNeeded`."""

    request_id: str
    session: str
    capability: Capability
    command: str
    cwd: str
    decision: Decision
    description: str = ""
    """What the agent says the command is for. Shown, never believed."""
    tool_call_id: str = ""
    choices: tuple[Answer, ...] = tuple(Answer)
    host: str = ""
    """Whom the command wants to connect to, where that is what is asked."""
    port: int = 0


class Settlement(Struct, frozen=True):
    """How a question ended."""

    answer: Answer
    by: str
    """Who answered, or why nobody did."""
