"""The gate's own process: `python -m pinfold.network DESCRIPTOR`. DESCRIPTOR is the link to its session.

Facts: the usual soft limit of 1,024 descriptors is 500 connections; a process may raise it to the hard limit
by itself. Ctrl-C at a terminal goes to every process of its group: the session decides what it means.
"""

import asyncio
import resource
import signal
import socket
import sys
from selectors import PollSelector


async def serve(descriptor: int) -> None:
    from pinfold.network.gate_link import GateLink

    with socket.socket(fileno=descriptor) as line:
        await GateLink(line).run()


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Not epoll: a command may have used up the user's epoll watches (`sandbox.poll_set`).
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(PollSelector())) as runner:
        runner.run(serve(int(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
