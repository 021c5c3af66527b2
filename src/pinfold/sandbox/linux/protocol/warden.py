"""What a pen's warden tells the host, and what the host tells the warden."""

from pinfold.sandbox.linux.protocol.file_change import FileChange
from pinfold.sandbox.linux.protocol.message import WireMessage

OTHERWISE = -1
"""In place of an errno: the warden answers the call as if no person could be asked."""


class Denial(WireMessage):
    """What came of asking about a call that is not allowed."""

    text: str = ""
    """Why not; empty if no person could be asked."""
    asked_at: str = ""
    """Where the question was shown, a `model.codes.AskedAt`."""
    code: str = ""
    """A `ViolationCode`, where it is another than the rule's."""


class WardenReport(WireMessage):
    """A message of the warden."""


class CallAsked(WardenReport):
    """A call waits for a person's answer."""

    id: int
    tag: int
    """The tag of its command."""
    pid: int
    program: str
    rule: str
    """The protected name that is in the way; empty if the place as such is closed."""
    why: str
    code: str
    """The rule's `ViolationCode`."""
    is_git_writes: bool
    """Whether the rule closes git's writes as a whole."""
    change: FileChange


class CallWithdrawn(WardenReport):
    """The call does not wait any more."""

    id: int


class CallRefused(WardenReport):
    tag: int
    operation: str
    path: str
    rule: str
    why: str
    code: str
    remedy: str
    grantable: bool
    program: str
    pid: int
    times: int
    answered: str
    asked_at: str
    is_git_writes: bool


class EnvFileMade(WardenReport):
    """A command made an `.env` file: the fields of its `model.env_files.FileIdentity`."""

    device: int
    inode: int
    birth: tuple[int, int] | None


class Settled(WardenReport):
    """The warden has done what it had begun when `Settle` came."""

    number: int


class LastWords(WardenReport):
    """The warden ends."""

    why: str


class HostOrder(WireMessage):
    """A message of the host."""


class Hold(HostOrder):
    """These paths have come into being, and must not be written or seen."""

    protected: tuple[str, ...]
    hidden: tuple[str, ...]


class CallAnswer(HostOrder):
    """What becomes of a call that waits. An open file comes with it as an `enclosed` descriptor."""

    id: int
    error: int
    """An errno, 0 or `OTHERWISE`."""
    denial: Denial = Denial()


class Settle(HostOrder):
    """The host wants to hear when the warden has done what it had begun."""

    number: int
