"""What one command can take from others: a `true` of another session and one of the machine's own, beside the
same at rest.

Usage: python -m bench.exhaustion [rounds]. Each command takes all it can of one thing, and goes on until the
figures are taken: so this is for a machine on which nothing else runs that matters. The ratios are of
medians, in one run; the aim is 3.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import pinfold

PYTHON = ("/usr/bin/python3", "-I", "-c")
AIM = 3.0
SECONDS = 40.0
"""How long a command may take to have all."""
BEGIN = """
import array, ctypes, fcntl, os, resource, select, socket, struct, threading, time
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_SIGPENDING):
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (hard, hard))
libc = ctypes.CDLL(None, use_errno=True)
kept = []
def until_refused(take):
    try:
        while True: take()
    except OSError: pass
"""
END = """
os.close(os.open("all", os.O_CREAT | os.O_WRONLY))
time.sleep(1000)
"""
TAKEN = {
    "processes": """
def fork():
    if not os.fork():
        time.sleep(1000)
        os._exit(0)
until_refused(fork)
""",
    "inotify": """
def queue():
    kept.append(libc.inotify_init1(0))
    if kept[-1] < 0: raise OSError
until_refused(queue)
""",
    "terminals": """
until_refused(lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
""",
    "/tmp, memory": """
with open("/tmp/large", "wb", buffering=0) as file: until_refused(lambda: file.write(bytes(1 << 20)))
""",
    "/tmp, inodes": """
numbers = iter(range(1 << 30))
until_refused(lambda: os.mknod(f"/tmp/{next(numbers)}"))
""",
    "descriptors under way": """
null = array.array("i", [os.open("/dev/null", os.O_RDONLY)] * 253)
def send():
    kept.append(socket.socketpair())
    kept[-1][0].setblocking(False)
    try:
        while True: kept[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null)])
    except BlockingIOError: pass
until_refused(send)
""",
    "seccomp filters": """
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("first", ctypes.c_void_p)]
code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x35, 0, 0, 0x12345678) * 4094
code = ctypes.create_string_buffer(code + struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
program = Program(4096, ctypes.addressof(code))
done, each_done = os.pipe()
for _ in range(400):
    if not os.fork():
        while not libc.prctl(22, 2, ctypes.byref(program)): pass
        os.write(each_done, b".")
        time.sleep(1000)
told = 0
while told < 400: told += len(os.read(done, 1000))
""",
    "epoll watches": """
pipe = os.pipe()
watched = [os.dup(pipe[0]) for _ in range(resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 4000)]
def watch():
    kept.append(select.epoll())
    for each in watched: kept[-1].register(each)
until_refused(watch)
""",
    "TCP buffers": """
server = socket.create_server(("127.0.0.1", 0))
def connect():
    for each in (socket.create_connection(server.getsockname()), server.accept()[0]):
        kept.append(each)
        each.setblocking(False)
        try:
            while True: each.send(bytes(1 << 16))
        except BlockingIOError: pass
until_refused(connect)
""",
}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with TemporaryDirectory() as place:
        os.chdir(place)
        with opened() as other:
            at_rest = figures(other, rounds)
            print(f"{'at rest':24}{'':12}{at_rest[0]:8.2f} ms inside {at_rest[1]:8.2f} ms outside")
            for what, lines in TAKEN.items():
                with taking(lines) as state:
                    now = figures(other, rounds)
                ratios = [each / rest for each, rest in zip(now, at_rest, strict=True)]
                word = "" if max(ratios) <= AIM else f"  over {AIM:.0f}x"
                told = f"{ratios[0]:7.2f}x inside {ratios[1]:8.2f}x outside{word}"
                print(f"{what:24}{state():12}{told}", flush=True)


def opened() -> pinfold.Session:
    return pinfold.Session([os.getcwd()], settings={})


@contextmanager
def taking(lines: str) -> Iterator[Callable[[], str]]:
    """A session in which a command has taken what it can, or was ended for that."""
    with opened() as session:
        taker = session.start([*PYTHON, BEGIN + lines + END], timeout=SECONDS + 60)
        late = monotonic() + SECONDS
        while not os.path.exists("all") and monotonic() < late:
            sleep(0.01)
        has_all = os.path.exists("all")
        yield lambda: "has all" if has_all else "was ended"
        taker.cancel()
        taker.wait()
    if has_all:
        os.unlink("all")


def figures(session: pinfold.Session, rounds: int) -> tuple[float, float]:
    """Milliseconds of a `true` in a session and of one on the machine."""
    inside = [timed(lambda: session.run(["/usr/bin/true"]).check()) for _ in range(rounds)]
    outside = [timed(lambda: subprocess.run(["/usr/bin/true"], check=True)) for _ in range(rounds)]
    return median(inside), median(outside)


def timed(run: Callable[[], object]) -> float:
    began = monotonic()
    run()
    return (monotonic() - began) * 1000


if __name__ == "__main__":
    main()
