"""Waiting for a socket without taking anything from it.

A fact about asyncio: a `sock_recv` that is called off at the moment its bytes arrive loses them. Where
waiting may end early and the connection goes on, the wait and the read are two steps.
"""

import asyncio
import select
import socket

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


async def wait_gone(sock: socket.socket) -> None:
    """Until the other side has hung up, whatever it sent before."""
    poll = select.poll()
    poll.register(sock, _GONE)
    while not poll.poll(0):
        await asyncio.sleep(_EVERY)
