"""What works with sockets inside a pen: each function runs in a child, as root and as an ordinary user."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile

from pinfold.model.policy import SandboxPolicy
from tests.patience import wait_until
from tests.probe_module import OPEN, PYTHON, probes_of, run
from tests.processes import wardens_of
from tests.sandbox.probes.pen import READ_ONLY, WORKSPACE, Bench


def python(bench: Bench, program: str, *arguments: str, policy: SandboxPolicy = WORKSPACE) -> str:
    return bench.out([PYTHON, "-c", program, *arguments], policy)


def wardens() -> list[int]:
    """The wardens of the keepers that we started."""
    benches = [each for each in OPEN if isinstance(each, Bench)]
    keepers = {bench.backend.keeper.pid for bench in benches if bench.backend.keeper}
    return [warden for keeper in keepers for warden in wardens_of(keeper)]


# what works

ECHO = """
import os, socket, struct, sys, threading

def serve(server):
    while True:
        peer, _ = server.accept()
        with peer:
            if said := peer.recv(100):
                peer.sendall(said.upper())

def round_trip(kind, address, connect_to=None):
    server = socket.socket(socket.AF_UNIX, kind)
    server.bind(address)
    server.listen()
    assert address == "" or server.getsockname() == address, (server.getsockname(), address)
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    for _ in range(3):
        with socket.socket(socket.AF_UNIX, kind) as client:
            client.connect(connect_to or server.getsockname())
            assert client.getpeername() == server.getsockname()
            client.sendall(b"hello")
            assert client.recv(100) == b"HELLO"
    return server
"""


def servers_on_every_kind_of_name() -> None:
    bench = Bench()
    os.makedirs("deep/er")
    os.symlink("deep", "link")
    program = f"""{ECHO}
work = os.getcwd()
for number, kind in enumerate((socket.SOCK_STREAM, socket.SOCK_SEQPACKET)):
    places = (work, work + "/deep/er", "/tmp", "/var/tmp", "/dev/shm", ".", "deep/../deep", "link")
    for count, place in enumerate(places):
        round_trip(kind, f"{{place}}/s{{number}}{{count}}")
    round_trip(kind, f"relative{{number}}", f"{{work}}/relative{{number}}")
    os.symlink(f"relative{{number}}", f"leads{{number}}")
    round_trip(kind, f"other{{number}}", f"./link/../other{{number}}")
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.connect(f"leads{{number}}")
    round_trip(kind, b"\\0abstract\\0name%d" % number)
    round_trip(kind, "")
held = os.open("deep", os.O_PATH)
long = f"/proc/self/fd/{{held}}/er/long"
with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
    server.bind("deep/er/long")
    server.listen()
    client.connect(long)
    inode = os.open("deep/er/long", os.O_PATH)
    for path in (f"/proc/self/fd/{{inode}}", f"/proc/self/fd/{{held}}//er/long"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
print("done")
"""
    assert python(bench, program) == "done\n"


def what_peers_see_of_each_other() -> None:
    bench = Bench()
    program = """
import array, os, socket, struct
def cred(sock): return struct.unpack("=iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind("s"); server.listen(); client.connect("s")
peer, _ = server.accept()
us = os.getuid(), os.getgid()
assert cred(client) == (os.getpid(), *us), cred(client)
assert cred(peer)[1:] == us, cred(peer)
print("pid", cred(peer)[0])
peer.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
out, into = os.pipe()
socket.send_fds(client, [b"x"], [into])
data, rights, _, _ = peer.recvmsg(10, 1000)
found = {kind: content for _, kind, content in rights}
assert struct.unpack("=iII", found[socket.SCM_CREDENTIALS]) == (os.getpid(), *us)
passed = array.array("i", found[socket.SCM_RIGHTS])[0]
os.write(passed, b"through")
print(os.read(out, 10).decode())
"""
    assert python(bench, program) == "pid 0\nthrough\n"


def a_pidfd_of_the_peer_is_no_handle_on_the_warden() -> None:
    bench = Bench()
    program = """
import ctypes, os, signal, socket, struct
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind("s"); server.listen(); client.connect("s")
peer, _ = server.accept()
try:
    (pidfd,) = struct.unpack("=i", peer.getsockopt(socket.SOL_SOCKET, 77, 4))
except OSError as error:
    print("none"); raise SystemExit
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(424, pidfd, signal.SIGKILL, None, 0) == -1
assert libc.syscall(438, pidfd, 0, 0) == -1
assert libc.syscall(308, pidfd, 0) == -1
for request in range(0xFF01, 0xFF0B):
    assert libc.ioctl(pidfd, request, 0) == -1, request
print("none")
"""
    assert python(bench, program) == "none\n"
    bench.out("mkdir still-there")


def the_next_command_of_the_pen_connects_and_others_do_not() -> None:
    bench = Bench()
    server = f"""{ECHO}
if os.fork() == 0:
    os.setsid()
    for name in ("s", "/tmp/s"):
        round_trip(socket.SOCK_STREAM, name)
    open("ready", "w").close()
    import time; time.sleep(1000)
"""
    python(bench, server)
    wait_until(lambda: os.path.exists("ready"))
    ask = (
        "import socket, sys\n"
        "c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.sendall(b'x'); print(c.recv(9))"
    )
    for name in ("s", "/tmp/s", f"{bench.work}/s"):
        assert python(bench, ask, name) == "b'X'\n"
        refused = bench.run([PYTHON, "-c", ask, name], READ_ONLY)
        assert refused.exit_code and b"Permission denied" in refused.stderr, refused
        assert "in another sandbox" in refused.violations[0].why
    bench.session.look_again()
    assert python(bench, ask, "s") == "b'X'\n"
    other = bench.backend.open_session([bench.work])
    refused = other.run(bench.request([PYTHON, "-c", ask, "s"]))
    assert refused.exit_code and b"Permission denied" in refused.stderr, refused


def a_manager_of_multiprocessing() -> None:
    bench = Bench()
    with open("managed.py", "w") as file:
        file.write(
            "import multiprocessing as m\n"
            "def work(shared, number): shared[number] = number * number\n"
            "if __name__ == '__main__':\n"
            "    m.set_start_method('spawn')\n"
            "    with m.Manager() as manager:\n"
            "        shared = manager.dict()\n"
            "        workers = [m.Process(target=work, args=(shared, n)) for n in range(3)]\n"
            "        [w.start() for w in workers]; [w.join() for w in workers]\n"
            "        print(sorted(shared.values()))\n"
        )
    assert bench.out([PYTHON, "managed.py"]) == "[0, 1, 4]\n"


def a_web_server_and_curl_in_the_next_command() -> None:
    bench = Bench()
    with open("page", "w") as file:
        file.write("hello")
    bench.out(f"{PYTHON} -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 & true")
    line = "curl -s --retry 20 --retry-connrefused --retry-delay 0 http://127.0.0.1:8123/page"
    line += " || { sleep 0.3; curl -s http://localhost:8123/page; }"
    for policy in (WORKSPACE, READ_ONLY):
        assert bench.out(line, policy) == "hello"


def tmux_and_ssh_agent() -> None:
    bench = Bench()
    if shutil.which("tmux"):
        bench.out("tmux -f /dev/null new-session -d -s one 'sleep 1000' && tmux ls | grep one")
        assert "one" in bench.out("tmux ls")
        bench.out("tmux kill-server")
    if shutil.which("ssh-agent"):
        bench.out('eval "$(ssh-agent -s)" >/dev/null; ssh-add -l; test $? = 1 && ssh-agent -k')


def postgres() -> None:
    server = shutil.which("postgres")
    try:
        named = pwd.getpwuid(os.geteuid()).pw_uid
    except KeyError:
        named = 0
    if not server or not named:
        print("no postgres, or it refuses us: root, or a user without a name")
        sys.exit(77)
    bench = Bench()
    programs = os.path.dirname(os.path.realpath(server))
    keep = SandboxPolicy(type=WORKSPACE.type)
    bench.out(f"PATH={programs}:$PATH; initdb -D data -U me -A trust >/dev/null", keep)
    bench.out(
        f"PATH={programs}:$PATH; pg_ctl -D data -w -o '-k {bench.work} -p 5555' -l log start >/dev/null"
    )
    for where in (bench.work, "127.0.0.1"):
        assert "42" in bench.out(f"psql -h {where} -p 5555 -U me -d postgres -c 'select 6*7'")
    bench.out(f"PATH={programs}:$PATH; pg_ctl -D data -m fast stop")


def datagrams_and_netlink() -> None:
    bench = Bench()
    program = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for family, name in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.socket(family, socket.SOCK_DGRAM); server.bind((name, 0))
    client = socket.socket(family, socket.SOCK_DGRAM); client.connect(server.getsockname())
    client.send(b"connected"); assert server.recv(99) == b"connected"
    assert libc.connect(client.fileno(), bytes(16), 16) == 0, "dissolved"
    try: client.getpeername()
    except OSError as error: assert error.errno == 107
    client.sendto(b"addressed", server.getsockname()); assert server.recv(99) == b"addressed"
    client.connect(server.getsockname()); client.send(b"again"); assert server.recv(99) == b"again"
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
link.bind((0, 0)); link.connect((0, 0))
print(socket.if_nameindex())
"""
    assert python(bench, program) == "[(1, 'lo')]\n"


def odd_calls_are_answered_as_the_kernel_would() -> None:
    with open(os.path.join(os.path.dirname(__file__), "socket_oddities.py")) as file:
        program = file.read()
    bench = Bench()
    os.mkdir("pen")
    inside = bench.out([PYTHON, "-c", program], cwd=f"{bench.work}/pen").splitlines()
    with tempfile.TemporaryDirectory(dir=".") as bare:
        done = subprocess.run([PYTHON, "-c", program], cwd=bare, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outside = done.stdout.splitlines()
    if os.geteuid() == 0:  # a user whose directory / is not, inside
        outside = [line.replace("ECONNREFUSED", "EACCES") if "b'/' " in line else line for line in outside]
    differ = [pair for pair in zip(outside, inside, strict=True) if pair[0] != pair[1]]
    assert not differ, differ
    assert len(inside) > 120


# many at once

BLOCKED = """
import os, socket, sys, threading, time
server = socket.socket(socket.AF_UNIX); server.bind("full"); server.listen(0)
first = socket.socket(socket.AF_UNIX); first.connect("full")
def one():
    client = socket.socket(socket.AF_UNIX); client.connect("full"); done.append(client)
done = []
threads = [threading.Thread(target=one, daemon=True) for _ in range(100)]
[thread.start() for thread in threads]
time.sleep(0.3)
"""


def waiting_connects_do_not_block_others() -> None:
    bench = Bench()
    program = f"""
import os, statistics, time
def once(name):
    began = time.perf_counter(); os.mkdir(name); return time.perf_counter() - began
for turn in range(5):  # another program may take the processor in one of them, and not in all
    before = statistics.median(once(f"a{{turn}}-{{number}}") for number in range(200))
    exec({BLOCKED!r})
    meanwhile = statistics.median(once(f"b{{turn}}-{{number}}") for number in range(200))
    assert not done
    kept = [server.accept() for _ in range(101)]
    [thread.join(30) for thread in threads]
    assert len(done) == 100
    if meanwhile < 5 * before + 0.002: break
    os.unlink("full")
else: raise AssertionError((before, meanwhile))
print("fine")
"""
    assert python(bench, program) == "fine\n"
    wait_until(lambda: threads_of_wardens() <= 3)


def threads_of_wardens() -> int:
    return max((len(os.listdir(f"/proc/{pid}/task")) for pid in wardens()), default=0)


def a_command_that_is_killed_leaves_no_thread() -> None:
    bench = Bench()
    command = bench.session.start(
        bench.request([PYTHON, "-c", f"{BLOCKED}\nopen('ready', 'w')\ntime.sleep(1000)"])
    )
    wait_until(lambda: os.path.exists("ready"))
    wait_until(lambda: threads_of_wardens() > 100)
    command.cancel()
    command.wait()
    wait_until(lambda: threads_of_wardens() <= 3)
    assert (
        python(bench, "import socket; s = socket.socket(socket.AF_UNIX); s.bind('new'); print('fine')")
        == "fine\n"
    )


def signals_do_not_undo_a_connect() -> None:
    """A timer that fires all the time, as Go's does."""
    bench = Bench()
    program = """
import signal, socket
signal.signal(signal.SIGALRM, lambda *_: None)
server = socket.create_server(("127.0.0.1", 0), backlog=1000)
paths = socket.socket(socket.AF_UNIX); paths.bind("s"); paths.listen(1000)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
inet = b"\\2\\0" + server.getsockname()[1].to_bytes(2, "big") + b"\\x7f\\0\\0\\1" + bytes(8)
kept = []
for family, address in ((socket.AF_INET, inet), (socket.AF_UNIX, b"\\1\\0s\\0")) * 100:
    one = socket.socket(family)
    assert libc.connect(one.fileno(), address, len(address)) == 0, ctypes.get_errno()
    kept.append(one)
for number in range(100):
    one = socket.socket(socket.AF_UNIX)
    name = b"\\1\\0n%d\\0" % number
    assert libc.bind(one.fileno(), name, len(name)) == 0, ctypes.get_errno()
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(kept))
"""
    assert python(bench, program) == "200\n"


def threads_of_the_warden_run_anywhere() -> None:
    """Also threads that start while the warden stays on one processor, near a caller."""
    bench = Bench()
    program = """
import os, socket
server = socket.socket(socket.AF_UNIX); server.bind("narrow"); server.listen(0)
first, second = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
first.connect("narrow")
for number in range(200): os.close(os.open(f"made{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
second.connect("narrow")
"""
    command = bench.session.start(bench.request([PYTHON, "-c", program]))
    wait_until(lambda: threads_of_wardens() > 2)
    (warden,) = wardens()
    wait_until(lambda: os.sched_getaffinity(warden) == os.sched_getaffinity(0))
    for thread in os.listdir(f"/proc/{warden}/task"):
        where = os.sched_getaffinity(int(thread))
        assert where == os.sched_getaffinity(0), where
    command.cancel()
    command.wait()


def nothing_leaks() -> None:
    bench = Bench()
    program = """
import os, socket, sys
tcp = socket.create_server(("127.0.0.1", 0), backlog=100)
unix = socket.socket(socket.AF_UNIX); unix.bind("s"); unix.listen(100)
def once(family, address, server):
    with socket.socket(family) as client:
        client.connect(address); server.accept()[0].close()
for number in range(int(sys.argv[1])):
    once(socket.AF_INET, tcp.getsockname(), tcp)
    once(socket.AF_UNIX, "s", unix)
    if number % 20 == 0:
        for name in ("none", "/etc", ".", "/etc/passwd"):
            try: socket.socket(socket.AF_UNIX).connect(name)
            except OSError: pass
            try: socket.socket(socket.AF_UNIX).bind(name)
            except OSError: pass
            else: os.unlink(name)
"""
    python(bench, program, "100")
    (warden,) = wardens()
    before = descriptors_of(warden)
    python(bench, "import os; os.unlink('s')")
    python(bench, program, "5000")
    after = descriptors_of(warden)
    assert after <= max(before + 130, 256), (before, after)


def descriptors_of(pid: int) -> int:
    """How many it has; if we may not look, how many it may have."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        with open(f"/proc/{pid}/status") as file:
            return int(file.read().partition("FDSize:")[2].split()[0])


def wardens_end_with_their_session() -> None:
    bench = Bench()
    python(bench, "import socket; socket.socket(socket.AF_UNIX).bind('s')")
    (warden,) = wardens()
    bench.close()
    wait_until(lambda: not os.path.exists(f"/proc/{warden}"))


PROBES = probes_of(globals(), "python", "wardens", "threads_of_wardens", "descriptors_of")

if __name__ == "__main__":
    run(globals())
