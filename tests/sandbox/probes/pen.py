"""What holds inside a pen: each function is run in a child of the tests, as root and as an ordinary user.

A probe gets a `Bench`: a session over the current directory, and shorthands. Its name says what must hold.
"""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pinfold.kernel import namespaces, syscall
from pinfold.model.errors import ConfinementError
from pinfold.model.events import Exited, Output
from pinfold.model.policy import EnvironmentRules, Limits, PolicyType, SandboxPolicy
from pinfold.policy.shipped_protected import name_rules
from pinfold.sandbox.backend import CommandResult, Found, RunningCommand, StartRequest
from pinfold.sandbox.environment import HISTORIES
from pinfold.sandbox.linux.host import command as command_module
from pinfold.sandbox.linux.host import warden_client
from pinfold.sandbox.linux.host.backend import LinuxBackend
from pinfold.sandbox.linux.host.command import receive_terminal
from pinfold.sandbox.linux.host.keeper_client import GranterClient
from pinfold.sandbox.linux.host.pen import Pen
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.command import RLIMIT_RTTIME
from pinfold.sandbox.linux.protocol.file_change import ChangedEntry, FileChange, MakeChange
from pinfold.sandbox.linux.protocol.keeper import EndBuilt, KeeperRequest, NameRules, NewPen, NotBuilt
from tests.patience import PATIENCE, wait_until
from tests.probe_module import LIVING, OPEN, SKIPPED, among_themselves, probes_of, run
from tests.processes import is_alive, kill, processes_of, status_of, wardens_of

WORKSPACE = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)
READ_ONLY = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
RULES = name_rules(())
CREATE = os.O_WRONLY | os.O_CREAT
TRUSTED = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


class Bench:
    def __init__(self, protected: Sequence[str] = (), hidden: Sequence[str] = ()) -> None:
        self.work = os.getcwd()
        self.backend = LinuxBackend()
        self.session = self.backend.open_session(
            [self.work], lambda _: Found(tuple(protected), tuple(hidden), RULES, home=os.environ["HOME"])
        )
        OPEN.append(self)

    def request(
        self, command: str | Sequence[str], policy: SandboxPolicy = WORKSPACE, **more: Any
    ) -> StartRequest:
        command = command if isinstance(command, str) else tuple(command)
        return StartRequest(command, policy, more.pop("cwd", self.work), **more)

    def run(
        self, command: str | Sequence[str], policy: SandboxPolicy = WORKSPACE, **more: Any
    ) -> CommandResult:
        return self.session.run(self.request(command, policy, **more))

    def out(self, command: str | Sequence[str], policy: SandboxPolicy = WORKSPACE, **more: Any) -> str:
        """What a command that must succeed wrote."""
        result = self.run(command, policy, **more)
        assert result.exit_code == 0, result
        return os.fsdecode(result.stdout)

    def fails(self, command: str, words: str, policy: SandboxPolicy = WORKSPACE) -> None:
        result = self.run(command, policy)
        assert result.exit_code, result
        assert words in os.fsdecode(result.stderr), result

    def close(self) -> None:
        self.session.close()
        self.backend.close()


def git(*arguments: str) -> None:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *settings, *arguments], check=True, capture_output=True)


# files


def writes_outside_fail() -> None:
    bench = Bench()
    home = os.environ["HOME"]
    for path in (f"{home}/x", f"{bench.work}/../x", "/etc/x", "/usr/x", "/x", "/dev/x", "/run/x", "/sys/x"):
        bench.fails(f"echo > {path}", "Read-only file system")
    assert not os.path.exists(f"{home}/x")


def nothing_outside_is_truncated() -> None:
    """Landlock leaves truncation to the mounts."""
    bench = Bench()
    paths = [f"{os.environ['HOME']}/kept", f"{bench.work}/kept"]
    for path in paths:
        with open(path, "w") as file:
            file.write("kept")
    program = """
import errno, os, sys
for path in sys.argv[1:]:
    for way in (path, "/proc/self/root" + path, os.path.relpath(path)):
        for action in (
            lambda: os.truncate(way, 0),
            lambda: os.open(way, os.O_RDONLY | os.O_TRUNC),
            lambda: os.open(way, os.O_WRONLY | os.O_TRUNC),
            lambda: os.truncate(os.open(way, os.O_RDONLY), 0),
        ):
            try:
                action()
            except OSError as error:
                assert error.errno in (errno.EROFS, errno.EINVAL), (way, error)
            else:
                raise AssertionError(way)
"""
    for policy, tried in ((WORKSPACE, paths[:1]), (READ_ONLY, paths)):
        result = bench.run(["/usr/bin/python3", "-c", program, *tried], policy)
        assert result.exit_code == 0, result
    for path in paths:
        with open(path) as file:
            assert file.read() == "kept"


def workspace_writes_work() -> None:
    bench = Bench()
    bench.out("mkdir -p a/b && echo hi > a/b/c && mv a/b/c d && ln d e && ln -s d f && rm d && rm -r a")
    assert sorted(os.listdir()) == ["e", "f"]
    with open("e") as file:
        assert file.read() == "hi\n"
    assert os.stat("e").st_uid == os.getuid()


def reading_leaves_the_times_of_files_alone() -> None:
    if os.geteuid():
        print("a user namespace has it locked how times of reading are told")
        sys.exit(SKIPPED)

    def is_told(read: Callable[[], object]) -> bool:
        os.utime("read", (1_000_000_000, 1_000_000_001))  # before it was written: the next reading is told
        read()
        return os.stat("read").st_atime != 1_000_000_000

    with open("read", "w") as file:
        file.write("words")
    if not is_told(lambda: Path("read").read_text()):
        print("this file system tells no times of reading")
        sys.exit(SKIPPED)
    bench = Bench()
    assert not is_told(lambda: bench.out("cat read"))


def a_proc_that_is_mounted_otherwise_is_no_hindrance() -> None:
    """A new one must be as the one that is there, and that is locked in a user namespace."""
    if os.geteuid():
        print("only root can mount the machine's /proc otherwise")
        sys.exit(SKIPPED)
    for option in ("noatime", "nodiratime", "strictatime"):
        child = os.fork()
        if child == 0:
            namespaces.unshare(namespaces.CLONE_NEWNS)
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            subprocess.run(["mount", "-o", f"remount,bind,{option}", "/proc"], check=True)
            namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
            namespaces.write_id_maps(0, 0, inside_uid=0, inside_gid=0)
            bench = Bench()
            said = bench.out("echo here")
            bench.close()
            os._exit(said != "here\n")
        assert os.waitpid(child, 0)[1] == 0, option


def read_only_mode_writes_nothing_but_tmp() -> None:
    bench = Bench()
    bench.fails("echo > x", "Read-only file system", READ_ONLY)
    bench.out("echo > /tmp/x", READ_ONLY)


def tmp_can_be_closed() -> None:
    bench = Bench()
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, disable_tmp_write=True)
    for place in ("/tmp", "/var/tmp"):
        bench.fails(f"echo > {place}/x", "Read-only file system", policy)
    assert bench.out("echo $TMPDIR", policy) == "\n"


def tmp_is_private_and_shared_by_the_session() -> None:
    bench = Bench()
    name = f"/tmp/pinfold-{os.getpid()}"
    with open(name, "w"):
        pass
    try:
        assert bench.out("ls -A /tmp") == ""
        bench.out('test "$TMPDIR" = /tmp && test -d "$TMPDIR" && echo hi > "$TMPDIR/seen" && mktemp')
        assert bench.out("cat /tmp/seen", READ_ONLY) == "hi\n"
        assert not os.path.exists("/tmp/seen")
        other = bench.backend.open_session([bench.work])
        assert other.run(bench.request("ls -A /tmp")).stdout == b""
    finally:
        os.unlink(name)


def a_workspace_in_tmp_is_there() -> None:
    work = f"/tmp/pinfold-{os.getpid()}/a b"
    os.makedirs(work)
    bench = Bench()
    session = bench.backend.open_session([work])
    for policy in (WORKSPACE, READ_ONLY):
        result = session.run(StartRequest("ls -A /tmp; pwd; touch x", policy, work))
        assert result.stdout.decode() == f"pinfold-{os.getpid()}\n{work}\n", result
    assert os.listdir(work) == ["x"]
    os.unlink(f"{work}/x")
    os.rmdir(work)
    os.rmdir(os.path.dirname(work))


def hidden_stays_hidden() -> None:
    os.mkdir("secrets")
    for name in ("secrets/key", ".env"):
        with open(name, "w") as file:
            file.write("password")
    home = os.environ["HOME"]
    os.mkdir(f"{home}/.ssh")
    with open(f"{home}/.ssh/id", "w") as file:
        file.write("password")
    bench = Bench(hidden=(f"{os.getcwd()}/secrets", f"{os.getcwd()}/.env", f"{home}/.ssh"))
    granting = SandboxPolicy(
        type=PolicyType.WORKSPACE_READWRITE, additional_readwrite_paths=(f"{home}/.ssh", f"{home}/.ssh/id")
    )
    for policy in (WORKSPACE, READ_ONLY, granting):
        assert (
            bench.out(f"ls -A secrets {home}/.ssh; cat .env || true", policy) == f"{home}/.ssh:\n\nsecrets:\n"
        )
        bench.fails("echo > secrets/new", "Read-only file system", policy)
        bench.fails("echo > .env", "Read-only file system", policy)
        bench.fails("rm .env", "busy" if policy is not READ_ONLY else "", policy)
        bench.fails("mv secrets other", "busy" if policy is not READ_ONLY else "", policy)
    assert "password" not in bench.out("cat /proc/self/mountinfo; grep -r password . || true")


def hidden_stays_hidden_when_its_parents_are_changed() -> None:
    os.makedirs("config/deep")
    with open("config/deep/.env", "w") as file:
        file.write("password")
    secret = f"{os.getcwd()}/config/deep/.env"
    bench = Bench(protected=(f"{os.getcwd()}/config/deep",), hidden=(secret,))
    bench.out("chmod 000 config")
    bench.session.close_idle(1e-9)
    result = bench.run("chmod 755 config; cat config/deep/.env; echo > config/deep/x")
    assert result.stdout == b"" and b"Read-only" in result.stderr, result
    by_path = SandboxPolicy(type=WORKSPACE.type, hidden=(secret,))
    bench = Bench(hidden=(secret,))
    rename = "import os; os.rename('config', 'other')"
    result = bench.run(["/usr/bin/python3", "-c", rename], by_path)
    assert result.exit_code and b"busy" in result.stderr, result


def what_the_host_replaces_is_held_again() -> None:
    for name in (".env", "settings"):
        with open(name, "w") as file:
            file.write("password")
    work = os.getcwd()
    bench = Bench(protected=(f"{work}/settings",), hidden=(f"{work}/.env",))
    bench.fails("cat .env; echo > settings", "Read-only")
    for name in (".env", "settings"):
        with open("new", "w") as file:
            file.write("password")
        os.rename("new", name)
    assert bench.run("cat .env").stdout == b""
    bench.fails("echo > settings", "Read-only")


def a_fork_of_the_host_is_refused() -> None:
    bench = Bench()
    bench.out("true")
    child = os.fork()
    if child == 0:
        try:
            bench.run("true")
        except ConfinementError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    bench.out("true")


def protected_paths_are_read_only() -> None:
    git("init", ".")
    git("commit", "--allow-empty", "-m", "first")
    os.mkdir(".vscode")
    work = os.getcwd()
    bench = Bench(protected=[f"{work}/{name}" for name in (".git/hooks", ".git/config", ".vscode")])
    for path in (".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json"):
        bench.fails(f"echo > {path}", "Read-only file system")
    for path in (".git", ".git/hooks", ".git/config", ".vscode"):
        bench.fails(f"/usr/bin/python3 -c \"import os; os.rename('{path}', '{path}2')\"", "busy")
        bench.fails(f"rm -rf {path}/hooks {path}", "")
    bench.fails("echo > .git/new && mv -f .git/new .git/config", "busy")
    bench.fails("ln .git/config other && echo > other", "")
    assert os.path.getsize(".git/config") > 1 and os.path.exists(".git/hooks/pre-commit.sample")


def git_commits_while_its_hooks_are_closed() -> None:
    git("init", ".")
    git("commit", "--allow-empty", "-m", "first")
    bench = Bench(protected=[f"{os.getcwd()}/{name}" for name in (".git/hooks", ".git/config")])
    bench.out("echo > file && git add file && git -c user.name=A -c user.email=a@b commit -m second")
    git("fsck")


def git_writes_can_be_blocked() -> None:
    git("init", ".")
    git("commit", "--allow-empty", "-m", "first")
    bench = Bench(protected=[f"{os.getcwd()}/.git/config"])
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True)
    bench.fails("git -c user.name=A -c user.email=a@b commit --allow-empty -m x", "Read-only", policy)
    bench.out("git log && echo > file", policy)


def nothing_is_left_in_the_tree() -> None:
    git("init", ".")
    git("commit", "--allow-empty", "-m", "first")
    bench = Bench(protected=[f"{os.getcwd()}/.git/hooks"])
    bench.out("true")
    status = ["git", "status", "--porcelain", "--ignored"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""
    assert os.listdir() == [".git"]


def odd_names_work() -> None:
    names = [b"a b", b"new\nline", b"\xff\xfe", b"'quote\"", "ü".encode(), b"-rf", b"$(id)"]
    for name in names:
        work = os.path.join(os.getcwdb(), name)
        os.makedirs(os.path.join(work, b"hid\xff den"))
        os.mkdir(os.path.join(work, b".git"))
        text = os.fsdecode(work)
        bench = Bench()
        found = Found((f"{text}/.git",), (f"{text}/" + os.fsdecode(b"hid\xff den"),), RULES)
        session = bench.backend.open_session([text], lambda _: found)  # noqa: B023
        result = session.run(
            StartRequest("pwd && echo > made && ! echo > .git/x && ls -A hid*", WORKSPACE, text)
        )
        assert (result.exit_code, result.stdout) == (0, work + b"\n"), (name, result)
        assert os.path.exists(os.path.join(work, b"made"))
        bench.close()


def roots_that_cannot_be_stop_the_run() -> None:
    bench = Bench()
    for root, words in (
        ("/nowhere", "does not exist"),
        ("relative", "absolute"),
        ("/", "root"),
        ("/proc", "own"),
    ):
        try:
            bench.backend.open_session([root]).run(bench.request("true", cwd="/"))
        except ConfinementError as error:
            assert words in str(error) and "\n" not in str(error)
        else:
            raise AssertionError(root)
    surveyed: list[SandboxPolicy] = []

    def survey(policy: SandboxPolicy) -> Found:
        surveyed.append(policy)
        return Found()

    for root in ("/", "/proc"):
        try:
            bench.backend.open_session([root], survey).run(bench.request("true", cwd="/"))
        except ConfinementError:
            assert not surveyed, f"all of {root} was looked through before it was refused"


def a_root_may_be_a_file_or_a_link() -> None:
    os.mkdir("real")
    os.symlink("real", "link")
    with open("file", "w"):
        pass
    bench = Bench()
    work = bench.work
    session = bench.backend.open_session([f"{work}/link", f"{work}/file"])
    result = session.run(
        StartRequest("pwd -P; echo > x; echo > ../file; echo > ../other", WORKSPACE, f"{work}/link")
    )
    assert result.stdout.decode() == f"{work}/real\n"
    assert os.path.exists("real/x") and os.path.getsize("file") == 1 and not os.path.exists("other")


def a_swapped_link_opens_nothing() -> None:
    """A root inside another: what a command made of it in between must not become writable."""
    os.mkdir("inner")
    victim = os.environ["HOME"]
    bench = Bench()
    work = bench.work
    session = bench.backend.open_session([work, f"{work}/inner"])
    session.run(bench.request("true"))
    from pinfold.sandbox.linux.host.paths import look
    from pinfold.sandbox.plan import plan_pen

    plan = plan_pen(WORKSPACE, look(WORKSPACE, [work, f"{work}/inner"]))
    os.rmdir("inner")
    os.symlink(victim, "inner")
    try:
        bench.session.keeper.ask(NewPen(bench.session.number, plan.operations, NameRules(()), False, {}))
    except ConfinementError as error:
        assert "openat2" in str(error), error
    else:
        raise AssertionError("a link was followed")


# processes


def host_processes_are_invisible() -> None:
    bench = Bench()
    assert set(bench.out("ls /proc | grep -x '[0-9]*' | wc -l").split()) <= {"2", "3", "4"}
    bench.fails(f"kill -0 {os.getpid() + 100000} || kill {os.getppid()}", "No such process")


def background_processes_are_seen_by_the_next_command() -> None:
    bench = Bench()
    left = bench.out("sleep 1000 >/dev/null & echo $!").strip()
    wait_until(lambda: "sleep" in bench.out(LIVING))
    # Of another pen, only who knows its number.
    assert "sleep" not in bench.out(LIVING, READ_ONLY)
    bench.out(f"kill {left}", READ_ONLY)
    wait_until(lambda: "sleep" not in bench.out(LIVING))


def no_capabilities() -> None:
    bench = Bench()
    for line in bench.out("grep Cap /proc/self/status").splitlines():
        assert int(line.split()[1], 16) == 0, line
    assert bench.out("grep NoNewPrivs /proc/self/status").split()[1] == "1"
    bench.fails("mount -t tmpfs none /tmp", "")
    bench.fails("unshare -Ur true", "")
    bench.fails("umount /tmp", "")
    bench.fails("chroot / true", "")


def no_inherited_descriptors() -> None:
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)
    bench = Bench()
    listing = "import os; print([fd for fd in range(3, 999) if os.path.exists(f'/proc/self/fd/{fd}')])"
    assert bench.out(["/usr/bin/python3", "-c", listing]) == "[]\n"


def spawners_cannot_be_looked_into() -> None:
    bench = Bench()
    for pid in (1, 2):
        for name in ("mem", "environ", "maps", "root/", "fd/", "cwd/"):
            result = bench.run(f"ls -d /proc/{pid}/{name}. /proc/{pid}/{name} && cat /proc/{pid}/{name}")
            assert result.exit_code, (pid, name, result)


def the_environment_is_scrubbed() -> None:
    bench = Bench()
    given = {
        "PATH": "/usr/bin:/bin",
        "GITHUB_TOKEN": "x",
        "LD_PRELOAD": "/x",
        "LANG": "C",
        "AWS_PROFILE": "p",
    }
    found = dict(line.split("=", 1) for line in bench.out(["env"], environment=given).splitlines())
    assert found == {
        "PATH": "/usr/bin:/bin",
        "LANG": "C",
        "TMPDIR": "/tmp",
        "XDG_CACHE_HOME": "/tmp/cache",
        "npm_config_cache": "/tmp/cache/npm",
        "npm_config_update_notifier": "false",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "NO_UPDATE_NOTIFIER": "1",
        **HISTORIES,
        "GIT_OPTIONAL_LOCKS": "0",
        "TAR_OPTIONS": "--no-same-owner",
        "PINFOLD_PEN": "1",
        "PINFOLD_PEN_NETWORK": "0",
        "IS_SANDBOX": "1",
        **(TRUSTED if os.geteuid() == 0 else {}),
    }
    keeping = SandboxPolicy(
        type=PolicyType.WORKSPACE_READWRITE, environment=EnvironmentRules(keep=("GITHUB_*",), drop=("LANG",))
    )
    text = bench.out(["env"], keeping, environment=given)
    assert "GITHUB_TOKEN=x" in text and "LANG" not in text


def each_command_has_its_own_environment() -> None:
    """Those that have the last one's are started without being told it again, whatever came of that."""
    bench = Bench()
    one, two = ({"PATH": "/usr/bin:/bin", "LANG": name} for name in ("one", "two"))
    for given, wanted in ((one, "one"), (dict(one), "one"), (two, "two"), (one, "one")):
        assert bench.out("echo $LANG", environment=given) == f"{wanted}\n"
    with pytest.raises(ConfinementError, match="cannot enter"):
        bench.run("true", environment=two, cwd="/nowhere")
    assert bench.run(["no-such-program"], environment=two).exit_code == 127
    assert bench.out("echo $LANG", environment=two) == "two\n"
    assert "LANG=two" not in bench.out(["env"])
    with ThreadPoolExecutor(8) as pool:
        said = pool.map(lambda number: bench.out("echo $LANG", environment=(one, two)[number % 2]), range(32))
    assert list(said) == ["one\n", "two\n"] * 16


def exit_codes_and_signals_are_told_apart() -> None:
    bench = Bench()
    assert (bench.run("exit 7").exit_code, bench.run("exit 137").exit_code) == (7, 137)
    result = bench.run("kill -TERM $$")
    assert (result.exit_code, result.signal) == (None, signal.SIGTERM)
    assert bench.run(["no-such-program"]).exit_code == 127
    assert bench.run(["/etc/passwd"]).exit_code == 126
    assert bench.run("yes | head -1").stdout == b"y\n"
    assert bench.out("trap").strip() == ""


def a_timeout_ends_daemons_and_nothing_else() -> None:
    bench = Bench()
    bench.out("sleep 1001 & true")
    result = bench.run("(setsid sleep 1002 &) & nohup sleep 1003 & sleep 1004", timeout=0.3)
    assert result.timed_out and result.signal == signal.SIGKILL and result.exit_code is None
    assert bench.out("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").count("sleep 100") == 1


def cancel_ends_the_tree() -> None:
    bench = Bench()
    command = bench.session.start(bench.request("echo on; (setsid sleep 1002 &); sleep 1003"))
    events = command.events()
    assert next(events) == Output("stdout", b"on\n")  # type: ignore[arg-type]
    threading.Timer(0.05, command.cancel).start()
    *_, last = events
    assert isinstance(last, Exited) and last.cancelled and last.signal == signal.SIGKILL
    assert "sleep" not in bench.out(LIVING)


def cancel_waits_for_what_the_warden_has_begun() -> None:
    """A name that it makes for one that was killed meanwhile comes before `cancel` returns, or never."""
    among_themselves()
    warden_client.SETTLING = PATIENCE
    bench = Bench()
    command = bench.session.start(bench.request("sleep 1000"))
    (warden,) = wardens_of(bench.session.keeper.pid)
    told = bench.session.pens[0][1].warden
    cancelling = threading.Thread(target=command.cancel)
    os.kill(warden, signal.SIGSTOP)
    try:
        cancelling.start()
        wait_until(lambda: told.settling)
        assert cancelling.is_alive()
    finally:
        os.kill(warden, signal.SIGCONT)
    cancelling.join()
    assert command.wait().cancelled


def a_process_whose_first_thread_has_ended_ends_too() -> None:
    """It is told as a zombie, while its other threads go on."""
    bench = Bench()
    program = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(1000,)).start(); "
    program += f"ctypes.CDLL(None).syscall({syscall.number('exit')}, 0)"
    result = bench.run(["/usr/bin/python3", "-c", program], timeout=0.7)
    assert result.timed_out and result.signal == signal.SIGKILL, result
    assert "Threads:\t2" not in bench.out("cat /proc/[0-9]*/status 2>/dev/null; true")


def a_fork_bomb_is_bounded() -> None:
    bench = Bench()
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, limits=Limits(processes=200))
    bench.out("sleep 1001 & true", policy)
    result = bench.run("b() { b | b & }; b; sleep 1000", policy, timeout=1.0, output=1000)
    assert result.timed_out
    left = bench.out(LIVING, policy).split()
    assert left.count("sleep") == 1 and left.count("bash") <= 1, left


def a_killed_spawner_is_replaced() -> None:
    bench = Bench()
    bench.out("true")
    try:
        bench.run("kill -9 $PPID; sleep 0.2")
    except ConfinementError as error:
        assert "the sandbox died" in str(error)
    assert bench.out("echo again") == "again\n"


def a_builder_that_waits_is_used_or_replaced_and_ends_with_its_session() -> None:
    bench = Bench()
    other = Bench()
    keeper = bench.session.keeper.pid

    def builders() -> list[int]:
        return [pid for pid in processes_of(keeper) if status_of(pid).name == "pinfold-builder"]

    wait_until(lambda: len(builders()) == 1)
    (first,) = builders()
    bench.out("true")
    assert first not in builders()
    wait_until(lambda: len(builders()) == 1)
    os.kill(builders()[0], signal.SIGKILL)
    wait_until(lambda: not builders())
    bench.out("true", READ_ONLY)
    wait_until(lambda: len(builders()) == 1)
    other.out("true")
    bench.session.close()
    assert not builders()


def killing_the_keeper_ends_everything() -> None:
    bench = Bench()
    bench.out("sleep 1001 & true")
    keeping = bench.session.keeper
    # One of them waits for the next pen's plan.
    wait_until(lambda: len(processes_of(keeping.pid)) == 6)
    inside = processes_of(keeping.pid)
    os.kill(keeping.pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in inside))
    try:
        bench.out("true")
    except ConfinementError:
        pass
    else:
        raise AssertionError("it ran without a keeper")
    bench.session = bench.backend.open_session([bench.work])
    bench.out("true")


def killing_the_host_ends_everything() -> None:
    out, into = os.pipe()
    host = subprocess.Popen([sys.executable, "-m", "tests.sandbox.probes.pen", "_host"], stdout=into)
    os.close(into)
    with open(out) as told:
        pids = [int(word) for word in told.readline().split()]
        assert len(pids) == 7 and all(is_alive(pid) for pid in pids)
        host.kill()
        host.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in pids))


def _host() -> None:
    bench = Bench()
    bench.out("sleep 1001 & (setsid sleep 1002 &) ; true")
    wait_until(lambda: len(processes_of(bench.session.keeper.pid)) == 7)
    print(*processes_of(bench.session.keeper.pid), flush=True)
    time.sleep(1000)


def killing_all_one_can_leaves_the_session() -> None:
    bench = Bench()
    try:
        bench.run("kill -9 -1")
    except ConfinementError as error:
        assert "the sandbox died" in str(error)
    assert bench.out("echo again") == "again\n"


def a_stopped_spawner_is_continued_or_given_up() -> None:
    bench = Bench()
    result = bench.run("kill -STOP $PPID; sleep 1000", timeout=0.3)
    assert result.timed_out and result.signal == signal.SIGKILL
    bench.run("(sleep 0.2; kill -STOP $PPID) & kill -STOP -1", timeout=0.3)
    assert bench.out("echo again") == "again\n"


def pens_of_a_session_do_not_look_into_each_other() -> None:
    bench = Bench()
    pid = int(bench.out("sleep 1001 >/dev/null 2>&1 & echo $!"))
    bench.out(f"cat /proc/{pid}/comm && kill -0 {pid}")
    bench.out(f"kill -0 {pid}", READ_ONLY)
    for name in ("comm", "environ", "mem", "root/etc/passwd", "cwd/.", "mountinfo"):
        bench.fails(f"cat /proc/{pid}/{name}", "Operation not permitted", READ_ONLY)
    bench.fails(f"echo > /proc/{pid}/cwd/x", "", READ_ONLY)
    assert not os.path.exists("x")


def host_fifos_and_sockets_are_closed() -> None:
    home = os.environ["HOME"]
    os.mkfifo(f"{home}/fifo")
    reader = os.open(f"{home}/fifo", os.O_RDONLY | os.O_NONBLOCK)
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{home}/socket")
    server.listen()
    bench = Bench()
    for policy in (WORKSPACE, READ_ONLY):
        bench.fails(f"echo > {home}/fifo", "Permission denied", policy)
        program = f"import socket; socket.socket(socket.AF_UNIX).connect({home + '/socket'!r})"
        bench.fails(f'/usr/bin/python3 -c "{program}"', "", policy)
    assert os.read(reader, 9) == b""
    server.close()
    os.close(reader)


def a_pen_in_a_pen_is_refused_in_one_line() -> None:
    bench = Bench()
    program = (
        "from pinfold.sandbox.linux.host.backend import LinuxBackend\n"
        "try: LinuxBackend().open_session(['/usr'])\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    keep = SandboxPolicy(
        type=WORKSPACE.type,
        environment=EnvironmentRules(keep=("PYTHONPATH",)),
        # This checkout may lie in /tmp, which a pen has of its own.
        additional_readonly_paths=tuple(os.environ["PYTHONPATH"].split(":")),
    )
    text = bench.out([sys.executable, "-c", program], keep)
    assert text.startswith("ConfinementError the sandbox could not be built: ") and text.count("\n") == 1, (
        text
    )


def idle_pens_close_and_roots_are_added() -> None:
    bench = Bench()
    bench.out("true")
    bench.out("true", READ_ONLY)
    assert bench.session.close_idle(1000) == 0
    assert bench.session.close_idle(0.000001) == 2
    more = os.environ["HOME"]
    bench.fails(f"echo > {more}/x", "Read-only")
    left = bench.out("sleep 1001 >/dev/null & echo $!").strip()
    bench.session.change_roots((*bench.session.roots, more))
    bench.out(f"echo > {more}/x; kill -0 {left}")
    assert os.path.exists(f"{more}/x")


def the_umask_is_the_users() -> None:
    os.umask(0o027)
    assert Bench().out("umask") == "0027\n"


def nothing_is_left_in_the_tree_after_a_kill() -> None:
    git("init", ".")
    before = sorted(os.listdir("."))
    killing_the_host_ends_everything()
    assert sorted(os.listdir(".")) == before
    status = ["git", "status", "--porcelain", "--ignored"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""


# network


def loopback_works_and_nothing_else() -> None:
    bench = Bench()
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    program = f"""
import socket, threading
mine = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: mine.accept()[0].sendall(b"hi")).start()
assert socket.create_connection(mine.getsockname()).recv(9) == b"hi"
for address in (("127.0.0.1", {port}), ("1.1.1.1", 80), ("198.18.0.1", 80)):
    try:
        socket.create_connection(address, timeout=30)
    except OSError as error:
        print(error.errno)
"""
    assert bench.out(["/usr/bin/python3", "-c", program]) == "111\n101\n101\n"
    assert bench.out("ls /sys/class/net | wc -l")


def a_server_left_running_is_reached_by_the_next_command() -> None:
    bench = Bench()
    with open("page", "w") as file:
        file.write("hello")
    bench.out("/usr/bin/python3 -m http.server -b 127.0.0.1 8123 & true")
    fetch = (
        "import time, urllib.request\n"
        "for _ in range(600):\n"
        "    try: print(urllib.request.urlopen('http://127.0.0.1:8123/page').read()); break\n"
        "    except OSError: time.sleep(0.05)\n"
    )
    for policy in (WORKSPACE, READ_ONLY, WORKSPACE):
        assert "hello" in bench.out(["/usr/bin/python3", "-c", fetch], policy)


# streams


def output_of_any_size_arrives() -> None:
    bench = Bench()
    for size in (0, 1, 1 << 20, 100_000_000):
        assert len(bench.run(f"head -c {size} /dev/zero").stdout) == size
    result = bench.run("head -c 5000000 /dev/zero; echo err >&2", output=1000)
    assert (len(result.stdout), result.stderr, result.truncated, result.exit_code) == (
        1000,
        b"err\n",
        True,
        0,
    )


def input_of_any_size_is_taken() -> None:
    bench = Bench()
    data = bytes(range(256)) * 20_000
    assert bench.run("cat", stdin=data).stdout == data
    assert bench.run("head -c 1", stdin=data).stdout == b"\0"
    assert bench.run("cat", stdin=b"").stdout == b""
    assert bench.run("cat").stdout == b""


def terminals_are_real() -> None:
    bench = Bench()
    command = bench.session.start(
        bench.request("tty; stty size; read x; stty size; echo got $x", terminal=(30, 100))
    )
    seen = b""
    for event in command.events():
        if isinstance(event, Output):
            seen += event.data
            if b"30 100" in seen and b"got" not in seen and b"40" not in seen:
                command.resize(40, 120)
                command.write(b"word\n")
    assert b"/dev/pts/0" in seen and b"40 120" in seen and b"got word" in seen, seen


def many_threads_run_at_once() -> None:
    bench = Bench()
    found: list[str] = []

    def work(number: int) -> None:
        found.extend(bench.out(f"echo {number}.{turn}") for turn in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"{number}.{turn}\n" for number in range(16) for turn in range(5))


def closing_ends_what_runs() -> None:
    bench = Bench()
    command = bench.session.start(bench.request("sleep 1000"))
    threading.Timer(0.1, bench.session.close).start()
    assert command.wait().cancelled
    try:
        bench.run("true")
    except ConfinementError as error:
        assert "closed" in str(error)
    else:
        raise AssertionError("a closed session ran something")


def a_command_that_is_asked_again_frees_its_pen_once() -> None:
    bench = Bench()
    command = bench.session.start(bench.request("mkdir .vscode; exit 3"))
    end = command.wait()
    assert command.wait() == end and command.violations() == end.violations and end.violations, end
    followed = bench.session.start(bench.request("exit 4"))
    assert len(list(followed.events())) == 1 and followed.wait().exit_code == 4
    assert [pen.running for _, pen in bench.session.pens] == [0]


def what_no_program_can_be_given_ends_nothing_else() -> None:
    bench = Bench()
    running = bench.session.start(bench.request("sleep 0.2; echo still here"))
    pid = bench.session.pen(WORKSPACE).pid
    for odd in ({"A": "a\0b"}, {"A": 1}, {1: "a"}, {"A=": "a"}):
        result = bench.run("echo", variables=odd)
        assert result.exit_code == 126 and b"Invalid argument" in result.stderr, result
    for arguments in (("echo", "a\0b"), ("echo", 1)):
        assert bench.run(arguments).exit_code == 126  # type: ignore[arg-type]
    for what in ({"variables": {"A": object()}}, {"cwd": "/a\0b"}, {"command": ()}):
        try:
            bench.run(**{"command": "echo", **what})  # type: ignore[arg-type]
        except ConfinementError as error:
            assert "\n" not in str(error)
        else:
            raise AssertionError(f"it ran with {what}")
    assert running.wait().stdout == b"still here\n"
    assert bench.session.pen(WORKSPACE).pid == pid


def an_odd_question_does_not_end_the_keeper() -> None:
    bench = Bench()
    keeping = bench.session.keeper
    nothing: Any = (1,)
    for odd in (
        KeeperRequest(),
        EndBuilt(12345),
        NewPen(12345, (), NameRules(()), False, {}),
        NewPen(bench.session.number, nothing, NameRules(()), False, {}),
    ):
        assert isinstance(keeping._exchange(odd)[0], NotBuilt)
    assert bench.out("echo hi") == "hi\n"


class Interrupted(BaseException):
    """As by Ctrl-C."""


def _interrupt_next(owner: Any, name: str) -> None:
    """The next call is done, and whoever made it does not hear what came of it."""
    real = getattr(owner, name)

    def interrupted(*arguments: Any) -> None:
        setattr(owner, name, real)
        real(*arguments)
        raise Interrupted

    setattr(owner, name, interrupted)


def a_limit_that_leaves_no_room_for_any_command_is_named() -> None:
    bench = Bench()
    tight = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, limits=Limits(memory=1_000_000))
    with pytest.raises(ConfinementError, match=r"`limits\.memory` is 1,000,000 bytes; nothing was run"):
        bench.run("true", tight)
    if os.geteuid():  # root is bound by none
        tight = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, limits=Limits(processes=1))
        with pytest.raises(ConfinementError, match=r"`limits\.processes` is 1; nothing was run"):
            bench.run("true", tight)
    assert bench.out("echo again") == "again\n"


def what_cannot_be_held_is_not_started() -> None:
    """A spawner has two descriptors of each command."""
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    bench = Bench()
    bench.out("true")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    begun: list[RunningCommand] = []
    with pytest.raises(ConfinementError, match="no more processes"):
        while len(begun) < 64:
            begun.append(bench.session.start(bench.request(f"echo > {len(begun)}; sleep 1000")))
    assert len(begun) >= 16
    wait_until(lambda: len(os.listdir()) == len(begun))
    begun[0].cancel()
    assert begun[0].wait().cancelled and bench.out("echo again") == "again\n"


def who_is_interrupted_leaves_no_pen_to_others() -> None:
    """What the keeper was asked by one policy is no answer to the question of another."""
    bench = Bench()
    _interrupt_next(channel, "send")
    with pytest.raises(Interrupted):
        bench.run("true", WORKSPACE)
    bench.fails("echo > made", "Read-only file system", READ_ONLY)
    bench.out("echo > made", WORKSPACE)


def who_is_interrupted_leaves_no_environment_to_others() -> None:
    bench = Bench()
    bench.out("true")
    _interrupt_next(channel, "send")
    with pytest.raises(Interrupted):
        bench.run("true", variables={"SECRET": "of one"})
    assert bench.out("echo ${SECRET-none}") == "none\n"


def who_is_interrupted_leaves_no_deed_to_others() -> None:
    bench = Bench()
    here = os.stat(".")
    one, two = (
        MakeChange(
            FileChange(
                "open",
                (ChangedEntry(bench.work, (here.st_dev, here.st_ino), name, None),),
                (CREATE, 0o600, 0o022),
            )
        )
        for name in (b"one", b"two")
    )
    granter = GranterClient(bench.session.keeper)
    error, made = granter.ask(one)
    assert not error and made is not None
    os.close(made)
    os.unlink("one")
    _interrupt_next(channel, "send")
    with pytest.raises(Interrupted):
        granter.ask(one)
    error, made = granter.ask(two)
    assert not error and made is not None
    assert os.readlink(f"/proc/self/fd/{channel.taken(made)}") == f"{bench.work}/two"
    granter.close()


def who_is_interrupted_leaves_no_command_running() -> None:
    bench = Bench()
    bench.out("true")
    _interrupt_next(Pen, "answers")
    with pytest.raises(Interrupted):
        bench.run("sleep 1000")
    assert bench.out("cat /proc/[0-9]*/comm").split().count("sleep") == 0
    bench.session.close_idle(1e-9)
    assert not bench.session.pens


def who_is_interrupted_leaves_no_end_to_others() -> None:
    """That one command was ended is not said of the next."""
    bench = Bench()
    bench.out("true")
    init = bench.session.init
    real, control = channel.receive_bytes, init.control

    def interrupted(way: socket.socket, size: int) -> tuple[bytes, list[int]]:
        if way is control:
            channel.receive_bytes = real
            raise Interrupted
        return real(way, size)

    channel.receive_bytes = interrupted  # type: ignore[assignment]
    with pytest.raises(Interrupted):
        bench.session.kill(12345)
    init.reach().close()
    for _ in range(5):
        running = bench.session.start(bench.request("sleep 1000"))
        running.cancel()
        assert running.wait().exit_code != 0
    assert not init._exchange(1, 0)[1]


def a_terminal_that_does_not_come_ends_the_command() -> None:
    bench = Bench()

    def starved(channel: socket.socket) -> int:
        most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            return receive_terminal(channel)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

    command_module.receive_terminal = starved
    try:
        bench.session.start(bench.request("echo > began; sleep 1000", terminal=(24, 80)))
    except ConfinementError as error:
        assert "terminal" in str(error)
    else:
        raise AssertionError("there was no room for its terminal")
    command_module.receive_terminal = receive_terminal
    assert [pen.running for _, pen in bench.session.pens] == [0]
    wait_until(lambda: "sleep" not in bench.out("ps -eo comm"))
    assert bench.session.start(bench.request("tty", terminal=(24, 80))).wait().stdout == b"/dev/pts/0\r\n"


def what_is_typed_is_counted_and_goes_nowhere_after_the_end() -> None:
    bench = Bench()
    command = bench.session.start(bench.request("stty raw -echo; echo ready; sleep 1000", terminal=(24, 80)))
    following = command.events()
    next(following)
    typed = 0
    while typed < 1 << 20:
        try:
            typed += command.write(b"x" * 4096)
        except BlockingIOError:
            break
    assert 0 < typed < 1 << 20, "nobody reads it, so only a part is taken"
    command.cancel()
    assert isinstance(list(following)[-1], Exited)
    others = [os.open("typed", os.O_RDWR | os.O_CREAT, 0o600) for _ in range(20)]
    try:
        command.write(b"x")
    except ConfinementError:
        pass
    else:
        raise AssertionError("something was typed after the end")
    assert os.path.getsize("typed") == 0 and others


def spawners_are_signalled_by_handle() -> None:
    bench = Bench()
    bench.out("true")
    pen = bench.session.pens[0][1]
    bystander = subprocess.Popen(["sleep", "1000"])
    # As if the number of a spawner that has ended had been given again.
    kill(pen.pid)
    pen.pid = bystander.pid
    limit = resource.prlimit(bystander.pid, RLIMIT_RTTIME)
    assert bench.out("echo another") == "another\n"
    assert bystander.poll() is None and resource.prlimit(bystander.pid, RLIMIT_RTTIME) == limit
    bystander.kill()
    bystander.wait()


def a_dead_keeper_is_reaped_and_another_taken() -> None:
    bench = Bench()
    bench.out("true")
    keeper = bench.session.keeper.pid
    assert bench.session.is_alive()
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not bench.session.is_alive())
    again = bench.backend.open_session([bench.work])
    assert not os.path.exists(f"/proc/{keeper}"), "it is a zombie still"
    assert again.is_alive() and again.run(bench.request("echo hi")).stdout == b"hi\n"
    assert not bench.session.is_alive()
    bench.session.close()
    assert again.run(bench.request("echo hi")).stdout == b"hi\n"
    # A session whose init was ended is no good either, though its keeper is.
    os.kill(again.pid, signal.SIGKILL)
    wait_until(lambda: not again.is_alive())
    third = bench.backend.open_session([bench.work])
    assert third.keeper is again.keeper and third.run(bench.request("echo hi")).stdout == b"hi\n"


PROBES = probes_of(globals(), "git")

if __name__ == "__main__":
    run(globals())
