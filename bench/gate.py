"""What the gate costs, against the same thing on bare loopback in the same run.

Run: `.venv/bin/python bench/gate.py [--rounds N] [--megabytes N] [--connections N]`.

The gate is a process of its own with its line to a session here, as in a real one. Client, gate and server
share the processors, so on two of them a relay cannot be as fast as what it relays; rounds are interleaved
and the median of their ratios counts.
"""

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import perf_counter, sleep

from pinfold.model.carrying import PROXY, Wish
from pinfold.model.decision import Verdict
from pinfold.network.line import Line
from pinfold.network.ruling import Ruling

AIMS = {"throughput": 0.7, "latency": 1.0}
AT_ONCE = 1000
PIECE = 1 << 18
ALLOWED = Ruling(Verdict.ALLOW, "it is on the list", "localhost")


def serve(listener: socket.socket) -> None:
    """Each client says how many bytes it wants, or `p` for an echo of whatever follows."""

    def talk(sock: socket.socket) -> None:
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            left = int.from_bytes(sock.recv(9)[1:], "big")
            if not left:
                while data := sock.recv(PIECE):
                    sock.sendall(data)
            piece = bytes(PIECE)
            while left > 0:
                left -= sock.send(piece[: min(left, PIECE)])

    while True:
        sock, _ = listener.accept()
        threading.Thread(target=talk, args=(sock,), daemon=True).start()


def wish(count: int) -> bytes:
    return b"\0" + count.to_bytes(8, "big")


@contextmanager
def origin(host: str = "127.0.0.1") -> Iterator[int]:
    listener = socket.create_server((host, 0), backlog=4096)
    child = os.fork()
    if child == 0:
        try:
            serve(listener)
        finally:
            os._exit(0)
    try:
        yield listener.getsockname()[1]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        listener.close()


@contextmanager
def gate() -> Iterator[tuple[int, int]]:
    """The proxy's port and the gate's pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arguments = [sys.executable, "-m", "pinfold.network", str(theirs.fileno())]
    process = subprocess.Popen(arguments, pass_fds=[theirs.fileno()])
    theirs.close()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    line = Line(ours, lambda *_: ALLOWED, lambda *_: ALLOWED, lambda _: None, lambda: None)
    line.start()
    warden, pen = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with pen:
        line.add("1", pen)
    threading.Thread(target=hand_over, args=(listener, warden), daemon=True).start()
    try:
        yield listener.getsockname()[1], process.pid
    finally:
        line.close()
        process.wait()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        warden.close()
        ours.close()


def hand_over(listener: socket.socket, warden: socket.socket) -> None:
    """Leads each connection to the proxy, as a pen's warden does."""
    with suppress(OSError):
        while True:
            with listener.accept()[0] as sock:
                socket.send_fds(warden, [Wish(PROXY, tag=1).encoded()], [sock.fileno()])


def direct(port: int, _: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def through(port: int, proxy: int) -> socket.socket:
    sock = direct(proxy, 0)
    sock.sendall(b"CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (port, port))
    assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
    return sock


def transfer(sock: socket.socket, count: int) -> float:
    buffer, got, start = bytearray(PIECE), 0, perf_counter()
    with sock:
        sock.sendall(wish(count))
        while received := sock.recv_into(buffer):
            got += received
    assert got == count
    return perf_counter() - start


def ping(way: object, port: int, proxy: int) -> float:
    start = perf_counter()
    with way(port, proxy) as sock:  # type: ignore[operator]
        sock.sendall(wish(0) + b"x")
        assert sock.recv(1) == b"x"
    return perf_counter() - start


def descriptors_and_memory(pid: int) -> tuple[int, int]:
    """How many descriptors a process has, and kilobytes."""
    with open(f"/proc/{pid}/status") as status:
        memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return len(os.listdir(f"/proc/{pid}/fd")), memory


def settled(pid: int) -> tuple[int, int]:
    """The same, once connections that are over have been closed."""
    last, now = -1, descriptors_and_memory(pid)
    while now[0] != last:
        sleep(0.5)
        last, now = now[0], descriptors_and_memory(pid)
    return now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--connections", type=int, default=10_000)
    options = parser.parse_args()
    with origin() as port, gate() as (proxy, pid):
        ping(through, port, proxy)
        count = options.megabytes << 20
        pairs = [
            (transfer(direct(port, 0), count), transfer(through(port, proxy), count))
            for _ in range(options.rounds)
        ]
        ratio = statistics.median(bare / gated for bare, gated in pairs)
        best = min(bare for bare, _ in pairs) / min(gated for _, gated in pairs)
        print(f"throughput, {options.megabytes} MB: {ratio:.2f} of direct (best against best {best:.2f})")

        times = [(ping(direct, port, 0), ping(through, port, proxy)) for _ in range(300)]
        bare, gated = (statistics.median(kind) * 1e3 for kind in zip(*times, strict=True))
        added = gated - bare
        print(f"a connection and a byte back: direct {bare:.2f} ms, gate {gated:.2f}, added {added:.2f} ms")

        with ExitStack() as stack:
            start = perf_counter()
            socks = [stack.enter_context(through(port, proxy)) for _ in range(AT_ONCE)]
            for sock in socks:
                sock.sendall(wish(0) + b"x")
            alive = sum(sock.recv(1) == b"x" for sock in socks)
            print(f"at once: {alive} connections, opened and heard in {perf_counter() - start:.2f} s")

        before = settled(pid)
        start = perf_counter()
        for _ in range(options.connections):
            ping(through, port, proxy)
        taken = perf_counter() - start
        after = settled(pid)
        print(
            f"one after the other: {options.connections} in {taken:.1f} s; "
            f"descriptors {before[0]} -> {after[0]}, memory {before[1] >> 10} -> {after[1] >> 10} MB"
        )
    missed = [
        what
        for what, is_met in (
            ("throughput", max(ratio, best) >= AIMS["throughput"]),
            ("latency", added <= AIMS["latency"]),
            ("concurrent", alive == AT_ONCE),
            ("leak", after[0] <= before[0] and after[1] - before[1] < 4096),
        )
        if not is_met
    ]
    print(f"missed: {', '.join(missed)}" if missed else "every aim is met")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
