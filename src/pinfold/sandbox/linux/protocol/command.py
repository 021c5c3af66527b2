"""A command's start and end: what the host tells the spawner and init, and what they answer.

Their answers are numbers of fixed size: they share a uid with hostile commands, and the host believes them
nothing else. The host, which starts anew for every hook, loads none of the modules of those processes.
"""

import struct

from pinfold.sandbox.linux.protocol.message import WireMessage

BUILDER, SPAWNER = "pinfold-builder", "pinfold-spawner"
"""The name of a spawner's process at first, and from then on."""


class StartCommand(WireMessage):
    """What the host tells a spawner, with the descriptor to report to and the command's own."""

    arguments: tuple[str, ...]
    cwd: str
    environment: dict[str, str] | None
    """None: as that of the command before. Most have the same, and it is most of a request."""
    terminal: tuple[int, int] | None
    """Rows and columns, if it runs on a terminal."""
    has_stdin: bool
    """Whether the first of its descriptors is standard input; else that is /dev/null."""
    umask: int | None
    """The file mode creation mask; None keeps the spawner's."""


STATUS = struct.Struct("=ii")
"""A spawner's word about a command: one of the following, and a number."""
STARTED, FAILED, NO_DIRECTORY, EXITED, SIGNALLED = range(5)

REQUEST = struct.Struct("=QI")
"""To init: the tag of the command that is to end; or 0 and the highest process number from now on; or 0 and
which socket is wanted; or 0 and CARRIED, which asks for all tags."""
STREAM, DIAGNOSIS = range(2)
"""A socket of the session's own network: to connect, or to ask what its sockets take
(`kernel.socket_info`)."""
CARRIED = 2
TAGGED = struct.Struct("=QI")
"""Follows LEFT when that was asked: a tag, and the number inside of a process that carries it."""
MOST_TAGGED = 256
LEFT = struct.Struct("=QIi")
"""From init: what it was asked, and how many are left; with the socket, if that was asked for."""
MOST_PROCESSES = 8192
"""How many processes and threads a session can have at most."""
RESERVED_PIDS = 300
"""Numbers below are given out once; from then on new ones lie between this and the highest."""

RLIMIT_RTTIME = 15
"""The limit that carries a command's tag; see `command_tags`."""
FIRST_TAG = 1 << 62
