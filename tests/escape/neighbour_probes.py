"""Commands against the user's other sessions and the machine's programs: each function runs in a child of the
tests, as root and as an ordinary user, in a workspace of its own. Its name says what must hold."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import wait_until
from tests.sandbox.probing import probes_of, run
from tests.session.runs import opened

import pinfold

BEGIN = """
import array, ctypes, fcntl, os, resource, socket, sys, time
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_SIGPENDING):
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (hard, hard))
kept = []
try:
"""
END = """
except OSError as error:
    print(error)
os.close(os.open("all", os.O_CREAT | os.O_WRONLY))
time.sleep(1000)
"""
SEND = """
    null = array.array("i", [os.open("/dev/null", os.O_RDONLY)] * 253)
    while True:
        kept.append(socket.socketpair())
        kept[-1][0].setblocking(False)
        try:
            while True: kept[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null)])
        except BlockingIOError: pass
"""
TERMINALS = """
    while True: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
"""
LEASES = """
    for path in sys.argv[1:]:
        kept.append(os.open(path, os.O_RDONLY))
        fcntl.fcntl(kept[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)
"""


@contextmanager
def taking(what: str, *words: str) -> Iterator[pinfold.Session]:
    """A session in which a command has taken all that it could have of something."""
    with opened() as session:
        taker = session.start(["/usr/bin/python3", "-c", BEGIN + what + END, *words], timeout=80)
        wait_until(lambda: os.path.exists("all"))
        yield session
        taker.cancel()
        taker.wait()


def descriptors_under_way_keep_nobody_from_starting() -> None:
    # As it is on most machines: the host may have more, and does not.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    with opened() as other, taking(SEND) as session:
        for each in (session, other):
            assert each.run("echo ran").stdout == "ran\n"
            policy = pinfold.SandboxPolicy(protected=(f"{os.getcwd()}/never",))
            assert each.run(pinfold.RunCommand("echo ran", policy=policy)).stdout == "ran\n"
        with opened() as third:
            assert third.run("ulimit -Sn; mkdir made").stdout == "1024\n" and os.path.isdir("made")
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1024, hard)


def terminals_of_one_session_leave_others_some() -> None:
    with opened() as other, taking(TERMINALS):
        told = other.start(["/usr/bin/tty"], terminal=(24, 80)).wait()
        assert told.stdout.startswith("/dev/pts/"), told


def nobody_waits_for_a_lease() -> None:
    """Whoever opens such a file waits for 45 seconds, or hears EAGAIN, as the host of an ignore file."""
    own = f"{os.environ['HOME']}/.profile"
    for path in (".pinfoldignore", "file", own):
        with open(path, "w") as file:
            file.write("x\n")
    with taking(LEASES, "file", ".pinfoldignore", own) as session:
        assert session.run(pinfold.RunCommand("cat file", timeout=10)).stdout == "x\n"
        with opened() as other:
            assert other.run("true").exit_code == 0
        os.close(os.open(own, os.O_RDWR | os.O_NONBLOCK))


PROBES = probes_of(globals(), "taking")

if __name__ == "__main__":
    run(globals())
