"""Connects that block: the loop does not wait for them, and each ends with its answer or with its caller."""

import errno
import os
import queue
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.kernel.child import in_child
from tests.patience import wait_until

from pinfold.sandbox.linux.warden import blocking_connect, watchdog
from pinfold.sandbox.linux.warden.blocking_connect import BlockingConnects
from pinfold.sandbox.linux.warden.socket_address import unix_address


class Loop:
    """A server whose backlog takes one, and calls to connect to it; run in a child."""

    def __init__(self, where: Path) -> None:
        os.chdir(where)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind("s")
        self.server.listen(0)
        self.inode = os.open("s", os.O_PATH)
        descriptors = os.open("/proc/self/fd", os.O_PATH)
        os.fchdir(descriptors)
        self.gone: set[int] = set()
        self.answers: queue.Queue[tuple[int, int]] = queue.Queue()
        self.waiting = BlockingConnects(
            descriptors, lambda *answer: self.answers.put(answer), lambda id_: id_ not in self.gone
        )

    def connect(self, id_: int, blocking: bool = True, tag: int = 1) -> int | None:
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(blocking)
        held = os.dup(self.inode)
        return self.connect_to(id_, (client.detach(), held), unix_address(b"%d" % held), "s", tag)

    def connect_to(
        self, id_: int, held: tuple[int, ...], address: bytes, target: str, tag: int = 1
    ) -> int | None:
        watchdog.begin()
        try:
            return self.waiting.connect(id_, lambda: tag, held, address, target)
        finally:
            watchdog.end()


def test_the_loop_waits_once_and_for_a_moment(tmp_path: Path) -> None:
    def action() -> list[int]:
        loop = Loop(tmp_path)
        before = len(os.listdir("/proc/self/fd"))
        assert loop.connect(1) == 0
        moments: list[int] = []
        signal.signal(signal.SIGALRM, lambda number, _: moments.append(number))
        assert [loop.connect(id_) for id_ in range(2, 102)] == [None] * 100
        assert 0 < len(moments) < 50  # a busy machine takes one from it now and then
        os.chdir("/")  # as the loop does; the waiting threads have a directory of their own
        answered = []
        for _ in range(100):
            loop.server.accept()[0].close()
            id_, error = loop.answers.get(timeout=30)
            assert error == 0
            answered.append(id_)
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before and not loop.waiting.threads)
        return sorted(answered)

    assert in_child(action) == list(range(2, 102))


def test_a_nonblocking_socket_is_answered_at_once(tmp_path: Path) -> None:
    def action() -> list[int | None]:
        loop = Loop(tmp_path)
        return [loop.connect(1, blocking=False), loop.connect(2, blocking=False)]

    assert in_child(action) == [0, errno.EAGAIN]


def test_a_connect_ends_with_its_caller(tmp_path: Path) -> None:
    def action() -> tuple[tuple[int, int], bool]:
        loop = Loop(tmp_path)
        loop.connect(1)
        loop.connect(2)
        loop.connect(3)
        loop.gone.add(2)
        answer = loop.answers.get(timeout=30)
        wait_until(lambda: list(loop.waiting.threads) == [3])  # the thread may not have started yet
        loop.server.accept()
        assert loop.answers.get(timeout=30) == (3, 0)
        time.sleep(4 * blocking_connect.LOOK)
        assert loop.connect(4) is None, "the watch begins anew"
        loop.gone.add(4)
        return answer, loop.answers.get(timeout=30) == (4, errno.EINTR)

    assert in_child(action) == ((2, errno.EINTR), True)


def test_waiting_connects_fail_when_the_server_closes(tmp_path: Path) -> None:
    def action() -> tuple[int, int]:
        loop = Loop(tmp_path)
        loop.connect(1)
        loop.connect(2)
        loop.server.close()
        return loop.answers.get(timeout=30)

    assert in_child(action) == (2, errno.ECONNREFUSED)


def test_connects_beyond_the_limit_get_eagain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command leaves some to the others."""
    monkeypatch.setattr(blocking_connect, "MOST", 4)

    def action() -> list[int | None]:
        loop = Loop(tmp_path)
        return [loop.connect(id_) for id_ in range(5)] + [loop.connect(id_, tag=2) for id_ in (5, 6)]

    assert in_child(action) == [0, None, None, None, errno.EAGAIN, None, errno.EAGAIN]


def test_a_tcp_connect_that_waits(tmp_path: Path) -> None:
    """A full TCP queue drops packets: the caller waits until the kernel retries."""

    def action() -> tuple[int | None, int | None, tuple[int, int]]:
        loop = Loop(tmp_path)
        server = socket.create_server(("127.0.0.1", 0), backlog=0)
        address = b"\2\0" + server.getsockname()[1].to_bytes(2, "big") + b"\x7f\0\0\1" + bytes(8)
        first, second = (loop.connect_to(id_, (socket.socket().detach(),), address, "tcp") for id_ in (1, 2))
        server.accept()
        return first, second, loop.answers.get(timeout=30)

    assert in_child(action) == (0, None, (2, 0))
