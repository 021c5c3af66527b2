"""What git can do in a pen with protected names, and that no command can misuse it."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from glob import glob
from typing import Any

from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import Limits, PolicyType, SandboxPolicy
from pinfold.sandbox.backend import CommandResult, StartRequest
from pinfold.sandbox.linux.host.backend import LinuxBackend
from pinfold.sandbox.linux.protocol.pen_registry import WARDEN, building, fresh_socket, take_name
from pinfold.workspace.scan import WorkspaceScanner
from tests.patience import wait_until
from tests.probe_module import OPEN, PYTHON, among_themselves, probes_of, run
from tests.processes import wardens_of

WRITING = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)
BLOCKED = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True)


class Bench:
    def __init__(self, *roots: str) -> None:
        self.roots = [os.path.abspath(root) for root in roots or (".",)]
        self.backend = LinuxBackend()
        self.session = self.backend.open_session(self.roots, WorkspaceScanner(self.roots, os.environ["HOME"]))
        OPEN.append(self)

    def run(self, command: str, policy: SandboxPolicy = WRITING, **more: Any) -> CommandResult:
        return self.session.run(StartRequest(command, policy, more.pop("cwd", self.roots[0]), **more))

    def out(self, command: str, policy: SandboxPolicy = WRITING, **more: Any) -> str:
        result = self.run(command, policy, **more)
        assert result.exit_code == 0, (command, result)
        return os.fsdecode(result.stdout)

    def fails(self, command: str, policy: SandboxPolicy = WRITING, **more: Any) -> CommandResult:
        result = self.run(command, policy, **more)
        assert result.exit_code, (command, result)
        return result

    def close(self) -> None:
        self.session.close()
        self.backend.close()


def git(*arguments: str, cwd: str = ".") -> str:
    done = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done)
    return done.stdout


def repository(path: str) -> None:
    git("init", "-q", "-b", "main", path)
    git("config", "user.name", "A", cwd=path)
    git("config", "user.email", "a@b", cwd=path)
    with open(f"{path}/file", "w") as file:
        file.write("one\n")
    git("add", ".", cwd=path)
    git("commit", "-q", "-m", "first", cwd=path)


def listing(top: str = ".") -> list[str]:
    return sorted(os.path.join(where, name) for where, ds, fs in os.walk(top) for name in (*ds, *fs))


EVERYDAY = """set -e
echo two > file; git commit -qam second
git branch topic; git checkout -q topic; echo three > other; git add other; git commit -qm third
git checkout -q -; git merge -q --no-ff -m merged topic; git branch -q -d topic
echo four > file; git stash -q; git stash pop -q; git checkout -q -- file
git tag v1; git rebase -q HEAD~1; git reset -q --hard HEAD; git gc -q; git status --porcelain
"""


def everyday_work_in_a_plain_repository() -> None:
    repository("one")
    bench = Bench("one")
    assert bench.out(EVERYDAY) == ""
    git("fsck", "--strict", cwd="one")
    closes("one/.git", bench, "one")


def closes(directory: str, bench: Bench, where: str) -> None:
    """No file in a git directory that makes git run something, or lead it elsewhere, can be made."""
    at = os.path.abspath(directory)
    cwd = os.path.abspath(where)
    before = {name: read(f"{at}/{name}") for name in ("config", "commondir", "gitdir")}
    for name in ("hooks/pre-commit", "config", "config.worktree", "info/attributes", "commondir", "gitdir",
                 "objects/info/alternates", "modules/x/hooks/post-checkout", "modules/x/config"):  # fmt: skip
        bench.run(f"mkdir -p {at}/modules/x/hooks {at}/info; echo x >> {at}/{name}", cwd=cwd)
        bench.run(f"echo x > {at}/y; mv -f {at}/y {at}/{name}", cwd=cwd)
        bench.run(f"echo x > {at}/y; ln -f {at}/y {at}/{name}; ln -sf {at}/y {at}/{name}", cwd=cwd)
        bench.run(f"rm -f {at}/y", cwd=cwd)
        if name in before:
            assert read(f"{at}/{name}") == before[name], name
        else:
            assert not os.path.lexists(f"{at}/{name}"), name
    bench.fails(f"mv {at} {at}2 || {PYTHON} -c \"import os; os.rename('{at}', '{at}2')\"", cwd=cwd)
    bench.fails(f"mv {at}/hooks {at}/hooks2", cwd=cwd)
    bench.run(f"rmdir {at}/modules/x/hooks {at}/modules/x {at}/modules", cwd=cwd)


def read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def work_in_a_linked_worktree_whose_repository_is_elsewhere() -> None:
    home = os.environ["HOME"]
    repository(f"{home}/main")
    git("worktree", "add", "-q", os.path.abspath("linked"), "-b", "side", cwd=f"{home}/main")
    git("worktree", "add", "-q", f"{home}/third", "-b", "third", cwd=f"{home}/main")
    bench = Bench("linked")
    assert bench.out(EVERYDAY.replace("; git gc -q", "")) == ""
    git("fsck", "--strict", cwd=f"{home}/main")
    assert git("log", "--oneline", "side", cwd=f"{home}/main").count("\n") > 2
    main = f"{home}/main/.git"
    before = {path: read(path) for path in listing(main) if os.path.isfile(path)}
    for name in (
        *("HEAD", "index", "config", "hooks/pre-commit", "rebase-merge/git-rebase-todo", "index.lock"),
        *("worktrees/third/HEAD", "worktrees/new/HEAD", "worktrees/linked/gitdir", "description"),
        *("worktrees/linked/commondir", "worktrees/linked/config.worktree", "objects/info/alternates"),
        *("HEAD.lock", "MERGE_HEAD", "config.lock", "packed-refs/x", "modules/x", "info/x"),
    ):
        bench.fails(f"mkdir -p {os.path.dirname(f'{main}/{name}')}; echo x > {main}/{name}")
        bench.fails(f"echo x > {main}/objects/y; mv -fT {main}/objects/y {main}/{name}")
        bench.run(f"rm -f {main}/objects/y")
    bench.fails(f"rm -rf {main}/worktrees/third")
    bench.fails(f"mv {main}/worktrees/linked {main}/worktrees/l2")
    bench.fails(f"echo > {home}/main/file")
    assert {path: read(path) for path in listing(main) if os.path.isfile(path)} == before
    for line in ("git commit -qm x --allow-empty", "git branch b"):
        bench.fails(line, BLOCKED)


def work_in_worktrees_of_a_bare_repository_beside_them() -> None:
    repository(f"{os.environ['HOME']}/origin")
    git("clone", "-q", "--bare", f"{os.environ['HOME']}/origin", ".bare")
    git("config", "user.name", "A", cwd=".bare")
    git("config", "user.email", "a@b", cwd=".bare")
    for name in ("main", "side"):
        git("worktree", "add", "-q", f"../{name}", *(("-b", "side") if name == "side" else ()), cwd=".bare")
    bench, at = Bench(), os.path.abspath("side")
    for line in ("git commit -qm x --allow-empty", "git add file"):
        bench.fails(f"echo x > file; {line}", BLOCKED, cwd=at)
    assert bench.out(EVERYDAY.replace("; git gc -q", ""), cwd=at) == ""
    git("fsck", "--strict", cwd=".bare")
    assert git("log", "--oneline", "side", cwd=".bare").count("\n") > 2
    bare = os.path.abspath(".bare")
    before = listing(".bare")
    for name in ("new", "side/modules/x", "side/worktrees"):
        bench.fails(f"mkdir -p {bare}/worktrees/{name}")
    for name in ("config", "config.worktree", "commondir", "gitdir", "hooks/x", "info/attributes"):
        for own in ("", "worktrees/main/", "worktrees/side/"):
            bench.fails(f"mkdir -p {bare}/{own}hooks {bare}/{own}info; echo x > {bare}/{own}{name}")
            bench.fails(f"echo x > {bare}/{own}y; mv -fT {bare}/{own}y {bare}/{own}{name}")
            bench.run(f"rm -f {bare}/{own}y; rmdir {bare}/{own}hooks {bare}/{own}info")
    for name in ("worktrees", "worktrees/main"):
        bench.fails(f"mv {bare}/{name} {bare}/{name}2")
    assert listing(".bare") == before


def work_in_submodules() -> None:
    """With the superproject as root, and with the submodule alone."""
    library = f"{os.environ['HOME']}/library"
    repository(library)
    for top, root in (("one", "one"), ("two", "two/libs/sub")):
        repository(top)
        sub, directory = f"{top}/libs/sub", f"{top}/.git/modules/libs/sub"
        git("-c", "protocol.file.allow=always", "submodule", "-q", "add", library, "libs/sub", cwd=top)
        git("commit", "-qm", "with a submodule", cwd=top)
        git("config", "user.name", "A", cwd=sub)
        git("config", "user.email", "a@b", cwd=sub)
        bench = Bench(root)
        assert bench.out(EVERYDAY, cwd=os.path.abspath(sub)) == ""
        git("fsck", cwd=sub)
        closes(directory, bench, sub)
        for line in ("echo > .git", "rm .git", "mv .git x", "ln -sf /tmp .git"):
            bench.fails(line, cwd=os.path.abspath(sub))
        for line in ("git commit -qm x --allow-empty", "git branch b"):
            bench.fails(line, BLOCKED, cwd=os.path.abspath(sub))
    bench.fails(f"echo > {os.path.abspath('two/.git/index')}")


def a_git_file_that_nothing_leads_back_to_opens_nothing() -> None:
    home = os.environ["HOME"]
    repository(f"{home}/victim")
    os.mkdir("work")
    for target in (f"{home}/victim/.git", f"{home}/victim/.git/worktrees/x"):
        with open("work/.git", "w") as file:
            file.write(f"gitdir: {target}\n")
        bench = Bench("work")
        bench.fails(f"echo > {home}/victim/.git/objects/x")
        bench.fails("git -c user.name=A -c user.email=a@b commit -qm x --allow-empty")
        bench.close()
    os.unlink("work/.git")
    bench = Bench("work")
    bench.fails(f"echo 'gitdir: {home}/victim/.git' > .git")
    bench.fails(f"ln -s {home}/victim/.git .git")
    bench.fails("echo x > y; mv y .git")


def no_repository_is_made_under_another_name() -> None:
    os.mkdir("code")
    git("init", "-q", "--bare", "code/theirs.git")
    bench = Bench("code")
    bench.fails("git init -q --bare new")
    for last, *others in (
        ("HEAD", "objects", "refs"),
        ("objects", "HEAD", "refs"),
        ("refs", "objects", "HEAD"),
        ("HEAD", "commondir"),
        ("commondir", "HEAD"),
    ):
        make = {
            name: f"mkdir {name}" if name[0] in "or" else f"echo ref: x > {name}" for name in (last, *others)
        }
        bench.run("rm -rf bad x")
        bench.out("mkdir bad && cd bad && " + " && ".join(make[name] for name in others))
        bench.fails(f"cd bad && {make[last]}")
        bench.fails(f"mkdir x && cd x && {make[last]} && mv {last} ../bad/{last}")
        bench.fails(f"cd bad && ln -s ../x {last}")
        assert last not in os.listdir("code/bad")
    closes("code/theirs.git", bench, "code")
    bench.out("mkdir a && cd a && mkdir objects refs && touch HEAD.txt config")


def blocked_git_writes_close_it_all() -> None:
    repository("one")
    bench = Bench("one")
    before = listing("one")
    bench.out("git log -1 && git status && echo new > file", BLOCKED)
    for line in ("git commit -qam x", "git branch b", "git stash", "git init sub", "git config user.name x"):
        bench.fails(line, BLOCKED)
    bench.run("rm -rf sub", BLOCKED)
    assert listing("one") == before


def new_repositories_work_and_run_nothing() -> None:
    bench = Bench()
    script = """set -e
git init -q -b main new && cd new
git config user.name A && git config user.email a@b && git config --unset user.name && git config user.name B
echo x > file && git add file && git commit -qm first
git remote add origin https://example.com/x.git && git remote set-url origin git@example.com:x/y.git
git branch -q topic && git branch -q --track follow topic && git config --list --local
cd .. && git clone -q new copy && git -C copy log --oneline && git -C copy fetch -q
"""
    text = bench.out(script)
    assert "branch.follow.merge=refs/heads/topic" in text and "user.name=B" in text
    # Git's test of file modes fails in a pen; what it records of it is still true.
    for where in ("new", "copy"):
        assert git("config", "core.fileMode", cwd=where) == "true\n"
    bench.out("git -C copy config core.fileMode false")
    assert git("config", "core.fileMode", cwd="copy") == "false\n"
    git("fsck", cwd="new")
    git("fsck", cwd="copy")
    assert "B" in git("log", "-1", "--format=%an", cwd="new")
    assert set(os.listdir("new/.git/hooks")) and all(
        n.endswith(".sample") for n in os.listdir("new/.git/hooks")
    )
    assert not [name for name in listing() if "lock" in name or "pinfold" in name]
    for where in ("new", "copy"):
        closes(f"{where}/.git", bench, where)
        # The next pen behaves the same.
        bench.session.close_idle(1e-9)
        closes(f"{where}/.git", bench, where)


def configuration_that_runs_something_is_refused() -> None:
    repository("one")
    git("config", "alias.st", "status", cwd="one")
    bench = Bench("one")
    bench.out("git init -q sub")
    for where in (".", "sub"):
        for key, value in (
            ("core.fsmonitor", "./evil"),
            ("core.hooksPath", "evil"),
            ("core.sshCommand", "evil"),
            ("alias.st", "!evil"),
            ("include.path", "../evil"),
            ("filter.x.clean", "evil"),
            ("remote.o.url", "ext::sh -c evil"),
            ("remote.o.uploadpack", "evil"),
            ("core.worktree", "/"),
            ("url.ext::x.insteadOf", "https://"),
        ):
            result = bench.fails(f"git -C {where} config '{key}' '{value}'")
            (violation,) = result.violations
            assert key.lower().split(".")[0] in violation.why and violation.path.endswith("/.git/config"), (
                result
            )
        assert b"evil" not in (read(f"one/{where}/.git/config") or b"")
    bench.fails("git config --unset alias.st")
    bench.out("git config user.name C && git remote add o https://example.com/a && git st")
    assert git("config", "alias.st", cwd="one") == "status\n"
    assert git("config", "user.name", cwd="one") == "C\n"
    assert not os.path.exists("one/.git/config.lock")


def a_configuration_that_is_held_open_is_not_taken() -> None:
    """The program that wrote the lock file, and every name of that file, has no hold on the configuration."""
    bench = Bench()
    script = """
import os, subprocess
subprocess.run(["git", "init", "-q", "new"], check=True)
os.chdir("new/.git")
lock = open("config.lock", "w+")
lock.write("[user]\\n\\tname = A\\n"); lock.flush()
os.link("config.lock", "other")
os.rename("config.lock", "config")
lock.write("[core]\\n\\tfsmonitor = ./evil\\n"); lock.flush()
with open("other", "a") as other:
    other.write("[core]\\n\\tpager = ./evil\\n")
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_TRUNC):
    try:
        os.open("config", flags)
    except OSError as error:
        assert error.errno == 30, error
    else:
        raise SystemExit("it could be opened")
path = os.open("config", os.O_PATH)
try:
    os.open(f"/proc/self/fd/{path}", os.O_WRONLY)
except OSError as error:
    assert error.errno == 30, error
else:
    raise SystemExit("it could be opened by its descriptor")
"""
    with open("script.py", "w") as file:
        file.write(script)
    bench.out(f"{PYTHON} script.py")
    assert read("new/.git/config") == b"[user]\n\tname = A\n"


def a_lock_that_is_no_file_of_its_own_is_refused() -> None:
    repository("one")
    before = read("one/.git/config")
    bench = Bench("one")
    bench.fails("ln -s /etc/passwd .git/config.lock && mv .git/config.lock .git/config")
    bench.run("rm -f .git/config.lock")
    bench.fails("mkfifo .git/config.lock && mv .git/config.lock .git/config", timeout=20)
    bench.run("rm -f .git/config.lock")
    bench.fails("mkdir .git/config.lock && mv -T .git/config.lock .git/config")
    bench.fails("mkdir x && printf '[user]\\n' > x/config.lock && mv x/config.lock .git/config")
    assert read("one/.git/config") == before


MAKING = """
import os, subprocess, sys
made, troubles = 0, []
for n in range(int(sys.argv[1])):
    git = subprocess.run(["git", "init", "-q", f"r{n}"], capture_output=True, text=True)
    made += git.returncode == 0
    troubles += [git.stderr] if git.returncode else []
open("stop", "w").close()
print(made, *troubles)
"""
GRASPING = """
import os, sys
count, flags, opens = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "opens"
caught = []
for n in range(count):
    turns = 0
    while True:
        turns += 1
        if turns % 1000 == 0 and os.path.exists("stop"):
            break
        try:
            if opens:
                os.chmod(f"r{n}/.git", 0o755)
            caught.append(os.open(f"r{n}/.git/config", flags))
            break
        except OSError:
            pass
wrote = 0
for descriptor in caught:
    try:
        again = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY)
        wrote += os.write(again, b"[core]\\nfsmonitor = evil") > 0
    except OSError:
        pass
print(len(caught), wrote)
"""
RACES = (
    (os.O_WRONLY, "waits"),
    (os.O_PATH, "waits"),
    (os.O_PATH, "opens"),
    (os.O_RDWR, "opens"),
)


def nobody_gets_hold_of_a_configuration_while_it_is_born() -> None:
    """A program opens each new configuration as soon as it can, to write it later."""
    bench = Bench()
    for flags, opens in RACES:
        race_for(25, bench, WRITING, flags, opens, makers=bench)


def nor_do_other_pens_of_the_session_and_of_others() -> None:
    bench, other = Bench(), Bench()
    for flags, opens in RACES:
        race_for(6, bench, replace(WRITING, limits=Limits(processes=500)), flags, opens, makers=bench)
    for policy, flags, opens in ((WRITING, os.O_PATH, "waits"), (BLOCKED, os.O_WRONLY, "waits")):
        race_for(6, other, policy, flags, opens, makers=bench)


def race_for(count: int, bench: Bench, policy: SandboxPolicy, flags: int, opens: str, makers: Bench) -> None:
    for name, text in (("making.py", MAKING), ("grasping.py", GRASPING)):
        with open(name, "w") as file:
            file.write(text)
    grasping = bench.session.start(
        StartRequest(f"{PYTHON} grasping.py {count} {flags} {opens}", policy, bench.roots[0], timeout=60)
    )
    told = makers.out(f"{PYTHON} making.py {count}", timeout=60)
    caught = grasping.wait()
    assert caught.exit_code == 0, caught
    print(flags, opens, caught.stdout.split(), told.split())
    texts = [read(f"r{n}/.git/config") or b"" for n in range(count)]
    assert not any(b"evil" in text for text in texts), told
    assert opens == "opens" or all(texts), told
    os.unlink("stop")
    for name in glob("r[0-9]*"):
        shutil.rmtree(name)


def what_another_pen_cannot_be_told_of_is_not_born() -> None:
    among_themselves()
    bench = Bench()
    silent = fresh_socket()
    take_name(silent, WARDEN)
    (refused,) = bench.fails("git init -q new").violations
    assert refused.path == os.path.abspath("new/.git/config")
    assert "another sandbox does not answer" in refused.why
    assert not os.path.lexists("new/.git/config") and os.path.isdir("new/.git/refs")
    silent.close()
    bench.out("git init -q new")
    assert read("new/.git/config")


def a_stopped_pen_keeps_nobody_elsewhere_from_making_repositories() -> None:
    """Nor does one that may only read here. One that may write here does."""
    among_themselves()
    for name in ("mine/inner", "others"):
        os.makedirs(name)
    os.chmod(".", 0o700)  # root's pens have another directory in place of one that is root's alone
    reading = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
    for roots, policy, is_waited_for in (
        (("others",), WRITING, False),
        (("mine",), reading, False),
        (("others", "mine/inner"), WRITING, True),
        ((".",), WRITING, True),
    ):
        maker, stopped = Bench("mine"), Bench(*roots)
        stopped.out("true", policy)
        assert stopped.backend.keeper
        (warden,) = wardens_of(stopped.backend.keeper.pid)
        os.kill(warden, signal.SIGSTOP)
        try:
            made = maker.run("git init -q inner/new")
        finally:
            os.kill(warden, signal.SIGKILL)
        assert (made.exit_code == 0) is not is_waited_for, (roots, made)
        shutil.rmtree("mine/inner/new")
    with building([os.path.abspath("others")]):
        maker.out("git init -q inner/new")


def a_pen_that_is_being_built_is_waited_for() -> None:
    among_themselves()
    bench = Bench()
    with building(["/"]):
        running = bench.session.start(StartRequest("git init -q new", WRITING, bench.roots[0]))
        wait_until(lambda: os.path.exists("new/.git") and not os.stat("new/.git").st_mode & 0o777)
        time.sleep(0.1)  # it must not go on
        assert not os.stat("new/.git").st_mode & 0o777
    assert running.wait().exit_code == 0


def nothing_is_left_in_the_tree_even_when_killed() -> None:
    repository("one")
    before, status = listing("one"), git("status", "--porcelain", "--ignored", cwd="one")
    config = read("one/.git/config")
    bench = Bench("one")
    bench.out("true")
    assert listing("one") == before
    for n in range(12):
        command = bench.session.start(
            StartRequest("while :; do git config user.name $RANDOM; done", WRITING, bench.roots[0])
        )
        time.sleep(0.05 + n * 0.003)
        if n == 11:
            assert bench.backend.keeper
            os.kill(bench.backend.keeper.pid, signal.SIGKILL)
            with suppress(ConfinementError):
                command.wait()
            # Pid 1 is gone once all processes of its namespace are.
            wait_until(lambda: not os.path.exists(f"/proc/{bench.session.pid}"))
        else:
            command.cancel()
            command.wait()
        # Files that git leaves when it is killed; a call that the warden had begun may end only now.
        with suppress(FileNotFoundError):
            os.unlink("one/.git/config.lock")
        assert git("config", "user.email", cwd="one") == "a@b\n"
    assert listing("one") == before and git("status", "--porcelain", "--ignored", cwd="one") == status
    git("config", "user.name", "A", cwd="one")
    assert config == read("one/.git/config")


PROBES = probes_of(globals(), "git", "repository", "listing", "closes", "read", "race_for")

if __name__ == "__main__":
    os.environ |= {"GIT_CONFIG_NOSYSTEM": "1"}
    run(globals())
