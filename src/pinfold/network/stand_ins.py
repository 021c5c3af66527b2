"""Addresses that stand for names inside a pen. Knows no clock: the time comes in.

A program that knows no proxy asks for a name's address, gets one of 198.18.0.0/15, connects to it, and so
tells the gate which name it meant. The range is for benchmarks between devices (RFC 2544): nothing on the
internet has an address in it.

INVARIANT: two names never share an address, and a name keeps its address as long as it is in use. One that
was not used for `IDLE` seconds may go to another name when the table is full; a full table gives no address.
"""

from collections import OrderedDict
from ipaddress import IPv4Address, IPv4Network

NETWORK = IPv4Network("198.18.0.0/15")
MOST = 65536
IDLE = 3600.0
_FIRST = int(NETWORK.network_address) + 256
"""The lowest are left for the gate's own faces."""


class StandIns:
    def __init__(self, most: int = MOST, idle: float = IDLE) -> None:
        self._most, self._idle = most, idle
        self._used: OrderedDict[str, float] = OrderedDict()
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def address_of(self, name: str, now: float) -> str | None:
        """The address that stands for a canonical name from now on; None if there is none left."""
        if name not in self._addresses:
            address = self._free(now)
            if address is None:
                return None
            self._addresses[name], self._names[address] = address, name
        self._touch(name, now)
        return self._addresses[name]

    def name_of(self, address: str, now: float) -> str | None:
        """The name that an address stands for; None if it stands for none."""
        name = self._names.get(address)
        if name is not None:
            self._touch(name, now)
        return name

    def __len__(self) -> int:
        return len(self._names)

    def _touch(self, name: str, now: float) -> None:
        self._used[name] = now
        self._used.move_to_end(name)

    def _free(self, now: float) -> str | None:
        if len(self._names) < self._most:
            return str(IPv4Address(_FIRST + len(self._names)))
        oldest, used = next(iter(self._used.items()))
        if now - used < self._idle:
            return None
        del self._used[oldest]
        address = self._addresses.pop(oldest)
        del self._names[address]
        return address


def is_stand_in(address: str) -> bool:
    try:
        return IPv4Address(address) in NETWORK
    except ValueError:
        return False
