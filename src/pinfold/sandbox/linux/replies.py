"""What the processes inside tell the host, and by which marks it knows them: plain numbers of fixed size.

Apart from `spawner`, `init` and `tags`: the host, which starts anew for every hook, loads none of those.
"""

import struct

STATUS = struct.Struct("=ii")
"""A spawner's word about a command: one of the following, and a number."""
STARTED, FAILED, NO_DIRECTORY, EXITED, SIGNALLED = range(5)

REQUEST = struct.Struct("=QI")
"""To init: the tag of the command that is to end; or 0 and the highest process number from now on; or 0 and
which socket is wanted."""
STREAM, DIAGNOSIS = range(2)
"""A socket of the session's own network: to connect, or to ask what its sockets take
(`kernel.socket_diag`)."""
LEFT = struct.Struct("=QIi")
"""From init: what it was asked, and how many are left; with the socket, if that was asked for."""
MOST_PROCESSES = 8192
"""How many processes and threads a session can have at most."""
RESERVED_PIDS = 300
"""Numbers below are given out once; from then on new ones lie between this and the highest."""

RLIMIT_RTTIME = 15
"""The limit that carries a command's tag; see `tags`."""
FIRST_TAG = 1 << 62
