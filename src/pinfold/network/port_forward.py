"""Published ports: a port of this machine's loopback that leads to a server inside a session.

The gate decides nothing here: a program that may connect to this machine's loopback may connect to published
ports.

Facts: a socket stays in the network namespace that it was made in. So a process of the session makes one, and
the gate, which gets it, connects it in there. A server may listen on one family alone, as many do that are
told to listen on `localhost`.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable

from pinfold.model.decision import Verdict
from pinfold.network.connection import GateConnection, set_option
from pinfold.network.host_decision import HostDecision
from pinfold.network.limits import GateLimits
from pinfold.network.refusal import Refusal, RefusalKind
from pinfold.network.relay import SocketPump, run

Reach = Callable[[int], Awaitable[socket.socket]]
"""Returns a fresh stream socket of the session's network, for a connection to this port."""
BACKLOG = 128


def listen_on(port: int) -> list[socket.socket]:
    """Sockets that listen on a port of this machine's loopback. Raises OSError if another program listens on
    it in either family, since `localhost` may mean either."""
    found = [socket.create_server(("127.0.0.1", port), backlog=BACKLOG)]
    try:
        found.append(socket.create_server(("::1", port), family=socket.AF_INET6, backlog=BACKLOG))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            found[0].close()
            raise
        # no IPv6 here: clients of `localhost` try IPv4 too
    return found


async def forward_inside(connection: GateConnection, port: int, reach: Reach, limits: GateLimits) -> None:
    """Connects a client to its server inside. Preconditions: the client connected to the port's listener."""
    connection.host, connection.port = "localhost", port
    connection.ruling = HostDecision(Verdict.ALLOW, "allowed by `network.publish`", str(port))
    try:
        async with asyncio.timeout(limits.dial):
            connection.server, connection.address = await _connected(reach, port)
    except OSError as error:
        why = (
            f"no program listens on port {port} in the sandbox"
            if error.errno == errno.ECONNREFUSED
            else str(error)
        )
        connection.refusal = Refusal(RefusalKind.REFUSED_THERE, why)
        connection.reset()
        return
    down, up = (
        SocketPump(connection.server, connection.client),
        SocketPump(connection.client, connection.server),
    )
    down.start()
    up.start()
    connection.ended = await run([up, down], limits)
    connection.sent, connection.received = up.moved, down.moved


async def _connected(reach: Reach, port: int) -> tuple[socket.socket, str]:
    """A socket that is connected inside, and its address."""
    try:
        return await _connect(await reach(port), "127.0.0.1", port), "127.0.0.1"
    except ConnectionRefusedError:
        sock = await reach(port)
        if sock.family != socket.AF_INET6:
            sock.close()
            raise
        return await _connect(sock, "::1", port), "::1"


async def _connect(sock: socket.socket, address: str, port: int) -> socket.socket:
    try:
        sock.setblocking(False)
        set_option(sock, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_mapped = sock.family == socket.AF_INET6 and ":" not in address
        target = f"::ffff:{address}" if is_mapped else address
        await asyncio.get_running_loop().sock_connect(sock, (target, port))
    except BaseException:
        sock.close()
        raise
    return sock
