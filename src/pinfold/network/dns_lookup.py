"""The addresses of an allowed name, as this machine finds them: /etc/hosts first, then the system's resolver.

Facts about getaddrinfo: it blocks. It may try a name without a last dot with the machine's search domains,
and so ask for another name than was allowed. It does not look for a name with a last dot in /etc/hosts.

Facts about /etc/hosts (hosts(5)): a line is an address and names; `#` begins a comment; names are compared
without regard to case; a name on several lines has all their addresses.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pinfold.model.fair_share import has_room
from pinfold.model.hosts import canonical, is_address

LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a canonical name, the best first. Raises OSError if there is none."""
MOST_AT_ONCE = 16


class LookUpQueue:
    """Runs as many look-ups at a time as there are threads, and shares them fairly among commands.

    INVARIANT: a look-up counts until its thread is done. The thread cannot be ended, even if the command that
    asked has gone.
    """

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._holders: list[str] = []
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """For each command its waiting turns, in order."""

    async def find(self, name: str, tag: str) -> Sequence[str]:
        """The addresses of a name, for the command with this tag."""
        if has_room(self._holders, tag, MOST_AT_ONCE):
            self._holders.append(tag)
        else:
            await self._turn(tag)
        task = asyncio.ensure_future(self._look_up(name))
        task.add_done_callback(lambda done: self._done(done, tag))
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Future[Sequence[str]], tag: str) -> None:
        if not task.cancelled():
            task.exception()  # or asyncio reports it on standard error if the command has gone
        self._leave(tag)

    async def _turn(self, tag: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tag, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(tag)
            raise

    def _leave(self, tag: str) -> None:
        self._holders.remove(tag)
        for other in list(self._waiting):
            if has_room(self._holders, other, MOST_AT_ONCE):
                self._begin_next(other)

    def _begin_next(self, tag: str) -> None:
        turns = self._waiting[tag]
        while turns:
            turn = turns.popleft()
            if not turn.done():
                self._holders.append(tag)
                turn.set_result(None)
                break
        if not turns:
            del self._waiting[tag]


def system_look_up(local: Mapping[str, tuple[str, ...]]) -> LookUp:
    threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="pinfold-lookup")

    def ask(name: str) -> list[str]:
        flags = socket.AI_ADDRCONFIG
        found = socket.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM, flags=flags)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def look_up(name: str) -> Sequence[str]:
        known = local.get(name)
        if known is not None:
            return known
        if name == "localhost" or name.endswith(".localhost"):
            return "127.0.0.1", "::1"
        return await asyncio.get_running_loop().run_in_executor(threads, ask, name)

    return look_up


HOSTS_FILE = "/etc/hosts"


def parse_hosts(text: str) -> dict[str, tuple[str, ...]]:
    """Canonical names and their addresses; lines that cannot be parsed are skipped."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            try:
                key, value = canonical(name), canonical(address)
            except ValueError:
                continue
            if is_address(value) and value not in found.get(key, ()):
                found[key] = (*found.get(key, ()), value)
    return found


def load_hosts(path: str = HOSTS_FILE) -> Mapping[str, tuple[str, ...]]:
    """The names of the hosts file; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_hosts(file.read())
    except OSError:
        return {}
