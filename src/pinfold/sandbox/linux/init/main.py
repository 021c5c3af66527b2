"""A session's pid 1: it holds the session's namespaces and rooms, and ends the processes of one command.

It starts nothing. Orphans become its children and vanish unawaited, since it ignores SIGCHLD. Commands of its
session cannot signal it (it is the init of their pid namespace), look into it (not dumpable) or speak to it.
Nor do they become its tracees (PTRACE_TRACEME): those would not vanish, and ended they count as processes.
The host gets sockets of the session's network from it.
When it ends, the kernel ends every process of the session; it ends with the keeper (PR_SET_PDEATHSIG).
"""

import os
import signal
import socket
from contextlib import suppress

from pinfold.kernel import landlock, netlink
from pinfold.kernel.process import close_all_but, set_dumpable, set_name, set_parent_death_signal
from pinfold.kernel.socket_info import NETLINK_SOCK_DIAG
from pinfold.sandbox.linux.init.closed_tree import ClosedTree
from pinfold.sandbox.linux.init.command_tags import bound, carried, kill_tagged
from pinfold.sandbox.linux.init.session_root import build_session_root
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.command import (
    CARRIED,
    DIAGNOSIS,
    LEFT,
    MOST_PROCESSES,
    MOST_TAGGED,
    REQUEST,
    STREAM,
    TAGGED,
)
from pinfold.sandbox.linux.protocol.keeper import Ready
from pinfold.sandbox.linux.spawner.confine import drop_powers, restrict

NAMESPACES = ("user", "mnt", "net", "ipc", "uts", "cgroup", "pid")
"""In the order in which a pen joins them: the user namespace first gives the right to the others."""
SOCKETS = {
    # IPv6's reaches both families, where the machine has it.
    STREAM: ((socket.AF_INET6, socket.SOCK_STREAM, 0), (socket.AF_INET, socket.SOCK_STREAM, 0)),
    DIAGNOSIS: ((socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG),),
}
"""What to try for each kind that the host may want."""


def serve(control: socket.socket, closed: ClosedTree | None) -> None:
    """Builds the rooms, hands the namespaces to the keeper, then answers the host until it goes away."""
    set_name("pinfold-init")
    close_all_but({control.fileno(), *([closed.tree] if closed else [])})
    os.umask(0o022)
    pid_max = build_session_root(closed)
    netlink.set_up()
    held = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMESPACES]
    drop_powers()
    if landlock.abi_version():
        restrict(())  # a process in a Landlock domain of its own cannot trace one of another
    set_dumpable(False)
    # A keeper that died before this call has closed its end, and the read below is our last.
    set_parent_death_signal(signal.SIGKILL)
    channel.send(control, Ready(), tuple(held))
    for descriptor in held:
        os.close(descriptor)
    most = MOST_PROCESSES
    while True:
        request, _ = channel.receive_bytes(control, REQUEST.size)
        tag, wanted = REQUEST.unpack(request)
        left = 0
        if not tag and wanted in SOCKETS:
            send_socket(control, wanted)
            continue
        if not tag and wanted == CARRIED:
            send_carried(control)
            continue
        if tag:
            left = kill_tagged(tag, pid_max, most)
        elif pid_max is not None:
            most = wanted
            bound(pid_max, (str(most).encode(),))
        control.send(LEFT.pack(tag, wanted, left))


def send_carried(control: socket.socket) -> None:
    found = list(carried().items())[-MOST_TAGGED:]
    control.send(LEFT.pack(0, CARRIED, len(found)) + b"".join(TAGGED.pack(*each) for each in found))


def send_socket(control: socket.socket, wanted: int) -> None:
    """Sends the first of these sockets that the machine has. Without memory for any the answer has none: the
    host may ask again, and the session goes on."""
    for family, kind, protocol in SOCKETS[wanted]:
        with suppress(OSError), socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol) as fresh:
            return channel.send_bytes(control, LEFT.pack(0, wanted, 0), (fresh.fileno(),))
    control.send(LEFT.pack(0, wanted, 0))
    return None
