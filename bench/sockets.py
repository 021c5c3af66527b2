"""What a connect and a bind cost in a pen against the same bare, in one run.

Usage: python bench/sockets.py [rounds]. Both take turns; each line is of medians.
"""

import os
import subprocess
import sys
import tempfile
from statistics import median

from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import StartRequest
from pinfold.sandbox.linux.host.backend import LinuxBackend

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)
PYTHON = "/usr/bin/python3"
TURNS = 7
PROGRAM = """
import os, socket, sys, time
from statistics import median
rounds = int(sys.argv[1])
where = os.path.realpath(".")
tcp = socket.create_server(("127.0.0.1", 0), backlog=100)
unix = socket.socket(socket.AF_UNIX); unix.bind("s"); unix.listen(100)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0))

def timed(call, argument):
    began = time.perf_counter(); call(argument); return (time.perf_counter() - began) * 1e6

def connects(family, kind, server, address):
    times = []
    for _ in range(rounds):
        with socket.socket(family, kind) as client:
            times.append(timed(client.connect, address))
            if kind == socket.SOCK_STREAM: server.accept()[0].close()
    return median(times)

def binds(family, address):
    times = []
    for number in range(rounds // 4):
        with socket.socket(family) as one:
            times.append(timed(one.bind, address(number)))
    return median(times)

print(connects(socket.AF_INET, socket.SOCK_STREAM, tcp, tcp.getsockname()))
print(connects(socket.AF_INET, socket.SOCK_DGRAM, udp, udp.getsockname()))
print(connects(socket.AF_UNIX, socket.SOCK_STREAM, unix, "s"))
print(connects(socket.AF_UNIX, socket.SOCK_STREAM, unix, where + "/s"))
print(binds(socket.AF_INET, lambda _: ("127.0.0.1", 0)))
print(binds(socket.AF_UNIX, lambda number: f"n{number}"))
for name in os.listdir("."): os.unlink(name)
"""
ROWS = ("tcp connect", "udp connect", "unix connect", "unix connect, absolute", "tcp bind", "unix bind")


def main() -> None:
    rounds = sys.argv[1] if len(sys.argv) > 1 else "1000"
    argv = (PYTHON, "-c", PROGRAM, rounds)
    backend = LinuxBackend()
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as work:
        session = backend.open_session([work])
        pen: list[list[float]] = []
        bare: list[list[float]] = []
        for _ in range(TURNS):
            bare.append(_numbers(subprocess.run(argv, capture_output=True, cwd=work, check=True).stdout))
            pen.append(_numbers(session.run(StartRequest(argv, POLICY, work)).stdout))
        session.close()
    backend.close()
    for name, inside, outside in zip(ROWS, zip(*pen, strict=True), zip(*bare, strict=True), strict=True):
        more = median(inside) - median(outside)
        print(f"{name:24} pen {median(inside):7.1f} us  bare {median(outside):6.1f} us  +{more:6.1f} us")


def _numbers(text: bytes) -> list[float]:
    return [float(line) for line in text.split()]


if __name__ == "__main__":
    main()
