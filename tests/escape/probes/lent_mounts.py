"""Commands of one session that try to lend each other their mounts: each function runs in a child of the
tests, as root and as an ordinary user, in a workspace of its own. Its name says what must hold.

A descriptor keeps the mounts of the pen that opened it, and loses what is mounted in them when that pen ends.
So none may come from one pen into another, by whatever way.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import wait_until
from tests.probe_module import PYTHON, probes_of, run
from tests.processes import processes_of, status_of, wardens_of
from tests.sandbox.probes.pen import READ_ONLY, WORKSPACE, Bench
from tests.session.probes.run import opened

from pinfold.model.policy import SandboxPolicy
from pinfold.policy.shipped_protected import name_rules
from pinfold.sandbox.backend import Found, RunningCommand, StartRequest
from pinfold.sandbox.linux.host.warden_client import WardenClient
from pinfold.sandbox.linux.protocol.command import BUILDER

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
LEFT = f"""{COMMON}
told("left", str(os.getpid()))
time.sleep(1000)
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

    def start(self, program: str, *arguments: str, policy: SandboxPolicy = WORKSPACE) -> RunningCommand:
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


def no_grant_of_a_socket_leads_into_another_pen() -> None:
    bench = Pens()
    granting = SandboxPolicy(type=WORKSPACE.type, unix_sockets=(f"{bench.work}/s",))
    with listening(bench, "s", "SOCK_STREAM"):
        for policy in (granting, WORKSPACE):
            bench.another()
            result = bench.run([PYTHON, "-c", CONNECT, "s", "SOCK_STREAM"], policy)
            assert result.stdout == b"PermissionError\n", result
            (refused,) = result.violations
            assert not refused.grantable and "start it again" in refused.why


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


def nobody_sees_the_processes_of_another_pen() -> None:
    """What mountinfo tells of them is what is hidden there."""
    bench = Pens()
    seen = (
        "for f in mountinfo mounts mountstats cmdline limits; do cat /proc/{}/$f >/dev/null && echo $f; done"
    )
    left = bench.start(LEFT)
    wait_until(lambda: os.path.exists("left"))
    with open("left") as file:
        pid = file.read()
    assert len(bench.out(f"{seen.format(pid)}; true").split()) == 5
    for policy in (WORKSPACE, READ_ONLY):
        bench.another()
        assert (
            bench.out(
                f"({seen.format(pid)}; {seen.format(1)}) 2>/dev/null; ls /proc | grep -wF -e {pid}; true",
                policy,
            )
            == ""
        )
        assert len(bench.out(seen.format("self"), policy).split()) == 5
        # It is no stranger: who knows its number may end it.
        assert bench.out(f"kill -0 {pid} && echo here", policy) == "here\n"
    bench.out(f"kill {pid}")
    assert left.wait().signal == 15


def what_runs_on_under_other_rules_is_named_once() -> None:
    with opened({"filesystem": {"git_writes": True}}) as session:
        left = session.run("sleep 1001 >/dev/null & echo $!").stdout.strip()
        session.run("sleep 0.01 & wait")
        assert session.run("true").left_running == ()
        session.change({"filesystem": {"git_writes": False}})
        (said,) = session.run("true").left_running
        assert "`sleep 1001 >/dev/null & echo $!` still runs" in said
        assert said.endswith(f"`kill {left}`")
        assert session.run("true").left_running == ()
        assert session.run(f"kill {left}").exit_code == 0
        session.change({"filesystem": {"git_writes": True}})
        wait_until(lambda: session.run(f"kill -0 {left}").exit_code == 1)
        session.change({"filesystem": {"git_writes": False}})
        assert session.run("true").left_running == ()


def an_idle_pen_stays_while_something_runs_in_it() -> None:
    bench = Pens()
    left = bench.out("sleep 1001 >/dev/null & echo $!").strip()
    ((_, pen),) = bench.session.pens

    def tended() -> bool:
        pen.idle_since = 0.0
        bench.session.tend(300)
        return [each for _, each in bench.session.pens] == [pen]

    assert tended()
    bench.out(f"kill {left}")
    wait_until(lambda: not tended())


def pens_that_are_forced_leave_nothing_behind() -> None:
    bench = Pens()
    names = [f"{bench.work}/{number}" for number in range(2)]
    for name in names:
        os.mkdir(name)

    def forced(rounds: int) -> tuple[int, int, int]:
        """How many processes and descriptors there are after so many new pens."""
        for number in range(rounds):
            bench.hides = [names[number % 2]]
            bench.session.look_again()
            bench.out("true")
        keeper = bench.session.keeper.pid
        bench.session.close_idle()
        wait_until(lambda: len(wardens_of(keeper)) == 1)
        processes = [pid for pid in processes_of(keeper) if status_of(pid).name != BUILDER]
        return len(processes), len(os.listdir(f"/proc/{keeper}/fd")), len(os.listdir("/proc/self/fd"))

    few = forced(10)
    many = forced(60)
    # The next pen's builder comes and goes, with two descriptors of the keeper's.
    assert all(after <= before + 2 for before, after in zip(few, many, strict=True)), (few, many)


def nothing_is_kept_of_pens_that_have_ended() -> None:
    """Nor of the input that their commands had. Each policy is another, as where settings change."""
    names = [os.path.abspath(f"hidden{number}") for number in range(25)]

    def kept() -> tuple[int, int]:
        known = gc.get_objects()
        inputs = [each.stdin for each in known if isinstance(each, StartRequest)]
        return (
            sum(isinstance(each, WardenClient) for each in known),
            sum(len(each) for each in inputs if isinstance(each, bytes)),
        )

    with opened({"network": {"access": "rules", "allow": ["a.example"]}}) as session:
        for name in names:
            session.change({"filesystem": {"hide": [name]}})
            assert session.run("cat >/dev/null", stdin=b"x" * 100_000).exit_code == 0
        pens, contents = kept()
        # The one that the last command began in, and those that no round has closed yet.
        assert pens < 5 and contents < 500_000, (pens, contents)


PROBES = probes_of(globals(), "listening")

if __name__ == "__main__":
    run(globals())
