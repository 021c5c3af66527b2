"""What a person is asked, and what they may answer."""

from enum import StrEnum

from msgspec import Struct

from pinfold.model.codes import AskedAt
from pinfold.model.decision import Decision


class Answer(StrEnum):
    """The refusing one stands first: it is what any doubt falls to."""

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    """For this, whenever it comes again in this session."""
    ALWAYS = "always"
    """In later sessions too, until it is revoked."""
    RULE = "rule"
    """Always, as a line in the user's own settings."""


LONGEST_QUESTION = 590.0
"""Seconds that an approver may let a question stand: it is waited for a little longer, to say why itself."""
LASTING = (Answer.SESSION, Answer.ALWAYS)
"""Answers that hold for longer than one run. `rule` does as well, by the settings."""


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
    """To let one call through that changes a file; the call waits for the answer. Or a file tool's use."""
    READ = "read"
    """To let a file tool read a file."""


class Reach(StrEnum):
    """How far an answer of `session` or `always` goes; the narrowest stands first."""

    COMMAND = "command"
    """What was asked, for this very command and program."""
    TARGET = "target"
    """The same host or path, whichever command wants it."""
    DIRECTORY = "directory"
    """Whatever lies in the path's directory, whichever command changes it and how."""


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
    source: str = ""
    """Of a rename or a link, what it takes for that, if commands may not change that either."""
    directory: str = ""
    """Where it lies, if a lasting answer may be given for all that lies there."""
    program: str = ""
    """What the process that made the call is called."""
    run: str = ""
    """Which run of the command asks: within it, one question is answered once. Empty: this question's own."""
    rules: tuple[str, ...] = ()
    """What an answer of `rule` would add to the user's settings, unless the person words it otherwise."""
    ends_session: bool = False
    """Whether the session is over with this command: an answer for it is `once` then, unless it reaches
    further."""

    def offered(self, reach: Reach) -> tuple[Answer, ...]:
        """The choices that differ from each other, where a lasting one has this reach."""
        is_once = self.ends_session and reach is Reach.COMMAND
        return tuple(each for each in self.choices if not (is_once and each is Answer.SESSION))

    @property
    def reaches(self) -> tuple[Reach, ...]:
        """What a lasting answer may be given for."""
        if self.capability is Capability.CONNECT:
            return (Reach.COMMAND, Reach.TARGET)
        if self.capability is not Capability.WRITE:
            return (Reach.COMMAND,)
        wide = (Reach.DIRECTORY,) if self.directory else ()
        return (Reach.COMMAND, Reach.TARGET, *wide)

    @property
    def can_widen(self) -> bool:
        """Whether a lasting answer may be given for more than the command."""
        return len(self.reaches) > 1 and Answer.SESSION in self.choices

    def is_widest(self, reach: Reach) -> bool:
        """Whether the next reach is a narrower one."""
        return reach is self.reaches[-1]

    def next_reach(self, reach: Reach) -> Reach:
        """One step wider; after the widest comes the first again."""
        return self.reaches[(self.reaches.index(reach) + 1) % len(self.reaches)]

    @property
    def rule_key(self) -> str:
        """The list of the settings that `rules` belong to."""
        return "network.allow" if self.capability is Capability.CONNECT else "commands.allow"


class Reply(Struct, frozen=True):
    """An answer with what a person may say besides."""

    answer: Answer
    reach: Reach = Reach.COMMAND
    rules: tuple[str, ...] = ()
    """The rules as the person worded them; empty leaves them as they were proposed."""
    why: str = ""
    """What the one who answered did, where that was not simply to say no: `gave no answer in time`."""


MOST_OPEN = 8
"""Questions of one command that stand at a time, of a kind; the others wait their turn."""
MOST_ASKED = 64
"""Things that one command may have asked about, of a kind: writes, hosts."""
ASKED_ENOUGH = f"it has asked for {MOST_ASKED} other things already"


class SettlementOutcome(StrEnum):
    """How a question came to its answer."""

    GRANTED = "granted"
    """An approver said yes, now or earlier."""
    SAID_NO = "said_no"
    """An approver was asked and refused."""
    UNANSWERED = "unanswered"
    """An approver was asked and gave no answer: it was late, or interrupted."""
    INVALID = "invalid"
    """An approver failed, or answered what was not offered."""
    NOBODY = "nobody"
    """No approver could answer."""
    UNSHOWABLE = "unshowable"
    """No approver can show the question whole."""
    WITHDRAWN = "withdrawn"
    """Nothing waited for the answer any more."""
    ASKED_ENOUGH = "asked_enough"
    """The command has asked about `MOST_ASKED` things already."""
    CHANGED = "changed"
    """The settings changed while it was asked."""


class Settlement(Struct, frozen=True, omit_defaults=True):
    """How a question ended. Written down or sent, it says only what is not a matter of course."""

    answer: Answer
    by: str
    """Who answered, or why nobody did, for people to read."""
    outcome: SettlementOutcome
    asked_at: AskedAt = AskedAt.NOWHERE
    reach: Reach = Reach.COMMAND
    rules: tuple[str, ...] = ()
    remembered: str = ""
    """The earlier answer that this one is, by its name in `pinfold approvals list`; empty if it is new."""

    @property
    def is_refusal(self) -> bool:
        """Whether somebody said no, and not merely nobody yes."""
        return self.outcome is SettlementOutcome.SAID_NO
