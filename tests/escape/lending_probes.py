"""Commands of one session that try to lend each other their mounts: each function runs in a child of the
tests, as root and as an ordinary user, in a workspace of its own. Its name says what must hold.

A descriptor keeps the mounts of the pen that opened it, and loses what is mounted in them when that pen ends.
So none may come from one pen into another, by whatever way.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import wait_until
from tests.sandbox.probes import READ_ONLY, WORKSPACE, Bench
from tests.sandbox.probing import PYTHON, probes_of, run

from pinfold.model.policy import SandboxPolicy
from pinfold.policy.protected import name_rules
from pinfold.sandbox.backend import Found, Running

HOME = os.environ.get("HOME", "")
RULES = name_rules(())
NAMES = ("s", "/tmp/s", "/var/tmp/s", "/dev/shm/s", "@s", "@" + "s" * 107, "")
"""Of sockets; an abstract one begins with @, and the empty one is the kernel's to choose."""
COMMON = """
import os, socket, sys, time
def address(name):
    return b"" if not name else b"\\0" + name[1:].encode() if name[0] == "@" else name
def told(path, text=""):
    with open(path + ".new", "w") as file: file.write(text)
    os.rename(path + ".new", path)
def wait_for(path):
    while not os.path.exists(path): time.sleep(0.005)
flags = os.O_RDONLY | os.O_DIRECTORY
"""
LISTEN = f"""{COMMON}
way = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[2]))
way.bind(address(sys.argv[1]))
way.listen()
name = way.getsockname()
told("listening", name.hex() if isinstance(name, bytes) else os.fsencode(name).hex())
wait_for("enough")
way.setblocking(False)
try: peer, _ = way.accept()
except OSError: print("nobody came")
else: print("GOT", peer)
"""
CONNECT = f"""{COMMON}
with open("listening") as file: name = bytes.fromhex(file.read())
way = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[2]))
try: way.connect(name if name[:1] == b"\\0" else os.fsdecode(name))
except OSError as error: print(type(error).__name__)
else:
    socket.send_fds(way, [b"x"], [os.open(".", flags), os.open("/", flags)])
    print("GOT", name)
"""
OWNER = f"""{COMMON}
way = socket.socket(socket.AF_UNIX)
way.bind(address(sys.argv[1])); way.listen(); way.close()
told("given-up")
wait_for("taken")
try: socket.socket(socket.AF_UNIX).connect(address(sys.argv[1]))
except OSError as error: print(type(error).__name__)
"""
TAKER = f"""{COMMON}
import errno
for name in ("@moved", "@cafe1"):
    try: socket.socket(socket.AF_UNIX).bind(address(name))
    except OSError as error: print(errno.errorcode[error.errno])
"""


class Pens(Bench):
    """A session whose next command is in another pen when the host wants it."""

    def __init__(self) -> None:
        self.hides: list[str] = []
        super().__init__()
        self.session.survey = lambda _: Found((), tuple(self.hides), RULES)

    def another(self) -> None:
        """From the next command on, something else is hidden."""
        name = f"{self.work}/hidden{len(self.hides)}"
        os.mkdir(name)
        self.hides.append(name)
        self.session.look_again()

    def start(self, program: str, *arguments: str, policy: SandboxPolicy = WORKSPACE) -> Running:
        return self.session.start(self.request([PYTHON, "-c", program, *arguments], policy))

    def python(self, program: str, *arguments: str, policy: SandboxPolicy = WORKSPACE) -> str:
        return self.out([PYTHON, "-c", program, *arguments], policy)


@contextmanager
def listening(bench: Pens, name: str, kind: str) -> Iterator[None]:
    for path in ("listening", "enough"):
        if os.path.exists(path):
            os.unlink(path)
    server = bench.start(LISTEN, name, kind)
    wait_until(lambda: os.path.exists("listening"))
    yield
    with open("enough", "w"):
        pass
    assert server.wait().stdout == b"nobody came\n", (name, kind)


def no_socket_of_another_pen_is_connected_to() -> None:
    """By whatever name, of whatever kind, whichever of the two is the wider one."""
    bench = Pens()
    for kind in ("SOCK_STREAM", "SOCK_SEQPACKET"):
        for name in NAMES:
            with listening(bench, name, kind):
                for policy in (WORKSPACE, READ_ONLY):
                    bench.another()
                    said = bench.python(CONNECT, name, kind, policy=policy)
                    assert said in ("PermissionError\n", "ConnectionRefusedError\n"), (name, kind, said)
            bench.out(["rm", "-f", "s", *(each for each in NAMES if each.startswith("/"))])


def a_name_that_another_pen_gave_up_is_not_connected_to_by_its_old_owner() -> None:
    """Nor is one that the kernel chose."""
    bench = Pens()
    owner = bench.start(OWNER, "@moved", "SOCK_STREAM")
    wait_until(lambda: os.path.exists("given-up"))
    bench.another()
    assert bench.python(TAKER) == "EADDRINUSE\nEADDRINUSE\n"
    with open("taken", "w"):
        pass
    assert owner.wait().stdout == b"ConnectionRefusedError\n"


PROBES = probes_of(globals(), "listening")

if __name__ == "__main__":
    run(globals())
