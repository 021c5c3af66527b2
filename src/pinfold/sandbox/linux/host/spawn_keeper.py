"""Starts the keeper's program, and others like it.

`start_early` is for programs that know from their first line on that they will want one: the keeper then
makes itself ready while they load the rest. So this module imports next to nothing: `socket` alone costs
3 ms, in which the keeper would not have begun.

INVARIANT: the host never forks; this starts a program, by vfork. And a fork of the host would have in its
memory what the host's has, its environment first of all: a spawner, which comes of the keeper, runs with the
uid of hostile commands.
"""

import os
import sys
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, socketpair

from pinfold.isolated import SOURCE, isolated_python

PROGRAM = "import sys; sys.path.insert(0, {!r}); from pinfold.sandbox.linux.keeper.main import main; main()"

early: list[tuple[int, int, int, int]] = []
"""Keepers that were started early: the starter's pid, the keeper's pid and pidfd, and our end of its
socket."""


def start_early() -> None:
    """Starts a keeper for the first caller that will want one. An error shows at that caller's own
    attempt."""
    if not sys.executable:
        return
    try:
        early.append((os.getpid(), *start_keeper()))
    except OSError:
        return


def start_keeper() -> tuple[int, int, int]:
    """Its pid, its pidfd, and our end of the way to it."""
    return start_program(PROGRAM.format(SOURCE))


def start_program(code: str) -> tuple[int, int, int]:
    """A Python of its own, with nothing of ours but the way to it, as its standard input: the same three."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
    try:
        argv = isolated_python("-X", "utf8", "-c", code)
        pid = os.posix_spawn(
            argv[0],
            argv,
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
        )
        return pid, os.pidfd_open(pid), ours.detach()
    finally:
        ours.close()
        theirs.close()
