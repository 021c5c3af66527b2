"""What an agent's browser or fetch would reach, by the address that it is given. Pure.

Facts about addresses (WHATWG URL, 4.4): a browser reads `https:x`, `https:/x` and `https:///x` as `https://x`,
and a URL of its own may say so while others beside it are plain. One that cannot be read is a question. So is
`file:x` the file `/x`, and `%2e` in its path a dot.
"""

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from pinfold.integrations.hooks.hook_call import UnjudgedError
from pinfold.model.request import Connect, ReadFile

MISREAD = frozenset(["\\", "\x7f", *map(chr, range(33))])
"""Browsers take `\\` in an address for `/`, and leave out tabs and line ends (WHATWG URL, 4.4)."""
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def fetch_of(url: str, tool: str) -> Iterator[Connect | ReadFile]:
    """The host that a tool would fetch from, or the file, in each way that its address may be read."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        raise _unread(tool) from None
    if MISREAD & set(url):
        raise _unread(tool)
    if parts.scheme == "file":
        path = "/" + parts.path.lstrip("/")
        yield from (ReadFile(path), ReadFile(unquote(path)))
    elif host:
        yield Connect(host, port)
    else:
        raise _unread(tool)


def _unread(tool: str) -> UnjudgedError:
    return UnjudgedError(f"`{tool}` names an address that can be read in several ways, or none")
