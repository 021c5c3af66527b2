"""Commands against the user's other sessions and the machine's programs: each function runs in a child of the
tests, as root and as an ordinary user, in a workspace of its own. Its name says what must hold."""

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import wait_until
from tests.probe_module import SKIPPED, probes_of, run
from tests.session.probes.run import Says, opened

import pinfold
from pinfold.kernel.syscall import MACHINE, NUMBERS

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
LOCKED = """
    libc = ctypes.CDLL(None, use_errno=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    while True:
        segment = libc.shmget(0, 1 << 16, 0o1600)
        if libc.shmctl(segment, 11, 0): raise OSError(ctypes.get_errno(), "SHM_LOCK")
"""
REQUESTS = """
    libc = ctypes.CDLL(None, use_errno=True)
    for at_once in (60_000, 1_000, 1):
        while not libc.syscall(ctypes.c_long(int(sys.argv[1])), at_once, ctypes.byref(ctypes.c_ulong())): pass
"""
PROCESSES = """
    while True:
        if not os.fork():
            time.sleep(1000)
            os._exit(0)
"""
LABELS = """
    import struct
    while True:
        kept.append(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
        request = socket.inet_pton(socket.AF_INET6, "::1") + struct.pack("=IBBHHHI", 0, 0, 1, 1, 60, 60, 0)
        kept[-1].setsockopt(41, 32, request)
"""
QUEUES = """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(100):
        libc.mq_open(b"/%d" % number, os.O_CREAT | os.O_RDWR, 0o600, None)
"""
HUGE = """
import ctypes, errno, mmap
MAP_NORESERVE, MAP_HUGETLB, MFD_HUGETLB, SHM_HUGETLB = 0x4000, 0x40000, 4, 0o4000
libc = ctypes.CDLL(None, use_errno=True)
try: mmap.mmap(-1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE | MAP_HUGETLB)
except OSError as error: assert error.errno == errno.ENOMEM, error
else: assert False, "huge pages"
assert libc.memfd_create(b"", MFD_HUGETLB) < 0 and ctypes.get_errno() == errno.ENOMEM
assert libc.shmget(0, 2 << 20, 0o1600 | SHM_HUGETLB) < 0
"""
SECRET = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
MEMFD_SECRET = 447
assert libc.syscall(MEMFD_SECRET, 0) < 0 and ctypes.get_errno() == errno.ENOSYS, "secret memory"
"""
SHM_LOCK = 11


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


def memory_that_is_locked_leaves_others_some() -> None:
    # As it is on most machines; root may lock as much as there is.
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, 8 << 20))
    libc = ctypes.CDLL(None, use_errno=True)
    with taking(LOCKED):
        segment = libc.shmget(0, 1 << 20, 0o1600)
        try:
            assert libc.shmctl(segment, SHM_LOCK, 0) == 0, os.strerror(ctypes.get_errno())
        finally:
            libc.shmctl(segment, 0, 0)


def flow_labels_of_the_machine_are_left_to_others() -> None:
    with taking(LABELS) as session:
        assert session.run("grep -c . /proc/net/ip6_flowlabel; true").stdout in ("0\n", "1\n", "")


def processes_of_all_sessions_leave_the_host_some() -> None:
    """One session may have 512: two have more than this user. Of root's the kernel bounds none."""
    resource.setrlimit(resource.RLIMIT_NPROC, (900, 900))
    with taking(PROCESSES):
        os.unlink("all")
        with taking(PROCESSES):
            assert subprocess.run(["true"]).returncode == 0


def requests_of_the_machine_are_left_to_others() -> None:
    """Each program of the machine that begins asynchronous input and output reserves some of 65,536."""
    libc = ctypes.CDLL(None, use_errno=True)
    io_setup, io_destroy = (NUMBERS[MACHINE][call] for call in ("io_setup", "io_destroy"))
    with taking(REQUESTS, str(io_setup)):
        context = ctypes.c_ulong()
        got = libc.syscall(ctypes.c_long(io_setup), 64, ctypes.byref(context))
        assert got == 0, os.strerror(ctypes.get_errno())
        libc.syscall(ctypes.c_long(io_destroy), context)


def message_queues_of_the_user_are_left_to_others() -> None:
    """A queue of ten messages counts with the user, in whichever namespace it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    with taking(QUEUES):
        queue = libc.mq_open(b"/pinfold-test-%d" % os.getpid(), os.O_CREAT | os.O_RDWR, 0o600, None)
        assert queue >= 0, os.strerror(ctypes.get_errno())
        libc.mq_unlink(b"/pinfold-test-%d" % os.getpid())
        os.close(queue)


def huge_pages_of_the_machine_are_left_to_others() -> None:
    """Here without reserving any, so that the answer is the same where the machine has none."""
    with opened() as session:
        result = session.run(["/usr/bin/python3", "-I", "-c", HUGE])
        assert result.exit_code == 0, result


def memory_that_no_process_has_is_not_taken() -> None:
    """What memfd_secret gives stays when it is unmapped, counts for nobody and cannot be swapped out."""
    with opened() as session:
        result = session.run(["/usr/bin/python3", "-I", "-c", SECRET])
        assert result.exit_code == 0, result


def nothing_here_waits_by_what_a_command_can_take() -> None:
    """A command can take every watch of epoll that the user has: tried here, that would stop others."""
    settings = {"network": {"access": "rules", "allow": ["a.example"]}}
    with opened(settings, approvers=[Says(pinfold.Answer.NO)]) as session:
        assert session.run("(sleep 1000; echo late) & getent hosts b.example; echo ran").stdout == "ran\n"
        gate = session.sandboxes._outside._gatehouse.pid  # type: ignore[attr-defined]
        for process in ("self", gate):
            held = [link_of(f"/proc/{process}/fd/{name}") for name in os.listdir(f"/proc/{process}/fd")]
            assert any("socket:" in link for link in held), held
            assert not any("eventpoll" in link for link in held), held


NEIGHBOURS = """
import errno, socket
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
    for scope in ("2001:db8::", "fe80::", "ff02::"):
        for number in range(3_000):
            try: sock.sendto(b"x", (f"{scope}{number:x}", 9, 0, 1))
            except OSError as error: assert error.errno == errno.ENETUNREACH, error
try: socket.create_connection(("2606:4700:4700::1111", 9))
except OSError as error: print(error)
"""


def datagrams_make_no_neighbours() -> None:
    """Each is half a kilobyte of the kernel's, which nobody pays for, in one table for all namespaces."""
    told = "/proc/net/stat/ndisc_cache"
    if not os.path.exists(told):
        print("this machine has no IPv6")
        sys.exit(SKIPPED)
    with opened({"network": {"access": "rules", "allow": ["a.example"]}}) as session:
        result = session.run(["/usr/bin/python3", "-I", "-c", NEIGHBOURS])
        assert result.exit_code == 0, result
        # TCP comes to the gate as ever.
        assert [violation.path for violation in result.violations] == ["[2606:4700:4700::1111]:9"], result
        with open(told) as file:
            assert int(file.readlines()[1].split()[0], 16) < 1_000


def link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


PROBES = probes_of(globals(), "taking", "link_of")

if __name__ == "__main__":
    run(globals())
