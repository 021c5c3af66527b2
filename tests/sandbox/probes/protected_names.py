"""Names in a pen: each function runs in a child of the tests, as root and as an ordinary user.

Attackers are Python programs, run inside. Those that race have a second thread that swaps what the first
one's calls lead to, as fast as it can.
"""

import os
import shutil
import subprocess
import sys
import time

from pinfold.model.policy import SandboxPolicy
from pinfold.policy.shipped_protected import name_rules
from pinfold.sandbox.backend import CommandResult, Found
from tests.patience import wait_until
from tests.probe_module import PYTHON, probes_of, run
from tests.processes import is_alive, kill, wardens_of
from tests.sandbox.probes.pen import WORKSPACE, Bench

SEMANTICS = os.path.join(os.path.dirname(__file__), "name_semantics.py")
PRELUDE = """
import ctypes, errno, os, stat, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def refused(action, *codes):
    try:
        action()
    except OSError as error:
        assert error.errno in (codes or (errno.EROFS, errno.EBUSY, errno.EACCES)), (action, error)
    else:
        raise AssertionError("it was made")
def exchange(one, two):
    number = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
    if libc.syscall(number, -100, os.fsencode(one), -100, os.fsencode(two), 2) < 0:
        raise OSError(ctypes.get_errno(), one)
"""


def python(bench: Bench, program: str, policy: SandboxPolicy = WORKSPACE, **more: object) -> CommandResult:
    """The result of a program that must succeed."""
    result = bench.run([PYTHON, "-c", PRELUDE + program], policy, **more)
    assert result.exit_code == 0, result
    return result


# names are made as without a pen


def names_are_made_as_without_a_pen() -> None:
    for name in ("bare", "penned"):
        os.mkdir(name)
    bare = subprocess.run([PYTHON, SEMANTICS, "bare"], capture_output=True, check=True).stdout
    bench = Bench()
    with open(SEMANTICS) as file:  # its own directory may be hidden inside
        penned = bench.run([PYTHON, "-c", file.read(), "penned"])
    assert penned.exit_code == 0, penned
    for one, two in zip(bare.splitlines(), penned.stdout.splitlines(), strict=True):
        assert one == two, (one, two)


def tools_work() -> None:
    bench = Bench()
    bench.out("umask 027; mkdir -p a/b/c; touch a/f; install -m 2755 /bin/true a/suid; stat -c %a a a/f")
    bench.out("echo one > f; sed -i s/one/two/ f; grep two f; cp -a a copy; mv copy other; ln -s f l; ln f h")
    bench.out('mkfifo p; (echo through > p &) ; test "$(cat p)" = through')
    bench.out("tar -cf a.tar a && mkdir t && tar -xf a.tar -C t && diff -r a t/a && rm -r t")
    bench.out("f=$(mktemp -p .); d=$(mktemp -d -p .); mv $f $d/x; rm -r $d")
    bench.out(
        "seq 5 | tee list >/dev/null; sort -o list -r list; split -l 2 list part-; cat part-* | head -1"
    )
    bench.out(
        'echo a > dangling-target; ln -s nowhere dangling; echo b > dangling; test "$(cat nowhere)" = b'
    )
    bench.out("echo x > 'sp ace'; cd a && echo y > ../up && test -f ../up")
    bench.out(f"{PYTHON} -c 'import sqlite3; c = sqlite3.connect(\"db\"); c.execute(\"create table t (x)\"); "
              "c.execute(\"insert into t values (1)\"); c.commit()'")  # fmt: skip
    bench.out("exec 3<>/dev/shm/x; echo shm >&3; echo > /dev/null; echo > /dev/stdout; : > /dev/fd/1")


def archives_of_other_people_are_unpacked() -> None:
    import tarfile

    with tarfile.open("theirs.tar", "w") as archive:
        for name, mode in (("theirs", 0o755), ("theirs/file", 0o640)):
            entry = tarfile.TarInfo(name)
            entry.uid, entry.gid, entry.mode, entry.mtime = 12345, 12345, mode, 1_000_000
            entry.type = tarfile.DIRTYPE if mode == 0o755 else tarfile.REGTYPE
            archive.addfile(entry)
    told = Bench().out("tar -xpf theirs.tar && stat -c '%a %u %Y' theirs/file")
    assert told == f"640 {os.getuid()} 1000000\n", told


RUN_AT_ONCE = """
import fcntl, os, sys
program = open("/bin/true", "rb").read()
for number in range(int(sys.argv[2])):
    name, how = f"{sys.argv[1]}/made{number}", (os.O_EXCL, os.O_TRUNC)[number % 2]
    made = os.open(name, how | os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o755)
    fcntl.flock(made, fcntl.LOCK_EX)
    os.write(made, program)
    os.close(made)
    again = os.open(name, os.O_RDONLY)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(again)
    os.waitpid(os.posix_spawn(name, [name], {}), 0)
"""


def what_is_made_can_be_run_at_once() -> None:
    """No other process has it open by then, or locked (`notification.Caller`)."""
    bench = Bench()
    done = bench.run([PYTHON, "-c", RUN_AT_ONCE, os.getcwd(), "100"])
    assert done.exit_code == 0, done.stderr


def tools_that_may_be_missing_work() -> None:
    bench = Bench()
    here = {name: bench.run(f"command -v {name}").exit_code == 0 for name in ("gcc", "make", "node", "git")}
    if here["gcc"] and here["make"]:
        with open("Makefile", "w") as file:
            file.write("all: prog\nprog: a.o b.o\n\tgcc -o prog a.o b.o\n%.o: %.c\n\tgcc -c $<\n")
        with open("a.c", "w") as file:
            file.write("int b(void); int main(void) { return b(); }\n")
        with open("b.c", "w") as file:
            file.write("int b(void) { return 7; }\n")
        assert bench.run("make -j4 >&2 && ./prog").exit_code == 7
    if here["git"]:
        bench.out("cd /tmp && git init -q r && cd r && echo > f && git add f && "
                  "git -c user.name=A -c user.email=a@b commit -qm first")  # fmt: skip
    if here["node"]:
        with open("scaffold.js", "w") as file:
            file.write("const fs = require('fs'); fs.mkdirSync('n/m', {recursive: true});\n")
            file.write(
                "fs.writeFileSync('n/m/package.json', '{}'); fs.renameSync('n/m/package.json', 'n/p')\n"
            )
        bench.out("node scaffold.js")
    bench.out(
        f"{PYTHON} -m venv --without-pip env && env/bin/python -c 'import sys; print(sys.prefix)'", timeout=60
    )


def a_root_among_private_places_is_watched() -> None:
    """Landlock cannot withdraw in a root what it grants above it. So nothing above it grants that either."""
    for place in ("/dev/shm", "/tmp"):
        work = f"{place}/pinfold-{os.getpid()}"
        os.mkdir(work)
        try:
            bench = Bench()
            bench.session = bench.backend.open_session([work], lambda _: Found(names=name_rules(())))
            bench.work = work
            python(
                bench,
                f"""
for path in ("fine", {work!r} + "/also", {place!r} + "/beside", {place!r} + "/.bashrc"):
    open(path, "w").close()
    os.rename(path, path + "2")
for path in (".bashrc", {work!r} + "/.vscode"):
    refused(lambda: open(path, "w"), errno.EROFS)
    refused(lambda: os.mkdir(path), errno.EROFS)
""",
            )
            program = RACE.format(wanted=b".bashrc", innocent=b"innocnt", call=CALLS["open"], count=COUNT)
            python(bench, program, timeout=60.0)
            assert os.path.exists(f"{work}/also2") and not os.path.exists(f"{place}/beside2")
        finally:
            bench.close()
            shutil.rmtree(work)


def signals_do_not_make_a_call_twice() -> None:
    python(
        Bench(),
        """
import signal
seen = 0
def handler(*_):
    global seen
    seen += 1
signal.signal(signal.SIGALRM, handler)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
end = time.monotonic() + 60
for number in range(100):
    before = seen
    while seen == before and number:
        libc.mkdir(b"spin/%d" % number, 0o777)
    assert libc.mkdir(b"d%d" % number, 0o777) == 0, (number, ctypes.get_errno())
    assert time.monotonic() < end
signal.setitimer(signal.ITIMER_REAL, 0)
assert len([name for name in os.listdir(".") if name.startswith("d")]) == 100
""",
    )


def many_callers_are_answered() -> None:
    python(
        Bench(),
        """
def work(number):
    for turn in range(200):
        name = f"{number}-{turn}"
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.rename(name, name + "x")
        os.unlink(name + "x")
children = []
for number in range(8):
    pid = os.fork()
    if pid == 0:
        threads = [threading.Thread(target=work, args=(f"{number}.{each}",)) for each in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
assert os.listdir(".") == []
""",
        timeout=80.0,
    )


def concurrent_changes_are_not_reported_as_denials() -> None:
    """Lock files that come and go, and directories that many make at once: a call that comes too late gets
    the true error, and never a denial."""
    python(
        Bench(),
        """
from collections import Counter
def lock():
    os.close(os.open("lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink("lock")
def whichever():
    kind = heard.total() % 3
    if kind == 0: open("shared", "a").close()
    if kind == 1: open("./by/link", "w").close()
    if kind == 2: open(os.getcwd() + "/by/../shared", "w").close()
def unshared():
    os.unlink("shared")
def lock_directory():
    os.mkdir("locked")
    os.rmdir("locked")
def below():
    kind = heard.total() % 4
    if kind == 0: os.mkdir("above/below")
    if kind == 1: os.close(os.open("above/below", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    if kind == 2: os.symlink("x", os.getcwd() + "/above//below")
    if kind == 3: os.mkdir("above/below/deeper/")
def above():
    os.mkdir("above")
    time.sleep(0.0002)
    os.rename("above", f"gone{heard.total()}")
os.mkdir("by")
os.symlink("../shared", "by/link")
contests = (
    (lock, lock), (lock_directory, lock_directory), (below, below, above), (whichever, whichever, unshared)
)
for actions in contests:
    heard, end = Counter(), time.monotonic() + 1
    def work(action):
        while time.monotonic() < end:
            try:
                action()
                heard[0] += 1
            except OSError as error:
                heard[error.errno] += 1
    threads = [threading.Thread(target=work, args=(action,)) for action in actions]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert heard[0] and set(heard) <= {0, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY}, heard
""",
    )


def processors_stay_as_they_were() -> None:
    """Callers are pinned to the warden's processor for a moment: neither they nor their children notice."""
    bench = Bench()
    python(bench, """
import resource, subprocess
def told():
    with open("/proc/thread-self/status") as file:
        said = [line for line in file if line.startswith("Cpus_allowed")]
    return os.sched_getaffinity(0), said
def child():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if told() == before else 1)
    return os.waitpid(pid, 0)[1]
every = sorted(os.sched_getaffinity(0))
wrong = []
def work(number):
    try:
        if number:
            os.sched_setaffinity(0, [every[0], every[-1], *every][number - 1 : number - 1 + number // 2 + 1])
        mine = told()
        for count in range(300):
            os.close(os.open(f"{number}-{count}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            assert told() == mine, (number, told(), mine)
            if count % 100 == 0:
                said = subprocess.run([sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"],
                                      capture_output=True, text=True, check=True).stdout
                assert said == f"{mine[0]}\\n", (number, said, mine)
    except BaseException as error:
        wrong.append(error)
before = told()
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for each in threads: each.start()
for _ in range(30): assert child() == 0
for each in threads: each.join()
assert not wrong, wrong
assert told() == before
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
for _ in range(20):
    refused(lambda: os.open("too-many", os.O_CREAT | os.O_EXCL | os.O_WRONLY), errno.EMFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
assert os.sched_getaffinity(0) == before[0]
""")  # fmt: skip
    assert not os.path.exists("too-many")
    (warden,) = wardens_of(bench.session.keeper.pid)
    wait_until(lambda: os.sched_getaffinity(warden) == os.sched_getaffinity(0))


def the_warden_keeps_no_descriptors() -> None:
    if os.geteuid():
        print("the warden's descriptors can only be counted by root")
        sys.exit(77)
    bench = Bench()
    bench.out("true")
    (warden,) = wardens_of(bench.session.keeper.pid)
    bench.out("touch a; mkdir b; ln -s x c; ln a d; mv d e; touch .vscode || true")
    before = len(os.listdir(f"/proc/{warden}/fd"))
    for _ in range(3):
        bench.out("for n in $(seq 100); do : > f$n; mkdir d$n/x; ln -s q l$n; mv f$n g$n; : > /no/x; done"
                  " 2>/dev/null; rm -rf g* l*")  # fmt: skip
    after = len(os.listdir(f"/proc/{warden}/fd"))
    # Some callers' status files and directory links stay open.
    assert after <= before + 32 + 32, (before, after)


# protected names


def protected_names_are_not_made() -> None:
    os.mkdir("sub")
    os.mkdir("sub/.git")
    os.mkdir("plain")
    os.symlink("sub/.git", "way")
    bench = Bench()
    python(
        bench,
        """
import socket
open("file", "w").close()
names = [".vscode", "sub/.vscode", ".git/commondir", "sub/.git/gitdir", "sub/.git/info/attributes",
         "x.code-workspace", "sub/X.Code-Workspace.", ".git/x.code-workspace",
         ".VSCode", ".vscode.", ".vs\\u200ccode", "plain/.bashrc", ".git/objects/info/alternates",
         ".git/hooks/pre-commit",
         "way/commondir", "way/config.worktree",
         "./plain/../.vscode", "plain//.mcp.json", ".pinfold", ".pinfold/x"]
os.mkdir(".git")
os.makedirs(".git/objects/info")
for name in names:
    real = os.path.abspath(name)
    for path in (name, real):
        refused(lambda: os.open(path, os.O_CREAT | os.O_WRONLY), errno.EROFS, errno.ENOENT)
        refused(lambda: os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR), errno.EROFS, errno.ENOENT)
        refused(lambda: os.mkdir(path), errno.EROFS, errno.ENOENT)
        refused(lambda: os.mkdir(path + "/"), errno.EROFS, errno.ENOENT)
        refused(lambda: os.symlink("plain", path), errno.EROFS, errno.ENOENT)
        refused(lambda: os.link("file", path), errno.EROFS, errno.ENOENT)
        refused(lambda: os.mkfifo(path), errno.EROFS, errno.ENOENT)
        refused(lambda: os.mknod(path), errno.EROFS, errno.ENOENT)
        refused(lambda: os.rename("file", path), errno.EROFS, errno.ENOENT)
        refused(lambda: os.rename("plain", path), errno.EROFS, errno.ENOENT, errno.EINVAL)
    above = os.path.dirname(name) or "."
    if os.path.isdir(above):
        here = os.open(above, os.O_PATH)
        refused(lambda: os.mkdir(os.path.basename(name), dir_fd=here), errno.EROFS)
    os.symlink(name, "link")
    refused(lambda: os.open("link", os.O_CREAT | os.O_WRONLY), errno.EROFS, errno.ENOENT)
    os.symlink("link", "link2")
    refused(lambda: os.open("link2", os.O_CREAT | os.O_WRONLY), errno.EROFS, errno.ENOENT)
    os.unlink("link"); os.unlink("link2")
    assert not os.path.lexists(name), name
# by a file that has no name yet
unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR)
for flags, source, base in ((0x400, b"/proc/self/fd/%d" % unnamed, -100), (0x1000, b"", unnamed)):
    assert libc.linkat(base, source, -100, b".bashrc", flags) == -1
# by way of /proc
for way in ("/proc/self/cwd", "/proc/self/root" + os.getcwd(), "/proc/thread-self/cwd"):
    refused(lambda: os.mkdir(way + "/.vscode"))
    refused(lambda: os.open(way + "/.vscode", os.O_CREAT | os.O_WRONLY))
    refused(lambda: os.rename(way + "/file", way + "/.vscode"))
    refused(lambda: os.rename("file", way + "/.vscode"))
assert not os.path.lexists(".vscode") and not os.path.lexists(".bashrc")
""",
    )


def directories_do_not_become_protected() -> None:
    bench = Bench()
    python(
        bench,
        """
inside = ("hooks", "HOOKS", "config", "info/attributes", "modules/x/hooks", "objects/info/alternates")
for number, inner in enumerate(inside):
    path = f"x{number}"
    os.makedirs(f"{path}/{inner}")
    refused(lambda: os.rename(path, ".git"))
    refused(lambda: os.rename(path, ".GIT"))
    os.makedirs("sub", exist_ok=True)
    refused(lambda: os.rename(path, "sub/.git"))
    os.mkdir("other")
    os.rename("other", ".git")
    refused(lambda: exchange(path, ".git"))
    refused(lambda: exchange(".git", path))
    os.rmdir(".git")
os.makedirs("info2/attributes")
os.mkdir(".git")
refused(lambda: os.rename("info2", ".git/info"))
os.makedirs("m/x/hooks")
refused(lambda: os.rename("m", ".git/modules"))
os.rename("x0/hooks", "hooks")
refused(lambda: os.rename("hooks", ".git/hooks"))
# neither a link nor a file stands where a directory leads to something protected
refused(lambda: os.symlink("x0", ".git/info"))
os.rmdir(".git")
for make in (lambda: os.symlink("x0", ".git"), lambda: open(".git", "w"), lambda: os.mkfifo(".git")):
    refused(make)
os.symlink("x0", "l"); open("f", "w").close()
for path in ("l", "f"):
    refused(lambda: os.rename(path, ".git"))
# a directory that cannot be looked into
os.makedirs("dark/hooks"); os.chmod("dark", 0o300)
refused(lambda: os.rename("dark", ".git"))
# a link inside, in the place of a directory on the way
os.mkdir("y"); os.symlink("../info2", "y/info")
refused(lambda: os.rename("y", ".git"))
os.rename("f", "g"); os.mkdir(".git"); os.rename(".git", "was")
assert not os.path.lexists(".git")
""",
    )


def git_writes_blocked_means_no_git_at_all() -> None:
    os.mkdir("a")
    bench = Bench()
    rules = name_rules((), block_git_writes=True)
    bench.session = bench.backend.open_session([bench.work], lambda _: Found(names=rules))
    python(bench, "refused(lambda: os.mkdir('.git'))\nrefused(lambda: os.mkdir('a/.git'))\n")
    python(bench, "os.mkdir('x'); refused(lambda: os.rename('x', '.git')); os.mkdir('.github')")


def names_of_the_policy_are_protected() -> None:
    os.mkdir("deep")
    bench = Bench()
    rules = name_rules((f"{bench.work}/deep/secret", "any.lock"))
    bench.session = bench.backend.open_session([bench.work], lambda _: Found(names=rules))
    python(
        bench,
        """
for path in ("deep/secret", "deep/secret/x", "any.lock", "deep/any.lock"):
    refused(lambda: os.mkdir(path), errno.EROFS, errno.ENOENT)
os.mkdir("secret"); os.mkdir("deep/other")
os.mkdir("d2"); os.mkdir("d2/secret"); os.rename("deep", "was")
refused(lambda: os.rename("d2", "deep"))
refused(lambda: os.symlink("d2", "deep"))
""",
    )


def what_the_host_makes_is_not_opened_for_writing() -> None:
    bench = Bench()
    bench.out("true")
    with open(".bashrc", "w") as file:
        file.write("mine")
    bench.fails("echo > .bashrc", "Read-only")
    bench.fails("mv .bashrc x", "busy")
    bench.fails("ln .bashrc x", "Read-only")
    with open(".bashrc") as file:
        assert file.read() == "mine"


# races

RACE = """
wanted, innocent = {wanted!r}, {innocent!r}
size = max(len(wanted), len(innocent)) + 1
buffer = ctypes.create_string_buffer(size)
one, two = innocent.ljust(size, b"\\0"), wanted.ljust(size, b"\\0")
done = False
def swap():
    address = ctypes.addressof(buffer)
    while not done:
        ctypes.memmove(address, two, size)
        ctypes.memmove(address, one, size)
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=swap) for _ in range(2)]
[thread.start() for thread in threads]
made = calls = 0
open("source", "w").close()
for number in range({count}):
    {call}
    calls += 1
    if os.path.lexists(wanted):
        made += 1
    try:
        os.unlink(innocent)
    except IsADirectoryError:
        os.rmdir(innocent)
    except FileNotFoundError:
        pass
    if not os.path.lexists("source"):
        open("source", "w").close()
done = True
print(calls, made)
assert made == 0
"""
CALLS = {
    "open": "it = libc.open(buffer, os.O_CREAT | os.O_WRONLY, 0o644); it < 0 or os.close(it)",
    "mkdir": "libc.mkdir(buffer, 0o755)",
    "symlink": "libc.symlink(b'target', buffer)",
    "rename": "libc.rename(b'source', buffer)",
    "link": "libc.link(b'source', buffer)",
    "mknod": "libc.mknod(buffer, 0o644, 0)",
}
COUNT = 600


def races_make_no_protected_name() -> None:
    os.makedirs("sub/.git/hooks")
    os.makedirs("sub/.got/hooks")
    bench = Bench()
    for wanted, innocent in ((b".bashrc", b"innocnt"), (b"sub/.git/hooks/x", b"sub/.got/hooks/x")):
        for call in CALLS.values():
            program = RACE.format(wanted=wanted, innocent=innocent, call=call, count=COUNT)
            print(python(bench, program, timeout=60.0).stdout)


def races_by_links_and_directories_make_no_protected_name() -> None:
    """The path stays; what it leads to is swapped: a link between two directories, a renamed directory."""
    os.makedirs("safe")
    os.makedirs("repo/.git")
    os.symlink("safe", "way")
    bench = Bench()
    python(
        bench,
        f"""
done = False
def swap():
    while not done:
        for target in ("repo/.git", "safe"):
            try:
                os.symlink(target, "next"); os.rename("next", "way")
            except OSError: pass
def move():
    while not done:
        for one, two in (("mover", ".git"), (".git", "mover")):
            try: os.rename(one, two)
            except OSError: pass
os.mkdir("mover")
threads = [threading.Thread(target=swap), threading.Thread(target=move)]
[thread.start() for thread in threads]
made = 0
for number in range({COUNT}):
    for path in ("way", "mover", ".git"):
        for name in ("commondir", "gitdir"):
            try: os.close(os.open(f"{{path}}/{{name}}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)); made += 1
            except OSError: pass
    assert os.listdir("repo/.git") == [], os.listdir("repo/.git")
    for gone in ("safe/commondir", "safe/gitdir", "mover/commondir", "mover/gitdir"):
        try: os.unlink(gone)
        except OSError: pass
done = True
[thread.join() for thread in threads]
assert os.listdir("repo/.git") == [] and made > 100, made
assert not os.path.lexists(".git/commondir") and not os.path.lexists(".git/gitdir")
""",
        timeout=80.0,
    )


def races_between_two_pens_make_no_protected_name() -> None:
    """Each pen has a warden of its own: one makes a name, the other renames the directory that it is in."""
    os.mkdir("mover")
    bench = Bench()
    other = SandboxPolicy(type=WORKSPACE.type, published_ports=(1,))
    moves = """
moved = 0
while moved <= 100 or not os.path.exists("enough"):
    for one, two in (("mover", ".git"), (".git", "mover")):
        try: os.rename(one, two); moved += 1
        except OSError: pass
    for name in ("commondir", "gitdir"):
        try: os.unlink("mover/" + name)
        except OSError: pass
print(moved)
"""
    makes = """
end = time.monotonic() + 2
made = 0
while made <= 100 or time.monotonic() < end:
    for name in ("commondir", "gitdir"):
        try: os.close(os.open("mover/" + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)); made += 1
        except OSError: pass
    held = os.open(".", os.O_PATH)
    for name in ("commondir", "gitdir"):
        if os.path.lexists(".git/" + name):
            print("planted", flush=True)
    os.close(held)
open("enough", "w").close()
print(made)
"""
    mover = bench.session.start(bench.request([PYTHON, "-c", PRELUDE + moves], other))
    made = python(bench, makes).stdout.split()
    moved = mover.wait()
    assert made[0] != b"planted" and int(made[0]) > 100, made
    assert int(moved.stdout) > 100, moved


# the end of a warden


def warden_death_closes() -> None:
    bench = Bench()
    bench.out("touch before")
    (warden,) = wardens_of(bench.session.keeper.pid)
    command = bench.session.start(
        bench.request(
            [
                PYTHON,
                "-c",
                PRELUDE
                + """
print("on", flush=True)
sys.stdin.readline()
for make in (lambda: open("after", "w"), lambda: os.mkdir("after"), lambda: os.rename("before", "after"),
             lambda: os.symlink("x", "after"), lambda: os.open("before", os.O_WRONLY | os.O_TRUNC),
             lambda: os.mkdir(".vscode")):
    refused(make, errno.ENOSYS, errno.EACCES)
print(open("before").read() == "")
""",
            ],
            terminal=(10, 80),
        )
    )
    seen = b""
    for event in command.events():
        seen += getattr(event, "data", b"")
        if b"on" in seen and is_alive(warden):
            kill(warden)
            command.write(b"go\n")
    assert b"True" in seen, seen
    assert os.listdir() == ["before"]
    assert "the sandbox's warden failed" in command.violations()[-1].why
    # The next command gets another pen, with a warden of its own.
    bench.out("echo > after")
    assert bench.run("mkdir .vscode").exit_code and sorted(os.listdir()) == ["after", "before"]


def wardens_end_with_their_pens() -> None:
    bench = Bench()
    left = bench.out("sleep 1001 >/dev/null & echo $!").strip()
    (warden,) = wardens_of(bench.session.keeper.pid)
    bench.session.close_idle(1e-9)
    # Processes that were left running still make names.
    assert is_alive(warden)
    bench.out(f"kill {left}")
    wait_until(lambda: not is_alive(warden))
    (second,) = wardens_of(bench.session.keeper.pid)
    bench.session.close()
    wait_until(lambda: not is_alive(second))


def what_is_left_running_goes_on_making_names() -> None:
    bench = Bench()
    bench.out("(for n in $(seq 100); do echo > f$n; sleep 0.02; done) >/dev/null 2>&1 & true")
    bench.session.close_idle(1e-9)
    bench.out("true")
    wait_until(lambda: os.path.exists("f20"))


# denials are reported


def violations_are_told() -> None:
    home = os.environ["HOME"]
    with open(f"{home}/old", "w"):
        pass
    bench = Bench()
    result = bench.run(
        f"echo > .bashrc; mkdir .vscode; echo > {home}/x; mkdir {home}; touch fine; echo > .pinfold;"
        f"cp /dev/null {home}/old"
    )
    found = {(each.operation, each.path): each for each in result.violations}
    assert set(found) == {
        ("open", f"{bench.work}/.bashrc"),
        ("mkdir", f"{bench.work}/.vscode"),
        ("open", f"{home}/x"),
        ("open", f"{home}/old"),
        ("open", f"{bench.work}/.pinfold"),
    }, result
    one = found["open", f"{bench.work}/.bashrc"]
    assert (one.rule, one.grantable, one.times) == (".bashrc", True, 1) and one.program in ("bash", "sh"), one
    assert found["mkdir", f"{bench.work}/.vscode"].program == "mkdir"
    assert found["open", f"{home}/x"].rule == "" and not found["open", f"{bench.work}/.pinfold"].grantable
    assert bench.run("touch fine").violations == ()


def violations_belong_to_their_command() -> None:
    bench = Bench()
    first = bench.session.start(bench.request("mkdir .vscode; sleep 0.3"))
    second = bench.session.start(bench.request("mkdir .idea; sleep 0.2"))
    assert [each.path for each in second.wait().violations] == [f"{bench.work}/.idea"]
    assert [each.path for each in first.wait().violations] == [f"{bench.work}/.vscode"]


def violations_are_bounded() -> None:
    bench = Bench()
    began = time.monotonic()
    result = python(
        bench,
        """
for number in range(20000):
    libc.mkdir(b".vscode", 0o755)
for number in range(3000):
    libc.mkdir(b".vscode/%d" % number, 0o755) or libc.mkdir(b"/etc/%d" % number, 0o755)
""",
        timeout=60.0,
    )
    print(time.monotonic() - began, len(result.violations))
    assert len(result.violations) <= 101
    most = max(result.violations, key=lambda each: each.times)
    assert most.times == 16384, most
    assert bench.run("mkdir .idea").violations


PROBES = probes_of(globals(), "python")

if __name__ == "__main__":
    run(globals())
