"""A timer that ends what one thread waits in."""

import errno
import signal
import socket
import threading
from pathlib import Path

from pinfold.kernel import sockets
from pinfold.kernel.process import Alarm
from tests.kernel.child import in_child


def test_it_ends_what_its_own_thread_waits_in(tmp_path: Path) -> None:
    def action() -> list[int]:
        address = b"\1\0" + bytes(tmp_path / "s") + b"\0"
        server, clients = socket.socket(socket.AF_UNIX), [socket.socket(socket.AF_UNIX) for _ in range(2)]
        server.bind(str(tmp_path / "s"))
        server.listen(0)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        said: list[int] = []

        def connect() -> None:
            with Alarm(signal.SIGUSR1, 0.005):
                said.extend(sockets.connect(client.fileno(), address) for client in clients)

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        return said

    assert in_child(action) == [0, errno.EINTR]
