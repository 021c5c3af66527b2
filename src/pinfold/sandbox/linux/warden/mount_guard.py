"""The warden's thread that restores mounts, and hears the host and other wardens, whatever a call waits for.

Facts that shape it:
- A call can keep the loop that answers calls for many seconds. Reading a path of a caller waits for the lock
  of its memory, and making a name for that of the directory. Other threads of the program can hold both.
- Meanwhile the host may replace a hidden file, which takes its mount away. A program that opens the new file
  before it has a mount keeps it open.
- A thread has capabilities of its own, and goes on where the loop waits without the GIL (`kernel.quick`).

What else the host says is for the loop: the thread puts it into `heard`, and `bell` rings.
"""

import os
import select
import signal
import socket
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from typing import Any

from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.warden.peers import Neighbours
from pinfold.sandbox.linux.warden.remount import Standing
from pinfold.sandbox.linux.warden.violations import HOLD

Said = tuple[tuple[Any, ...], list[int]]
"""A message of the host's, and its descriptors."""


class MountGuard:
    def __init__(self, host: socket.socket, standing: Standing, neighbours: Neighbours) -> None:
        self.host = host
        self.standing = standing
        self.neighbours = neighbours
        self.heard: deque[Said | None] = deque()
        """None: the host is gone."""
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def start(self, failed: Callable[[BaseException], None]) -> None:
        """`failed` hears what ends the thread, and must end the process: nothing would be restored.

        Raises RuntimeError where the user can have no further thread.
        """

        def serve() -> None:
            try:
                # The timer's signal is for the loop alone (`moment`).
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                self._serve()
            except BaseException as error:  # noqa: BLE001  (whatever it was, the process must end)
                failed(error)

        start_new_thread(serve, ())

    def take(self) -> list[Said | None]:
        """What has been heard since."""
        try:
            os.eventfd_read(self.bell)
        except BlockingIOError:
            return []
        return [self.heard.popleft() for _ in range(len(self.heard))]

    def _serve(self) -> None:
        poll = select.poll()
        self.standing.register(poll)
        poll.register(self.host, select.POLLIN)
        poll.register(self.neighbours.socket, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.host.fileno():
                    if not self._hear():
                        poll.unregister(self.host)
                elif descriptor == self.neighbours.socket.fileno():
                    self.neighbours.answer()
                else:
                    self.standing.look(descriptor)

    def _hear(self) -> bool:
        """Takes a message of the host's; False if it is gone."""
        said: Said | None = None
        try:
            said = channel.receive(self.host)
        except BlockingIOError:
            return True
        except channel.Closed:
            pass
        if said and said[0][0] == HOLD:
            self.standing.take(*said[0][1:])
        else:
            self.heard.append(said)
            os.eventfd_write(self.bell, 1)
        return said is not None
