"""How a pen is put together: mounts, a spawner inside, then this process stays on as its warden.

Where each of them is, and why:
- The mounts are made in a mount namespace of the pen's own, by a process that has joined the session's
  others. It is not in the pid namespace, so nothing inside can see or signal it. Nor are its children to be:
  a process whose children are born into another pid namespace can have no threads, and the warden needs some.
  But where children are born is a thread's own matter: so the spawner is made by one that ends with that.
- The spawner becomes init's child: the init of a pid namespace cannot finish dying before every process of it
  is reaped. A process with its parent outside is inherited by the machine's pid 1, and some of those never
  reap.
- To fork Python twice takes a sixth of a pen's time, so the spawner is made while the mounts are: it waits
  for them, with the powers that commands lack and so out of their reach. Its root it is given: whether
  pivot_root moves a process that is just being made depends on the moment.
- The warden acts in the pen's mounts: from outside, a rename over a read-only bind would succeed and detach
  the bind, since a mount point is busy only in the namespaces that see it mounted.
"""

import os
import socket
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Mapping
from contextlib import suppress

from pinfold.kernel.namespaces import setns
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.keeper.mounts import RootBuilder
from pinfold.sandbox.linux.keeper.network import open_outlet
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.child_process import end_with
from pinfold.sandbox.linux.protocol.keeper import Confinement, OutletMade
from pinfold.sandbox.linux.protocol.operations import Operations
from pinfold.sandbox.linux.spawner import main as spawner
from pinfold.sandbox.linux.warden import main as warden
from pinfold.sandbox.linux.warden.config import WardenConfig
from pinfold.sandbox.linux.warden.peer_wardens import PeerWardens


def assemble(theirs: socket.socket, pids: int, filters: Mapping[str, bytes], config: WardenConfig) -> None:
    """Builds a pen around this process, leaves a spawner in it and serves it as warden, if it has one.

    The first message on the way out brings what hears the session's questions about names, from the first
    such pen.

    Preconditions: the session's namespaces are joined, but not `pids`; the mount namespace is our own.
    """
    if config.gate:
        resolver = open_outlet()
        channel.send(config.gate, OutletMade(resolver is not None), (resolver.detach(),) if resolver else ())
    ours, inside = channel.pair()
    is_left = leave_inside(pids, lambda: spawner.serve(theirs, inside, filters), theirs)
    builder = RootBuilder()
    rest = tuple([operation for operation in config.operations if not builder.apply(operation)])
    is_left()
    theirs.close()
    inside.close()
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    channel.send(ours, Confinement(rest), (root,))
    os.close(root)
    if config.has_warden:
        warden.serve(ours, config)


def rehearse(operations: Operations, names: tuple[NameRule, ...], peers: PeerWardens) -> None:
    """Makes a warden as of such a pen, and forgets it: all but the descriptors that it leaves open.

    A fork's memory is its parent's until it is written to, at 3 us a page, and Python writes to all that it
    looks at: half of the time that a warden takes to make. And what the names come to is not made again
    for the same ones (`matcher_of`).

    INVARIANT: an object that closes its descriptor when it is collected is closed here. The caller closes the
    rest by number, and those numbers belong to other files when Python collects the object.
    """
    ours, theirs = channel.pair()
    with suppress(OSError), ours, theirs:
        warden.Warden(-1, WardenConfig(operations, names, ours, None, {}, -1, peers))


def leave_inside(pids: int, serve: Callable[[], None], keeper: socket.socket) -> Callable[[], None]:
    """A process whose parent ends at once, inside the pid namespace, so that init becomes it.

    It is made meanwhile; what this returns waits until it is, or raises why not.
    Preconditions: SIGCHLD is ignored, so that the parent is reaped by the kernel.
    """
    failed: list[Exception] = []
    done = allocate_lock()
    done.acquire()

    def leave() -> None:
        try:
            setns(pids)
            if os.fork() == 0:
                end_with(lambda: serve() if os.fork() == 0 else None, keeper)
        except Exception as error:  # noqa: BLE001  (the waiting thread raises it again below)
            failed.append(error)
        done.release()

    def is_left() -> None:
        done.acquire()
        if failed:
            raise failed[0]

    start_new_thread(leave, ())
    return is_left
