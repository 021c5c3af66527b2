"""Things outside a pen that notice when they are reached: sockets, a FIFO, a terminal, a process."""

import os
import select
import socket
from contextlib import ExitStack, suppress

from pinfold.model.events import Output
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.attacks.network import DOCUMENTATION
from pinfold.sandbox.backend import SandboxSession, StartRequest
from pinfold.sandbox.unsandboxed import UnsandboxedBackend

VICTIM = "echo $$; exec sleep 120"


class Canaries:
    """Those that have no name in the scratch tree; `lay` adds those that have."""

    def __init__(self, abstract: str) -> None:
        self.closing = ExitStack()
        self.nameless: dict[int, str] = {}
        self.named: dict[int, str] = {}
        self.laid = ExitStack()
        self.tcp = [self._listener(address) for address in (("127.0.0.1", 0), ("::1", 0))]
        if own := own_address():
            self.tcp.append(self._listener((own, 0)))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", 0))
        self.udp: int = datagrams.getsockname()[1]
        self._watch(datagrams, "its datagram arrived")
        self._watch(_unix("\0" + abstract), "its connection arrived")
        master, slave = os.openpty()
        self.terminal = os.ttyname(slave)
        self.nameless[master] = "the terminal shows it"
        self.closing.callback(os.close, master)
        self.closing.callback(os.close, slave)
        self.unfenced: SandboxSession = UnsandboxedBackend().open_session(())
        self.closing.callback(self.unfenced.close)
        self.victim, self.alive = 0, -1
        self.require_victim()

    def _listener(self, address: tuple[str, int]) -> tuple[str, int]:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        listener = socket.socket(family)
        try:
            listener.bind(address)
        except OSError:
            listener.close()
            return (address[0], 0)
        listener.listen()
        self._watch(listener, "its connection arrived")
        return (address[0], listener.getsockname()[1])

    def _watch(self, bait: socket.socket, news: str) -> None:
        bait.setblocking(False)
        self.nameless[bait.fileno()] = news
        self.closing.enter_context(bait)

    def require_victim(self) -> None:
        """A process to be hurt, alive and as it was."""
        if self.victim and not self.is_hurt():
            return
        running = self.unfenced.start(StartRequest(VICTIM, SandboxPolicy(), "/"))
        # Kept: a command ends when its events are dropped.
        self.news = running.events()
        first = next(self.news)
        self.victim = int(first.data) if isinstance(first, Output) else 0
        self.alive = os.pidfd_open(self.victim)
        self.priority = os.getpriority(os.PRIO_PROCESS, self.victim)
        self.closing.callback(os.close, self.alive)

    def is_hurt(self) -> bool:
        if select.select([self.alive], [], [], 0)[0]:
            return True
        with suppress(OSError):
            return os.getpriority(os.PRIO_PROCESS, self.victim) != self.priority
        return True

    def lay(self, outside: str, work: str) -> None:
        """The baits that have a name: a FIFO, and unix sockets of every kind."""
        self.take_up()
        os.mkfifo(f"{outside}/fifo")
        fifo = os.open(f"{outside}/fifo", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.laid.callback(os.close, fifo)
        self.named[fifo] = "the FIFO's reader got it"
        kinds = {
            "stream": socket.SOCK_STREAM,
            "seqpacket": socket.SOCK_SEQPACKET,
            "datagram": socket.SOCK_DGRAM,
        }
        for path, kind in (
            (f"{work}/socket", socket.SOCK_STREAM),
            *((f"{outside}/{n}", k) for n, k in kinds.items()),
        ):
            bait = _unix(path, kind)
            self.named[bait.fileno()] = "its message arrived"
            self.laid.enter_context(bait)

    def take_up(self) -> None:
        self.laid.close()
        self.named = {}

    def touched(self) -> str | None:
        """What has been reached since the last look."""
        if self.is_hurt():
            return "the process was hurt"
        watched = {**self.nameless, **self.named}
        ready = [bait for bait in select.select(list(watched), [], [], 0)[0] if _took(bait)]
        return watched[ready[0]] if ready else None

    def close(self) -> None:
        self.take_up()
        self.closing.close()


def own_address() -> str | None:
    """The address by which this machine would reach others; nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(DOCUMENTATION)
        return str(probe.getsockname()[0])
    return None


def _unix(path: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    bait = socket.socket(socket.AF_UNIX, kind)
    directory, name = os.path.split(path)
    if directory:
        # By a descriptor: an address has room for 107 bytes, and a home may be deep.
        held = os.open(directory, os.O_PATH | os.O_CLOEXEC)
        bait.bind(f"/proc/self/fd/{held}/{name}")
        os.close(held)
    else:
        bait.bind(path)
    bait.setblocking(False)
    if kind != socket.SOCK_DGRAM:
        bait.listen()
    return bait


def _took(bait: int) -> bool:
    """Empties a bait; False if there was nothing in it, as at a FIFO without writers."""
    with suppress(OSError):
        return bool(os.read(bait, 4096))
    # A listener cannot be read: it is ready because a client connects.
    with socket.socket(fileno=os.dup(bait)) as listener, suppress(OSError):
        listener.accept()[0].close()
        return True
    return False
