"""What the host asks of the keeper, and what the processes that the keeper forks report to it."""

from pinfold.sandbox.linux.protocol.message import WireMessage
from pinfold.sandbox.linux.protocol.operations import Operation


class NameRules(WireMessage):
    """The names that no command may make."""

    rows: tuple[tuple[object, ...], ...]
    """Each a `model.protected_names.NameRule`, as its `plain` writes it."""


class KeeperRequest(WireMessage):
    """What the host asks of the keeper."""


class NewSession(KeeperRequest):
    """Answered by `Built`, with the socket to the session's init."""


class NewPen(KeeperRequest):
    """Answered by `Built`, with the sockets to the pen's spawner, warden and, if it leads out, gate."""

    session: int
    operations: tuple[Operation, ...]
    names: NameRules
    leads_out: bool
    lent: dict[int, str]
    """Ports of the machine's loopback that the pen has as its own, and the host that each was granted as."""


class NewGranter(KeeperRequest):
    """Answered by `Built`, with the socket to the granter."""


class EndBuilt(KeeperRequest):
    """The end of a session, a pen or a granter, and of everything in it."""

    number: int


class KeeperReply(WireMessage):
    """The keeper's answer."""


class Built(KeeperReply):
    number: int
    pid: int
    """Of its first process."""


class NotBuilt(KeeperReply):
    why: str


class BuiltEnded(KeeperReply):
    """It has ended."""


class NumberedRequest(WireMessage):
    """The host may be interrupted while it waits; the number tells which request a later answer is for."""

    number: int
    request: KeeperRequest


class NumberedReply(WireMessage):
    number: int
    reply: KeeperReply


class BuilderReport(WireMessage):
    """The first message of a process that the keeper forked."""


class Ready(BuilderReport):
    """It serves from now on. A session's init sends its namespaces with this."""


class NotReady(BuilderReport):
    why: str


class PenPlan(WireMessage):
    """What the keeper gives to the builder of a pen, with the sockets of its warden."""

    operations: tuple[Operation, ...]
    filters: dict[str, bytes]
    """The compiled seccomp programs, by the names that the operations have for them."""
    names: NameRules
    lent: dict[int, str]


class Confinement(WireMessage):
    """What the builder leaves to the spawner, with the pen's root: the steps that are no mounts."""

    operations: tuple[Operation, ...]


class OutletMade(WireMessage):
    """What the builder tells the host on the gate's socket: the session's network is prepared."""

    is_first: bool
    """Whether this pen did it. Then the socket that hears questions about names comes along."""
