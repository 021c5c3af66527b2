"""What it costs a program in a pen to reach a host outside, against the same on this machine's loopback.

Run: `.venv/bin/python -m bench.outside [--connections N] [--megabytes N] [--rounds N]`.

The pen's program knows no proxy: its connects are carried by the warden to the gate. Both run the same client
program against the same server, in turn, and the median of the rounds' ratios counts. Names and addresses are
this machine's own, so it needs namespaces; `tests/session/abroad.py` makes them.
"""

import argparse
import atexit
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pinfold

CLIENT = """
import json, socket, statistics, sys, time
host, port, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
host = socket.gethostbyname(host)
times = []
for _ in range(count):
    start = time.perf_counter()
    with socket.create_connection((host, port)) as sock:
        sock.sendall(bytes(9) + b"x"); assert sock.recv(1)
    times.append(time.perf_counter() - start)
with socket.create_connection((host, port)) as sock:
    start, got, buffer = time.perf_counter(), 0, bytearray(1 << 18)
    sock.sendall(b"\\0" + size.to_bytes(8, "big"))
    while received := sock.recv_into(buffer): got += received
    assert got == size
print(json.dumps([statistics.median(times) * 1e3, sorted(times)[int(count * .95)] * 1e3,
                  size / 1e6 / (time.perf_counter() - start)]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", type=int, default=300)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    from tests.session.abroad import ADDRESS, Machine

    from bench.gate import origin

    home = Path(tempfile.mkdtemp(prefix="pinfold-bench-", dir=Path.home()))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("home", "work"):
        (home / name).mkdir()
    os.chdir(home / "work")
    os.environ["HOME"] = str(home / "home")
    Machine()
    ratios: list[float] = []
    added: list[float] = []
    Path("client.py").write_text(CLIENT)
    settings = {"network": {"access": "rules", "allow": [ADDRESS]}}
    with origin("") as port, pinfold.Session([os.getcwd()], settings=settings) as session:
        counts = [str(port), str(args.connections), str(args.megabytes * 1_000_000)]
        for _ in range(args.rounds):
            bare = json.loads(
                subprocess.run(
                    [sys.executable, "client.py", ADDRESS, *counts], check=True, capture_output=True
                ).stdout
            )
            result = session.run([sys.executable, "client.py", ADDRESS, *counts])
            assert result.exit_code == 0, result.stderr
            penned = json.loads(result.stdout)
            added.append(penned[0] - bare[0])
            ratios.append(penned[2] / bare[2])
            print(f"bare {bare[0]:.2f} ms a connection (p95 {bare[1]:.2f}), {bare[2]:.0f} MB/s; "
                  f"from a pen {penned[0]:.2f} ms (p95 {penned[1]:.2f}), {penned[2]:.0f} MB/s")  # fmt: skip
    print(f"added by the way out: {statistics.median(added):.2f} ms a connection (p50)")
    print(f"throughput: {statistics.median(ratios):.2f} of bare")
    return 0


if __name__ == "__main__":
    sys.exit(main())
