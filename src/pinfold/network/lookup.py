"""The addresses of a name that was allowed, as this machine finds them.

Facts about getaddrinfo: it blocks; a name without a last dot may be tried with the machine's search domains,
so that another name is asked for than was allowed; one with a last dot is not looked for in /etc/hosts.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a canonical name, the best first; OSError if there is none."""
MOST_AT_ONCE = 16


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
