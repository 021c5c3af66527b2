"""What sockets must not do inside a pen: each function runs in a child, as root and as an ordinary user."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pinfold.model.policy import SandboxPolicy
from tests.patience import wait_until
from tests.probe_module import PYTHON, probes_of, run
from tests.sandbox.probes.pen import READ_ONLY, WORKSPACE, Bench
from tests.sandbox.probes.sockets import python

ROUNDS = 600
"""How often a race is run."""
KINDS = {"stream": socket.SOCK_STREAM, "seqpacket": socket.SOCK_SEQPACKET, "datagram": socket.SOCK_DGRAM}


class Host:
    """Sockets of the host, and whether anything ever reached them."""

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}

    def serve(self, path: str, kind: int = socket.SOCK_STREAM) -> str:
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(path)
        if kind != socket.SOCK_DGRAM:
            server.listen(1000)
        server.setblocking(False)
        self.sockets[path] = server
        return path

    def reached(self) -> list[str]:
        return [path for path, server in self.sockets.items() if _heard(server)]

    def close(self) -> None:
        for server in self.sockets.values():
            server.close()


def _heard(server: socket.socket) -> bool:
    try:
        if server.type == socket.SOCK_DGRAM:
            server.recv(1)
        else:
            server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@contextmanager
def host() -> Iterator[Host]:
    one = Host()
    try:
        yield one
    finally:
        one.close()


REACH = """
import errno, os, socket, sys
def answer(act):
    try: act()
    except OSError as error: return errno.errorcode.get(error.errno)
    return "REACHED"
def attempts(path):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        yield answer(lambda: socket.socket(socket.AF_UNIX, kind).connect(path))
        yield answer(lambda: socket.socket(socket.AF_UNIX, kind).sendto(b"x", path))
        yield answer(lambda: socket.socket(socket.AF_UNIX, kind).sendmsg([b"x"], [], 0, path))
        pair = socket.socketpair(socket.AF_UNIX, kind)[0]
        yield answer(lambda: pair.connect(path))
        if kind == socket.SOCK_STREAM: yield answer(lambda: pair.sendto(b"x", path))
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        yield answer(lambda: socket.socket(socket.AF_UNIX, kind).sendto(b"x", path))
        yield answer(lambda: socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", path))
for path in sys.argv[1:]:
    found = list(attempts(path))
    assert "REACHED" not in found, (path, found)
    print(*sorted(set(found)))
"""


def sockets_of_the_host_are_closed() -> None:
    home = os.environ["HOME"]
    with host() as outside:
        paths = [
            outside.serve(f"{place}/{name}", kind)
            for place in (home, os.getcwd())
            for name, kind in KINDS.items()
        ]
        abstract = outside.serve(f"\0pinfold-{os.getpid()}")
        for name in KINDS:
            os.symlink(f"{home}/{name}", f"link-{name}")
            os.link(name, f"hard-{name}")
        bench = Bench()
        bench.out("true")
        late = [outside.serve(f"late-{name}", kind) for name, kind in KINDS.items()]
        links = [f"{how}-{name}" for how in ("link", "hard") for name in KINDS]
        for policy in (WORKSPACE, READ_ONLY):
            python(bench, REACH, *paths, *late, *links, policy=policy)
        # renamed, linked and reached by a descriptor inside
        bench.out("ln stream mine && mv late-stream moved && ln -s mine soft")
        inside = """
import os, socket, sys
inode = os.open("stream", os.O_PATH); here = os.open(".", os.O_PATH)
own, work = f"/proc/{os.getpid()}", os.getcwd()
sys.argv[1:] = ["mine", "moved", "soft", f"/proc/self/fd/{inode}", f"/proc/self/fd/{here}/stream",
    "/proc/self/cwd/stream", f"/dev/fd/{inode}", f"{own}/fd/{inode}", f"{own}/root{work}/stream",
    f"/proc/1/root/host{work}/stream", f"/proc/1/cwd/host{work}/stream"]
"""
        python(bench, inside + REACH)
        assert not outside.reached()
        result = bench.run([PYTHON, "-c", REACH, paths[0], "late-seqpacket"])
        told = {(one.operation, one.path, one.grantable) for one in result.violations}
        assert told == {
            ("connect", paths[0], True),
            ("connect", f"{bench.work}/late-seqpacket", True),
        }, result.violations
        name = abstract[1:]
        bench.fails(
            f"{PYTHON} -c \"import socket; socket.socket(socket.AF_UNIX).connect(b'\\0{name}')\"", "refused"
        )
        assert not outside.reached()


def granted_sockets_are_open() -> None:
    home = os.environ["HOME"]
    os.mkdir(f"{home}/in")
    with host() as outside:
        granted = [outside.serve(f"{home}/in/granted"), outside.serve("granted")]
        granted[1] = os.path.realpath(granted[1])
        outside.serve(f"{home}/in/other")
        if os.geteuid() == 0:
            granted.append(outside.serve(f"/run/pinfold-{os.getpid()}"))
        bench = Bench()
        policy = SandboxPolicy(type=WORKSPACE.type, unix_sockets=(*granted, f"{home}/none"))
        ask = "import socket, sys\nfor path in sys.argv[1:]: socket.socket(socket.AF_UNIX).connect(path)"
        python(bench, ask, *granted, policy=policy)
        for path in granted:
            assert _heard(outside.sockets.get(path) or outside.sockets["granted"]), path
        python(bench, REACH, f"{home}/in/other", policy=policy)
        python(bench, REACH, granted[0])
        # No other socket of the host gets the name.
        outside.serve("mine")
        bench.fails(f"{PYTHON} -c \"import os; os.rename('mine', 'granted')\"", "busy", policy)
        bench.fails("rm granted", "busy", policy)
        assert not outside.reached()
        if os.geteuid() == 0:
            os.unlink(f"/run/pinfold-{os.getpid()}")


def a_granted_socket_that_the_host_makes_anew_is_open_to_the_next_command() -> None:
    home = os.environ["HOME"]
    path = f"{home}/s"
    policy = SandboxPolicy(type=WORKSPACE.type, unix_sockets=(path,))
    bench = Bench()
    ask = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    for _ in range(2):
        with host() as outside:
            outside.serve(path)
            python(bench, ask, path, policy=policy)
            assert outside.reached() == [path]
        os.unlink(path)


def a_number_that_comes_back_is_not_the_same_socket() -> None:
    bench = Bench()
    with host() as outside:
        for number in range(100):
            python(
                bench, "import os, socket\ns = socket.socket(socket.AF_UNIX); s.bind('s')\nos.unlink('s')"
            ) if number % 10 == 0 else None
            outside.serve(f"host{number}")
        python(bench, REACH, *(f"host{number}" for number in range(100)))
        assert not outside.reached()


SWAP = """
import ctypes, os, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
rounds, victim = int(sys.argv[1]), sys.argv[2]
stop = False
def unix(path): return b"\\1\\0" + os.fsencode(path) + b"\\0"
mine = socket.socket(socket.AF_UNIX); mine.bind("/tmp/mine"); mine.listen(10000)
"""


def a_path_swapped_during_connect_reaches_no_host_socket() -> None:
    with host() as outside:
        victim = outside.serve(f"{os.environ['HOME']}/victim")
        bench = Bench()
        program = f"""{SWAP}
os.symlink("/tmp/mine", "/tmp/good"); os.symlink(victim, "/tmp/bad")
os.symlink("/tmp/mine", "/tmp/path")
buffer = ctypes.create_string_buffer(unix("/tmp/mine") + bytes(108))
good, bad = unix("/tmp/mine"), unix(victim)
def swap_path():
    number = 0
    while not stop:
        number += 1
        os.symlink(victim if number % 2 else "/tmp/mine", "/tmp/new"); os.rename("/tmp/new", "/tmp/path")
def swap_address():
    while not stop:
        ctypes.memmove(buffer, bad, len(bad)); ctypes.memmove(buffer, good, len(good))
threads = [threading.Thread(target=one) for one in (swap_path, swap_address)]
[one.start() for one in threads]
made = 0
for _ in range(rounds):
    for address in (unix("/tmp/path"), buffer):
        with socket.socket(socket.AF_UNIX) as client:
            made += libc.connect(client.fileno(), address, 2 + max(len(victim), 20)) == 0
stop = True
[one.join() for one in threads]
print(made)
"""
        made = int(python(bench, program, str(ROUNDS), victim))
        assert 0 < made < 2 * ROUNDS, made
        assert not outside.reached()


def a_descriptor_swapped_during_connect_reaches_no_host_socket() -> None:
    with host() as outside:
        victim = outside.serve(f"{os.environ['HOME']}/victim")
        bench = Bench()
        program = f"""{SWAP}
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(10000)
inet = b"\\2\\0" + server.getsockname()[1].to_bytes(2, "big") + b"\\x7f\\0\\0\\1" + bytes(8)
buffer = ctypes.create_string_buffer(inet + bytes(200))
bad = unix(victim)
slot = 100
def swap():
    while not stop:
        for kind, address in ((socket.AF_UNIX, bad), (socket.AF_INET, inet)):
            with socket.socket(kind) as one:
                os.dup2(one.fileno(), slot)
                ctypes.memmove(buffer, address, len(address))
thread = threading.Thread(target=swap); thread.start()
made = 0
while not os.path.exists(f"/proc/self/fd/{{slot}}"): pass
for _ in range(rounds):
    made += libc.connect(slot, buffer, 2 + len(victim)) == 0
stop = True
thread.join()
print(made)
"""
        made = int(python(bench, program, str(5 * ROUNDS), victim))
        assert made > 0
        assert not outside.reached()


def protected_names_are_not_made_by_bind() -> None:
    os.makedirs(".git/info")
    os.mkdir("plain")
    home = os.environ["HOME"]
    bench = Bench()
    program = f"""
import errno, os, socket, sys
for path in (".git/hooks", ".git/config", ".vscode", "plain/.vscode", ".GIT/hooks", "plain/../.bashrc",
             ".git/info/attributes", "plain/x.code-workspace"):
    try: socket.socket(socket.AF_UNIX).bind(path)
    except OSError as error: print(errno.errorcode[error.errno])
    else: print("MADE", path)
for path in ({home + "/s"!r}, "/usr/s", "/s", "/proc/self/s", "/run/s", "/dev/s", "/sys/s",
             "/proc/1/root/tmp/s", "/proc/1/root/host" + {home + "/s"!r},
             "/proc/2/root" + os.getcwd() + "/s"):
    try: socket.socket(socket.AF_UNIX).bind(path)
    except OSError as error: pass
    else: print("MADE", path)
"""
    result = bench.run([PYTHON, "-c", program])
    assert result.exit_code == 0, result
    text = result.stdout.decode()
    assert "MADE" not in text, text
    assert set(text.split()) <= {"EROFS", "ENOENT"} and "EROFS" in text, text
    assert not os.path.exists(f"{home}/s") and not os.path.exists(".vscode")
    told = {(one.operation, one.path, one.rule) for one in result.violations}
    assert ("bind", f"{bench.work}/.vscode", ".vscode") in told, told
    assert ("bind", f"{home}/s", "") in told, told


def a_path_swapped_during_bind_makes_no_protected_name() -> None:
    os.makedirs(".git/info")
    os.makedirs("plain/info")
    home = os.environ["HOME"]
    bench = Bench()
    program = f"""{SWAP}
os.symlink("plain", "way")
names = [b"way/hooks", b"way/config", b"way/free", b"way/info/attributes"]
def swap():
    number = 0
    while not stop:
        number += 1
        os.symlink((".git", "plain", victim)[number % 3], "new"); os.rename("new", "way")
thread = threading.Thread(target=swap); thread.start()
made = 0
for number in range(rounds):
    with socket.socket(socket.AF_UNIX) as one:
        name = names[number % 4]
        made += libc.bind(one.fileno(), unix(name), len(name) + 3) == 0
    for place in (".git", "plain"):
        try: os.unlink(place + "/free")
        except OSError: pass
stop = True
thread.join()
print(made)
"""
    made = int(python(bench, program, str(ROUNDS), home))
    assert made > 0
    assert os.listdir(".git") in (["info"], ["info", "free"], ["free", "info"]) and not os.listdir(
        ".git/info"
    )
    assert not os.path.exists(f"{home}/free") and os.listdir(home) == []


def a_pen_does_not_act_by_way_of_another() -> None:
    """Another pen of the session may write more; its processes are not visible in /proc, whatever their
    ids."""
    bench = Bench()
    server = """
import os, socket, time
if os.fork() == 0:
    server = socket.socket(socket.AF_UNIX); server.bind("other"); server.listen()
    with open("pid", "w") as file: file.write(str(os.getpid()))
    os.rename("pid", "ready"); time.sleep(1000)
"""
    python(bench, server)
    wait_until(lambda: os.path.exists("ready"))
    program = """
import errno, os, socket
with open("ready") as file: other = file.read()
for way in ("root" + os.getcwd(), "cwd"):
    for call, name in (("bind", "made"), ("connect", "other")):
        try: getattr(socket.socket(socket.AF_UNIX), call)(f"/proc/{other}/{way}/{name}")
        except OSError as error: print(errno.errorcode[error.errno])
        else: print("REACHED", call)
"""
    text = python(bench, program, policy=READ_ONLY)
    assert len(text.split()) == 4 and set(text.split()) <= {"ENOENT", "EPERM", "EACCES", "ELOOP"}, text
    assert not os.path.exists("made")


def paths_of_descriptors_lead_nowhere_else() -> None:
    """A path that looks like a descriptor's is the program's own text, and is walked like any path."""
    bench = Bench()
    program = f"""
import errno, os, socket, sys
def told(path):
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError as error: return errno.errorcode[error.errno]
assert told("/etc/passwd") in ("ECONNREFUSED", "EACCES")
for start in ("/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"):
    for name in ("x", "", "-1", "1x"):
        for way in ("", "../../", "../../../", "../" * 20):
            for path in ("etc", "etc/passwd", "comm", "fd/0", "self", "1", "{os.getpid()}/comm"):
                found = told(f"{{start}}/{{name}}/{{way}}{{path}}")
                assert found == "ENOENT", (start, name, way, path, found)
"""
    python(bench, program)


def numbers_that_no_descriptor_has_leave_nothing_open() -> None:
    """A socket that another process has open does not end for its other side."""
    bench = Bench()
    program = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
for number in (2**31, 2**32, 2**63, 2**64, 10**30):
    for start in ("/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"):
        for path in (f"{start}/{number}", f"{start}/{number}/x"):
            one, other = socket.socketpair()
            assert one.connect_ex(path), path
            one.close()
            other.settimeout(5)
            assert other.recv(1) == b"", path
            assert libc.linkat(-100, path.encode(), -100, b"new", 0x400) < 0, path
"""
    python(bench, program)


PROBES = probes_of(globals(), "host")

if __name__ == "__main__":
    run(globals())
