"""Messages between host, keeper, init and spawner: one value and some descriptors at a time.

Facts about SOCK_SEQPACKET unix sockets:
- A message arrives whole or not at all, with its descriptors; a sender's death is an empty read.
- One message is bounded by the send buffer (some 200 kB), so what is larger goes by a memfd, as a descriptor.
- recvmsg marks descriptors close-on-exec only when told MSG_CMSG_CLOEXEC.

Facts about marshal: it needs no import of weight, keeps bytes, tuples and lone surrogates, and must not be
fed by an enemy. So it goes inward only (host to keeper, host to spawner) and from the keeper, which no
command can reach. A spawner shares its uid with hostile commands: what comes from one is a fixed `struct`,
or refused.
"""

import array
import marshal
import os
import socket
from typing import Any

LARGE = 1 << 16
_INLINE, _IN_MEMORY = b"i", b"m"


class Closed(Exception):  # noqa: N818
    """The other side is gone."""


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def send(channel: socket.socket, value: object, descriptors: tuple[int, ...] = ()) -> None:
    """Sends a value of plain types, with copies of descriptors."""
    data = marshal.dumps(value)  # type: ignore[arg-type]  # plain by contract
    if len(data) < LARGE:
        _send(channel, _INLINE + data, descriptors)
        return
    memory = os.memfd_create("pinfold", os.MFD_CLOEXEC)
    try:
        os.writev(memory, [data])
        _send(channel, _IN_MEMORY, (memory, *descriptors))
    finally:
        os.close(memory)


def _send(channel: socket.socket, data: bytes, descriptors: tuple[int, ...]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        channel.sendmsg([data], rights, socket.MSG_NOSIGNAL)
    except (BrokenPipeError, ConnectionResetError):
        raise Closed from None


def receive_bytes(channel: socket.socket, size: int, most: int = 8) -> tuple[bytes, list[int]]:
    """The next message as it is, and its descriptors, close-on-exec."""
    found = array.array("i")
    try:
        data, rights, _, _ = channel.recvmsg(
            size, socket.CMSG_SPACE(most * found.itemsize), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        data, rights = b"", []
    for level, kind, content in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    if not data:
        for descriptor in found:
            os.close(descriptor)
        raise Closed
    return data, list(found)


def receive(channel: socket.socket) -> tuple[Any, list[int]]:
    """The next value, and its descriptors. Only from a sender that we trust."""
    data, descriptors = receive_bytes(channel, LARGE + 64)
    if data[:1] == _IN_MEMORY:
        memory, *descriptors = descriptors
        with open(memory, "rb") as file:
            file.seek(0)
            return marshal.load(file), descriptors  # noqa: S302
    return marshal.loads(data[1:]), descriptors  # noqa: S302
