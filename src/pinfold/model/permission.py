"""What a person is asked, and what they may answer."""

from enum import StrEnum

from msgspec import Struct

from pinfold.model.decision import Decision


class Answer(StrEnum):
    """The refusing one stands first: it is what any doubt falls to."""

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    """For this, whenever it comes again in this session."""
    DIRECTORY = "directory"
    """For this session, and for whatever else lies in the same directory."""
    ALWAYS = "always"
    """In later sessions too, until it is revoked."""
    RULE = "rule"
    """Always, as a line in the user's own settings."""


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
    WRITE = "write"
    """To let one call through that changes a file; the call waits for the answer."""


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
    choices: tuple[Answer, ...] = (Answer.NO, Answer.ONCE)
    host: str = ""
    """Whom the command wants to connect to, where that is what is asked."""
    port: int = 0
    operation: str = ""
    """The system call that waits, where that is what is asked, such as `openat` or `rename`."""
    path: str = ""
    """What it would change."""
    program: str = ""
    """What the process that made the call is called."""


class Settlement(Struct, frozen=True):
    """How a question ended."""

    answer: Answer
    by: str
    """Who answered, or why nobody did."""
