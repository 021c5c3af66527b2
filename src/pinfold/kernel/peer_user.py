"""Who is at the other end of a unix socket.

Facts (unix(7)): SO_PEERCRED is who connected, or began to listen, as they were then. The kernel says it.
"""

import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def user_of(sock: socket.socket) -> int:
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(data)
    return int(uid)
