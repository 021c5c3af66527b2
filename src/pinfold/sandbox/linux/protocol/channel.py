"""Messages between host, keeper, init, warden and spawner: one value and some descriptors at a time.

Facts about SOCK_SEQPACKET unix sockets:
- A message arrives whole or not at all, with its descriptors; a sender's death is an empty read.
- One message is bounded by the send buffer (some 200 kB), so what is larger goes by a memfd, as a descriptor.
- If one side closes with unread messages, the other gets ECONNRESET, once, before what the first has sent.
- recvmsg marks descriptors close-on-exec only when told MSG_CMSG_CLOEXEC.

Facts about marshal: it needs no import of weight, keeps bytes, tuples and lone surrogates, and is not safe
for hostile input. So we read it only from processes that no command can write into or speak for:
- the host and the keeper, which are outside of everything;
- a warden, whose records name what callers chose, as plain text: it is outside of the pid namespace and not
  dumpable, and no other process has its socket;
- an init and a spawner, for the one message that they are ready or why not, sent before their first command.
  Commands of the session's other pens cannot look into one that begins: it is not in their Landlock domain.
No process reads a value from either of them again. A spawner shares its uid with hostile commands: it reports
about them in a fixed `struct`, in pipes of their own.

This module does not import `socket`, which costs a cold start 3 ms by its enums.
"""

import _socket
import array
import marshal
import os
import struct
from errno import ETOOMANYREFS
from typing import TYPE_CHECKING

from pinfold.sandbox.linux.protocol.message import AnyMessage, WireMessage, decode, encode

if TYPE_CHECKING:
    import socket

LARGE = 1 << 16
MOST = 8
"""How many descriptors a message may carry."""
_CREDENTIALS = struct.Struct("=iII")
_INLINE, _IN_MEMORY, _ENCLOSED = b"i", b"m", b"e"


class ChannelClosed(Exception):  # noqa: N818
    """The other side is gone."""


def pair() -> "tuple[socket.socket, socket.socket]":
    import socket

    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def send(channel: _socket.socket, message: WireMessage, descriptors: tuple[int, ...] = ()) -> None:
    """Sends a message, with copies of descriptors."""
    data = marshal.dumps(encode(message))
    if len(data) < LARGE:
        _send(channel, _INLINE + data, descriptors)
        return
    memory = os.memfd_create("pinfold", os.MFD_CLOEXEC)
    try:
        os.writev(memory, [data])
        _send(channel, _IN_MEMORY, (memory, *descriptors))
    finally:
        os.close(memory)


def _send(channel: _socket.socket, data: bytes, descriptors: tuple[int, ...]) -> None:
    try:
        send_bytes(channel, data, descriptors)
    except (BrokenPipeError, ConnectionResetError):
        raise ChannelClosed from None


def send_bytes(channel: _socket.socket, data: bytes, descriptors: tuple[int, ...]) -> None:
    """A message as it is. Raises OSError."""
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        channel.sendmsg([data], rights, _socket.MSG_NOSIGNAL)
    except OSError as error:
        if error.errno != ETOOMANYREFS:
            raise
        from pinfold.sandbox.linux import limits

        with limits.full_limit():
            channel.sendmsg([data], rights, _socket.MSG_NOSIGNAL)


def enclosed(descriptor: int) -> int:
    """A socket with this descriptor queued inside: no process has it open until it is `taken` out."""
    ours, theirs = pair()
    with ours:
        _send(ours, _ENCLOSED, (descriptor,))
    os.close(descriptor)
    return theirs.detach()


def taken(letter: int) -> int:
    """What was `enclosed`. The socket stays open."""
    connection = _socket.socket(fileno=letter)
    try:
        _, (descriptor,) = receive_bytes(connection, len(_ENCLOSED))
    finally:
        connection.detach()
    return descriptor


def receive_bytes(channel: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """The next message as it is, and its descriptors, close-on-exec."""
    data, descriptors, _ = _receive(channel, size)
    return data, descriptors


def _receive(channel: _socket.socket, size: int) -> tuple[bytes, list[int], int]:
    found = array.array("i")
    sender = 0
    room = _socket.CMSG_SPACE(MOST * found.itemsize) + _socket.CMSG_SPACE(_CREDENTIALS.size)
    try:
        data, rights, _, _ = channel.recvmsg(size, room, _socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        data, rights, _, _ = channel.recvmsg(size, room, _socket.MSG_CMSG_CLOEXEC)
    for _, kind, content in rights:
        if kind == _socket.SCM_RIGHTS:
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
        elif kind == _socket.SCM_CREDENTIALS:
            sender = _CREDENTIALS.unpack(content)[0]
    if not data:
        for descriptor in found:
            os.close(descriptor)
        raise ChannelClosed
    return data, list(found), sender


def receive(channel: _socket.socket, kind: type[AnyMessage]) -> tuple[AnyMessage, list[int]]:
    """The next message, of a kind that must come here, and its descriptors. Only from a sender that we trust.

    Raises ValueError for any other.
    """
    message, descriptors, _ = receive_from(channel, kind)
    return message, descriptors


def receive_from(channel: _socket.socket, kind: type[AnyMessage]) -> tuple[AnyMessage, list[int], int]:
    """The next message, its descriptors and its sender's pid, if the socket was told to `name_senders`."""
    value, descriptors, sender = _receive_any(channel)
    if not isinstance(value, kind):
        for descriptor in descriptors:
            os.close(descriptor)
        raise ValueError(f"{kind.__name__} was expected, and {value!r} came")
    return value, descriptors, sender


def _receive_any(channel: _socket.socket) -> tuple[WireMessage, list[int], int]:
    data, descriptors, sender = _receive(channel, LARGE + 64)
    if data[:1] == _IN_MEMORY:
        memory, *descriptors = descriptors
        with open(memory, "rb") as file:
            file.seek(0)
            value = marshal.load(file)  # noqa: S302
    else:
        value = marshal.loads(data[1:])  # noqa: S302
    return decode(value), descriptors, sender


def name_senders(channel: _socket.socket, wanted: bool) -> None:
    """Whether the kernel adds the sender's pid to each message, as our own pid namespace numbers it."""
    channel.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, int(wanted))
