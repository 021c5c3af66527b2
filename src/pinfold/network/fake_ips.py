"""Placeholder addresses for names inside a pen. Knows no clock: the caller passes the time.

A program that knows no proxy asks for a name's address, gets one of 198.18.0.0/15, and connects to it. So the
gate learns which name it meant. The range is for benchmarks between devices (RFC 2544): nothing on the
internet has an address in it.

INVARIANT: two names never share an address, and a name keeps its address as long as it is in use. When the
table is full, an address without a connection for `IDLE` seconds may go to another name. If no program ever
connected to it, `UNUSED` seconds are enough, so that a program that asks for endless names cannot keep the
table full. A full table gives no address.
"""

from collections import OrderedDict
from ipaddress import IPv4Address, IPv4Network

NETWORK = IPv4Network("198.18.0.0/15")
MOST = 65536
IDLE = 3600.0
UNUSED = 300.0
"""The resolver's answers are valid for a minute; some programs keep them for longer."""
_FIRST = int(NETWORK.network_address) + 256
"""The lowest are left for the gate's own faces."""


class FakeAddresses:
    def __init__(self, most: int = MOST, idle: float = IDLE, unused: float = UNUSED) -> None:
        self._most, self._idle, self._unused = most, idle, unused
        self._asked: OrderedDict[str, float] = OrderedDict()
        """When names without any connection were asked for last."""
        self._used: OrderedDict[str, float] = OrderedDict()
        """When the other names were asked for, or connected to, last."""
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def address_of(self, name: str, now: float) -> str | None:
        """The placeholder address of a canonical name from now on; None if there is none left."""
        if name not in self._addresses:
            address = self._free(now)
            if address is None:
                return None
            self._addresses[name], self._names[address] = address, name
        _touch(self._used if name in self._used else self._asked, name, now)
        return self._addresses[name]

    def use(self, address: str, now: float) -> str | None:
        """The name to connect to for an address; None if it is no placeholder."""
        name = self.name_of(address)
        if name is not None:
            self._asked.pop(name, None)
            _touch(self._used, name, now)
        return name

    def name_of(self, address: str) -> str | None:
        """The name of a placeholder address; None if it is no placeholder."""
        return self._names.get(address)

    def __len__(self) -> int:
        return len(self._names)

    def _free(self, now: float) -> str | None:
        if len(self._names) < self._most:
            return str(IPv4Address(_FIRST + len(self._names)))
        for names, idle in ((self._asked, self._unused), (self._used, self._idle)):
            oldest, last = next(iter(names.items()), ("", now))
            if now - last >= idle:
                del names[oldest]
                address = self._addresses.pop(oldest)
                del self._names[address]
                return address
        return None


def _touch(names: OrderedDict[str, float], name: str, now: float) -> None:
    names[name] = now
    names.move_to_end(name)


def is_fake_address(address: str) -> bool:
    try:
        return IPv4Address(address) in NETWORK
    except ValueError:
        return False
