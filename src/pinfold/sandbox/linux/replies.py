"""What the processes inside tell the host, and by which marks it knows them: plain numbers of fixed size.

Apart from `spawner`, `init` and `tags`: the host, which starts anew for every hook, loads none of those.
"""

import struct

STATUS = struct.Struct("=ii")
"""A spawner's word about a command: one of the following, and a number."""
STARTED, FAILED, NO_DIRECTORY, EXITED, SIGNALLED = range(5)

KILL = struct.Struct("=Q")
"""To init: the tag of the command whose processes are to end."""
LEFT = struct.Struct("=i")
"""From init: how many are left."""

RLIMIT_RTTIME = 15
"""The limit that carries a command's tag; see `tags`."""
FIRST_TAG = 1 << 62
