"""Where callers' relative paths start, asked as cheaply as can be.

Facts (proc(5), readlinkat(2); tried on Linux 6.18):
- A link in /proc that is held (O_PATH, O_NOFOLLOW) is read without a walk, in half the time, and says where
  it leads now: a directory that was changed or moved since is told as it is.
- It stays the same thread's. Once that has ended, or has closed the descriptor, reading fails, whoever has
  its number by then.
- The path of a directory that was removed is told with an ending. Something else may have it by now.
"""

import os

from pinfold.sandbox.linux.warden.notification import start_of

LINKS = 32
"""How many are held."""
HELD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
GONE = b" (deleted)"


class Starts:
    def __init__(self, proc: int) -> None:
        """`proc`: the host's /proc, where callers are known."""
        self.proc = proc
        self.links: dict[tuple[int, int], int] = {}

    def path(self, thread: int, descriptor: int) -> bytes:
        """Of a caller's directory, by its descriptor; empty if that has none, or cannot be told."""
        asked = thread, descriptor
        for _ in range(2):
            try:
                held = self.links.get(asked)
                return _read(self._hold(asked) if held is None else held)
            except OSError:
                # Of what came of its number since, if anything did, another link tells.
                if (held := self.links.pop(asked, None)) is not None:
                    os.close(held)
        return b""

    def _hold(self, asked: tuple[int, int]) -> int:
        if len(self.links) >= LINKS:
            os.close(self.links.pop(next(iter(self.links))))
        link = self.links[asked] = os.open(start_of(*asked), HELD, dir_fd=self.proc)
        return link


def _read(link: int) -> bytes:
    path = os.readlink(b"", dir_fd=link)
    return b"" if path.endswith(GONE) else path
