"""/etc/hosts: names that this machine knows by itself. Pure but for `load`.

Facts (hosts(5)): a line is an address and names; `#` begins a comment; names are compared without regard to
case; a name on several lines has all their addresses.
"""

from collections.abc import Mapping

from pinfold.model.hosts import canonical, is_address

PATH = "/etc/hosts"


def parse(text: str) -> dict[str, tuple[str, ...]]:
    """Canonical names and their addresses; a line that is none is passed over."""
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


def load(path: str = PATH) -> Mapping[str, tuple[str, ...]]:
    """A file that cannot be read knows no names."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse(file.read())
    except OSError:
        return {}
