"""What a person is asked, and what they may answer."""

from enum import StrEnum

from msgspec import Struct

from pinfold.model.codes import AskedAt
from pinfold.model.decision import Decision


class Answer(StrEnum):
    """No comes first: any doubt becomes a no."""

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    """Also when the same question comes again in this session."""
    ALWAYS = "always"
    """In later sessions too, until someone revokes it."""
    RULE = "rule"
    """Always, as a line in the user's own settings."""


LONGEST_QUESTION = 590.0
"""Seconds that an approver may keep a question open. Pinfold waits a little longer, so that the approver can
say why it gave no answer."""
LASTING = (Answer.SESSION, Answer.ALWAYS)
"""Answers that count for longer than one run. `rule` does as well, by the settings."""


class Capability(StrEnum):
    """The kind of permission that a question is about."""

    RUN = "run"
    """To run a command as the settings say: inside the sandbox, or outside where they put it there."""
    WIDEN = "widen"
    """To run it with more than the user's own policy grants."""
    BYPASS = "bypass"
    """To run it without the sandbox."""
    CONNECT = "connect"
    """To connect to a host; the call waits for the answer."""
    WRITE = "write"
    """To change a file by one call, which waits for the answer; or to use a file tool that writes."""
    READ = "read"
    """To read a file with a file tool."""


class Reach(StrEnum):
    """How far an answer of `session` or `always` goes; the narrowest comes first."""

    COMMAND = "command"
    """This host or path, for this very command and program."""
    TARGET = "target"
    """This host or path, for any command."""
    DIRECTORY = "directory"
    """Everything in the path's directory, for any command and any change."""


class PermissionNeeded(Struct, frozen=True):
    """One question; on the wire, `SandboxPermissionNeeded`."""

    request_id: str
    session: str
    capability: Capability
    command: str
    cwd: str
    decision: Decision
    description: str = ""
    """The agent's own account of what the command is for. Shown, never trusted."""
    tool_call_id: str = ""
    choices: tuple[Answer, ...] = (Answer.NO, Answer.ONCE)
    host: str = ""
    """The host to connect to, where the question is about that."""
    port: int = 0
    operation: str = ""
    """The system call that waits, where the question is about one, such as `openat` or `rename`."""
    path: str = ""
    """The path that the call would change."""
    source: str = ""
    """The source of a rename or a link, if commands may not change that either."""
    directory: str = ""
    """The path's directory, if a lasting answer may cover everything in it."""
    program: str = ""
    """The name of the process that made the call."""
    run: str = ""
    """Which run of the command asks: within a run, one answer serves equal questions. Empty: only this
    one."""
    rules: tuple[str, ...] = ()
    """Rules that the answer `rule` would add to the user's settings, unless the person edits them."""
    ends_session: bool = False
    """Whether the session ends with this command: an answer of `session` is then only `once`, unless it
    reaches further."""

    def offered(self, reach: Reach) -> tuple[Answer, ...]:
        """The choices that differ in effect, if a lasting answer has this reach."""
        is_once = self.ends_session and reach is Reach.COMMAND
        return tuple(each for each in self.choices if not (is_once and each is Answer.SESSION))

    @property
    def reaches(self) -> tuple[Reach, ...]:
        """How far a lasting answer may go, the narrowest first."""
        if self.capability is Capability.CONNECT:
            return (Reach.COMMAND, Reach.TARGET)
        if self.capability is not Capability.WRITE:
            return (Reach.COMMAND,)
        wide = (Reach.DIRECTORY,) if self.directory else ()
        return (Reach.COMMAND, Reach.TARGET, *wide)

    @property
    def can_widen(self) -> bool:
        """Whether a lasting answer may cover more than the command."""
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
    """An answer, its reach, and the rules as the person edited them."""

    answer: Answer
    reach: Reach = Reach.COMMAND
    rules: tuple[str, ...] = ()
    """The rules as the person edited them; empty keeps them as proposed."""
    why: str = ""
    """What the approver did, where that was not simply to say no: `gave no answer in time`."""


MOST_OPEN = 8
"""Questions of a kind that one command may have open at a time; the others wait their turn."""
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
    """How a question ended. Fields that have their default value are not serialized."""

    answer: Answer
    by: str
    """Who answered, or why no approver did, for people to read."""
    outcome: SettlementOutcome
    asked_at: AskedAt = AskedAt.NOWHERE
    reach: Reach = Reach.COMMAND
    rules: tuple[str, ...] = ()
    remembered: str = ""
    """The stored answer that was used, by its name in `pinfold approvals list`; empty if the answer is
    new."""

    @property
    def is_refusal(self) -> bool:
        """Whether an approver said no, and did not merely fail to answer."""
        return self.outcome is SettlementOutcome.SAID_NO
