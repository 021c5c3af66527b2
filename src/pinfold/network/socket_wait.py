"""Waiting for a socket without taking anything from it.

Facts about TCP: a peer that closed its connection looks the same as one that only finished sending. The
kernel tells them apart by probing the other side (SO_KEEPALIVE). That side answers as long as a program holds
it, and up to two minutes beyond that (tcp_fin_timeout).

A fact about asyncio: a `sock_recv` that is cancelled at the moment its bytes arrive loses them. Where
waiting may end early and the connection goes on, the wait and the read are two steps.
"""

import asyncio
import select
import socket

from pinfold.network.connection import set_option

_CLOSED = 7
"""The state of a connection that is over (TCP_CLOSE)."""
_PROBES = 3
"""Unanswered probes after which a connection counts as over."""
_GONE = select.POLLHUP | select.POLLRDHUP | select.POLLERR
_EVERY = 0.05


async def wait_readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    is_readable = loop.create_future()

    def readable() -> None:
        if not is_readable.done():
            is_readable.set_result(None)

    loop.add_reader(sock.fileno(), readable)
    try:
        await is_readable
    finally:
        loop.remove_reader(sock.fileno())


async def wait_hang_up(sock: socket.socket) -> None:
    """Returns when the other side has hung up, even if unread bytes are waiting."""
    poll = select.poll()
    poll.register(sock, _GONE)
    while not poll.poll(0):
        await asyncio.sleep(_EVERY)


def enable_keepalive(sock: socket.socket, each: float) -> None:
    """From now on the kernel probes whether a program still exists on the other side."""
    seconds = max(1, round(each))
    set_option(sock, socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
    set_option(sock, socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, seconds)
    set_option(sock, socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    set_option(sock, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def is_gone(sock: socket.socket) -> bool:
    """Whether the kernel found that no program holds the other side."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSED
    except OSError:  # not TCP: such a socket reports the end by itself
        return False


async def wait_peer_gone(sock: socket.socket, each: float) -> None:
    """Returns when no program is left on the other side to receive an answer."""
    enable_keepalive(sock, each)
    while not is_gone(sock):
        await asyncio.sleep(each)
