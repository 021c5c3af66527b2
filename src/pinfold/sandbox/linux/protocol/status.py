"""What the processes inside tell the host, and by which marks it knows them: plain numbers of fixed size.

Apart from `spawner`, `init` and `tags`: the host, which starts anew for every hook, loads none of those.
"""

import struct

STATUS = struct.Struct("=ii")
"""A spawner's word about a command: one of the following, and a number."""
STARTED, FAILED, NO_DIRECTORY, EXITED, SIGNALLED = range(5)

REQUEST = struct.Struct("=QI")
"""To init: the tag of the command that is to end; or 0 and the highest process number from now on; or 0 and
which socket is wanted; or 0 and CARRIED, which asks for all tags."""
STREAM, DIAGNOSIS = range(2)
"""A socket of the session's own network: to connect, or to ask what its sockets take
(`kernel.socket_diag`)."""
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
"""The limit that carries a command's tag; see `tags`."""
FIRST_TAG = 1 << 62
