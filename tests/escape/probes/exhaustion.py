"""Commands that take what the kernel has for all programs: each function runs in a child of the tests, as
root and as an ordinary user, in a workspace of its own. Its name says what must hold."""

import errno
import os
import signal
import subprocess
from functools import partial

from tests.patience import wait_until
from tests.probe_module import probes_of, run
from tests.session.probes.run import opened

import pinfold
from pinfold.kernel.syscall import MACHINE, NUMBERS
from pinfold.sandbox.linux.host.overuse import OveruseFinder, most_queues, most_watches
from pinfold.sandbox.linux.host.session import LinuxSession

PYTHON = ("/usr/bin/python3", "-I", "-c")
TELL = """
import os
def tell(*words):
    with open("telling", "w") as file: print(*words, file=file)
    os.rename("telling", "told")
"""
SCRATCH = """
import os
places = ("/tmp", "/var/tmp", "/dev/shm")
assert len({os.stat(place).st_dev for place in places}) == 1
there = os.statvfs("/tmp")
pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
assert there.f_blocks * there.f_frsize <= pages // 2 * size, there
assert there.f_files <= pages // 8, there
"""


def scratch_files_leave_the_machine_half_of_its_memory() -> None:
    with opened() as session:
        result = session.run([*PYTHON, SCRATCH])
        assert result.exit_code == 0, result


FILTERS = """
import ctypes, os, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("first", ctypes.c_void_p)]
allow = struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(struct.pack("HBBI", 0x20, 0, 0, 0) * 4095 + allow)
program = Program(4096, ctypes.addressof(code))
def install():
    if os.getpid() % 2: return libc.prctl(22, 2, ctypes.byref(program))
    return libc.syscall(ctypes.c_long(int(sys.argv[1])), 1, 0, ctypes.byref(program))
def install_all():
    while not install(): os.write(into, b"+")
    os.write(into, b"%d." % ctypes.get_errno())
    time.sleep(1000)
out, into = os.pipe()
for _ in range(60):
    if not os.fork():
        for _ in range(3): threading.Thread(target=install_all).start()
        time.sleep(1000)
told = b""
while told.count(b".") < 180: told += os.read(out, 65536)
tell(told.count(b"+"), *sorted(set(told.decode().replace("+", "").split("."))))
time.sleep(1000)
"""
ONE_FILTER = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))
def install():
    failed = libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program)
    assert not failed, os.strerror(ctypes.get_errno())
"""


def filters_of_one_session_leave_others_some() -> None:
    """Here 180 threads could have 1,200 of the largest."""
    one = [*PYTHON, f"{ONE_FILTER}install()"]
    many = [*PYTHON, TELL + FILTERS, str(NUMBERS[MACHINE]["seccomp"])]
    with opened() as other, opened() as session:
        taker = session.start(many, timeout=80)
        installed, *errors = told().split()
        assert int(installed) < 700 and errors == [str(errno.ENOMEM)], (installed, errors)
        assert session.run(one).exit_code != 0
        assert other.run(one).exit_code == 0
        assert subprocess.run(one).returncode == 0
        taker.cancel()
        violations = taker.wait().violations
        assert any("seccomp filters" in each.why for each in violations), violations
        assert session.run(one).exit_code == 0


EACH_FOR_A_MOMENT = """
for _ in range(1_000):
    if not os.fork():
        install()
        os._exit(0)
    assert os.wait()[1] == 0
"""


def filters_that_are_gone_count_no_more() -> None:
    """Each process of these has one for a moment, a thousand in all."""
    with opened() as session:
        result = session.run([*PYTHON, ONE_FILTER + EACH_FOR_A_MOMENT], timeout=100)
        assert result.exit_code == 0 and not result.violations, result


def a_socket_takes_no_filter() -> None:
    """It would be compiled too, and a command may have tens of thousands of sockets."""
    lines = "import socket, sys; socket.socketpair()[0].setsockopt(1, int(sys.argv[1]), bytes(16))"
    with opened() as session:
        for option in (26, 50, 51, 52):  # SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF, _REUSEPORT_EBPF
            result = session.run([*PYTHON, lines, str(option)])
            assert "PermissionError" in result.stderr, result


WATCHING = """
import os, select, time
pipe = os.pipe()
watched = [os.dup(pipe[0]) for _ in range(400)]
kept = [select.epoll() for _ in range(10)]
for each in kept:
    for descriptor in watched: each.register(descriptor)
tell()
time.sleep(1000)
"""
BUFFERED = """
import socket, time
kept = []
with socket.create_server(("127.0.0.1", 0)) as server:
    for _ in range(4):
        kept += [socket.create_connection(server.getsockname()), server.accept()[0]]
for each in kept:
    each.setblocking(False)
    try:
        while True: each.send(bytes(65536))
    except BlockingIOError: pass
tell()
time.sleep(1000)
"""


UNTAKEN = """
import socket, time
kept = []
server = socket.create_server(("127.0.0.1", 0))
for _ in range(100):
    with socket.create_connection(server.getsockname()) as each:
        each.setblocking(False)
        try:
            while True: each.send(bytes(65536))
        except BlockingIOError: pass
tell()
time.sleep(1000)
"""
OPENED = """
import os, time
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(900)]
tell()
time.sleep(1000)
"""
QUEUED = """
import ctypes, time
kept = [ctypes.CDLL(None).inotify_init() for _ in range(10)]
assert -1 not in kept
tell()
time.sleep(1000)
"""
SHUT = """
import ctypes
assert not ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
"""


def who_takes_what_all_programs_share_is_ended() -> None:
    """Here little is taken for all that there is: to take all in truth would stop other tests."""
    is_ended("epoll watches", WATCHING, 10_000)
    is_ended("TCP buffers", BUFFERED, 2 << 20)


def who_takes_the_users_inotify_queues_is_ended() -> None:
    """Each may have half of what the user has."""
    is_ended("inotify queues", QUEUED, 20)
    is_ended("inotify queues", SHUT + QUEUED, 20 if os.geteuid() == 0 else most_queues())


def what_nobody_has_accepted_or_sent_counts() -> None:
    """No program holds either side of these connections."""
    is_ended("TCP buffers", UNTAKEN, 2 << 20)
    is_ended("closed unsent", UNTAKEN, 200)


def who_opens_most_of_the_machines_files_is_ended() -> None:
    is_ended("open files", OPENED, 2_000)
    is_ended("open files", SHUT + OPENED, 2_000)


def nobody_hides_what_he_takes_by_being_shut() -> None:
    """Root can look into every process."""
    is_ended("epoll watches", SHUT + WATCHING, 10_000 if os.geteuid() == 0 else most_watches())
    is_ended("TCP buffers", SHUT + BUFFERED, 2 << 20)


def is_ended(name: str, command: str, most: int) -> None:
    with opened() as session:
        bystander = session.start("sleep 1000", timeout=80)
        taker = session.start([*PYTHON, TELL + command], timeout=80)
        told()
        finder = finder_of(session)
        assert not list(finder.find())
        meter = next(each for each in finder.meters if name in each.what)
        finder.meters = [meter._replace(is_short=lambda: True, most=partial(int, most))]
        result = taker.wait()
        assert result.signal == signal.SIGKILL, result
        assert [name in each.why for each in result.violations] == [True], result
        assert not list(finder.find())
        bystander.cancel()
        assert not bystander.wait().violations


def told() -> str:
    """What a command has told, once it has."""
    wait_until(lambda: os.path.exists("told"))
    with open("told") as file:
        words = file.read()
    os.unlink("told")
    return words


def finder_of(session: pinfold.Session) -> OveruseFinder:
    pens = session.sandboxes._pens
    assert isinstance(pens, LinuxSession)
    wait_until(lambda: pens.overuse)
    assert pens.overuse
    return pens.overuse


PROBES = probes_of(globals(), "told", "finder_of", "is_ended")

if __name__ == "__main__":
    run(globals())
