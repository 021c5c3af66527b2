"""What the gate costs a program in a pen, against the same program bare over loopback, in one run.

Run: `.venv/bin/python -m bench.gate [--rounds N] [--megabytes N] [--connections N]`.

Three ways to one server: bare through 127.0.0.1; from a pen by a program that knows no proxy, whose connects
are carried; and from a pen through the proxy, by CONNECT. They take turns, and the median of the rounds'
ratios counts. Names and addresses are this machine's own, so it needs namespaces;
`tests/session/fake_internet.py` makes them.

Client, gate and server share the processors: on two of them, and on a busy machine, a relay cannot be as fast
as what it relays, since each byte is copied four times instead of twice.
"""

import argparse
import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import NamedTuple

import pinfold
from pinfold.model.gate_protocol import GATE, PROXY_PORT

AIMS = {"throughput": 0.7, "latency": 1.0}
AT_ONCE = 1000
PIECE = 1 << 18
MOST_GROWTH = 4096
"""Kilobytes that the gate may grow by over all the connections."""
CLIENT = """
import json, resource, socket, sys, time
what, way, host, port, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
clock = time.perf_counter

def connect():
    if way != "proxy":
        sock = socket.create_connection((host, port))
    else:
        sock = socket.create_connection(("@GATE@", @PROXY_PORT@))
        sock.sendall(b"CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n" % ((host.encode(), port) * 2))
        assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock

def ask(sock, size=0): sock.sendall(b"\\0" + size.to_bytes(8, "big") + b"x" * (not size))

def heard(sock):
    assert sock.recv(1) == b"x"

def ping():
    start = clock()
    with connect() as sock:
        ask(sock)
        heard(sock)
    return clock() - start

def pings():
    times = sorted(ping() for _ in range(count))
    return [times[len(times) // 2] * 1e3, times[len(times) * 95 // 100] * 1e3]

def transfer():
    got, buffer = 0, bytearray(1 << 18)
    with connect() as sock:
        start = clock()
        ask(sock, count)
        while received := sock.recv_into(buffer): got += received
    assert got == count
    return clock() - start

def at_once():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    start = clock()
    socks = [connect() for _ in range(count)]
    for sock in socks: ask(sock)
    for sock in socks: heard(sock)
    return clock() - start

print(json.dumps({"pings": pings, "transfer": transfer, "at_once": at_once}[what]()))
""".replace("@GATE@", GATE).replace("@PROXY_PORT@", str(PROXY_PORT))


def serve(listener: socket.socket) -> None:
    """Each client says how many bytes it wants, or none for an echo of all that follows."""

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


class Holdings(NamedTuple):
    """What a process has."""

    descriptors: int
    threads: int
    kilobytes: int


def holdings(pid: int) -> Holdings:
    with open(f"/proc/{pid}/status") as status:
        said = dict(line.split(":", 1) for line in status)
    return Holdings(len(os.listdir(f"/proc/{pid}/fd")), int(said["Threads"]), int(said["VmRSS"].split()[0]))


def settled(pid: int) -> Holdings:
    """The same, once connections that are over have been closed."""
    last, now = -1, holdings(pid)
    while now.descriptors != last:
        sleep(0.5)
        last, now = now.descriptors, holdings(pid)
    return now


class Ways:
    """The same client on each of the three ways."""

    def __init__(self, session: pinfold.Session, address: str, port: int) -> None:
        self.session, self.address, self.port = session, address, str(port)

    def bare(self, what: str, count: int) -> list[float]:
        argv = [sys.executable, "client.py", what, "bare", "127.0.0.1", self.port, str(count)]
        return _numbers(subprocess.run(argv, check=True, capture_output=True).stdout)

    def carried(self, what: str, count: int) -> list[float]:
        return self._penned(what, "carried", count)

    def proxied(self, what: str, count: int) -> list[float]:
        return self._penned(what, "proxy", count)

    def _penned(self, what: str, way: str, count: int) -> list[float]:
        result = self.session.run(
            [sys.executable, "client.py", what, way, self.address, self.port, str(count)]
        )
        assert result.exit_code == 0, result.stderr
        return _numbers(result.stdout)


def _numbers(text: str | bytes) -> list[float]:
    found = json.loads(text)
    return found if isinstance(found, list) else [found]


def compare(ways: Ways, options: argparse.Namespace) -> list[str]:
    """Throughput and the time of a connection; what missed its aim."""
    missed = []
    size = options.megabytes << 20
    penned: dict[str, Callable[[str, int], list[float]]] = {"carried": ways.carried, "proxy": ways.proxied}
    moved: dict[str, list[tuple[float, float]]] = {name: [] for name in penned}
    asked: dict[str, list[tuple[float, float]]] = {name: [] for name in penned}
    for _ in range(options.rounds):
        for name, way in penned.items():
            moved[name].append((ways.bare("transfer", size)[0], way("transfer", size)[0]))
            asked[name].append((ways.bare("pings", options.pings)[0], way("pings", options.pings)[0]))
    for name, pairs in moved.items():
        ratio = median(bare / gated for bare, gated in pairs)
        best = min(bare for bare, _ in pairs) / min(gated for _, gated in pairs)
        bare_, gated_ = (median(times) for times in zip(*pairs, strict=True))
        print(
            f"{name}: {options.megabytes} MB in {gated_:.2f} s, bare {bare_:.2f} s; {ratio:.2f} of bare, "
            f"round by round (best against best {best:.2f})"
        )
        missed += [f"{name} throughput"] if max(ratio, best) < AIMS["throughput"] else []
    for name, pairs in asked.items():
        bare, added = median(bare for bare, _ in pairs), median(gated - bare for bare, gated in pairs)
        least = min(gated for _, gated in pairs) - min(bare for bare, _ in pairs)
        print(
            f"{name}: a connection and a byte back, bare {bare:.2f} ms (p50), added {added:.2f} ms "
            f"(best against best {least:.2f})"
        )
        missed += [f"{name} latency"] if min(added, least) > AIMS["latency"] else []
    return missed


def endure(ways: Ways, pid: int, connections: int) -> list[str]:
    """Many connections, at once and one after the other; what missed its aim."""
    print(f"at once: {AT_ONCE} connections, opened and heard in {ways.carried('at_once', AT_ONCE)[0]:.2f} s")
    before, start = settled(pid), perf_counter()
    for way in (ways.carried, ways.proxied):
        way("pings", connections // 2)
    taken, after = perf_counter() - start, settled(pid)
    print(f"one after the other: {connections} in {taken:.1f} s; the gate before {before}, after {after}")
    has_leaked = after[:2] > before[:2] or after.kilobytes - before.kilobytes > MOST_GROWTH
    return ["leak"] if has_leaked else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--pings", type=int, default=300)
    parser.add_argument("--connections", type=int, default=10_000)
    options = parser.parse_args()
    from tests.session.fake_internet import ADDRESS, Machine

    place = Path(tempfile.mkdtemp(prefix="pinfold-bench-", dir=Path.home()))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for name in ("home", "work"):
        (place / name).mkdir()
    os.chdir(place / "work")
    os.environ["HOME"] = str(place / "home")
    Machine()
    Path("client.py").write_text(CLIENT)
    settings = {"network": {"access": "rules", "allow": [ADDRESS]}}
    with origin("") as port, pinfold.Session([os.getcwd()], settings=settings) as session:
        ways = Ways(session, ADDRESS, port)
        session.run(["true"])
        first, second = ways.carried("pings", 1)[0], ways.carried("pings", 1)[0]
        print(f"the first connection, which starts the gate: {first:.1f} ms; the second: {second:.1f} ms")
        gatehouse = session.sandboxes._outside._gatehouse  # type: ignore[attr-defined]
        missed = compare(ways, options) + endure(ways, gatehouse.pid, options.connections)
    print(f"missed: {', '.join(missed)}" if missed else "every aim is met")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
