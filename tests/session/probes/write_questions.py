"""What holds of calls that wait for a person: each function runs in a child, as root and as another user."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from msgspec.structs import replace

import pinfold
from pinfold.audit.tail_file import TailFile
from pinfold.model.machine import Layer
from pinfold.model.policy import PolicyType
from pinfold.policy.grants import GrantContext
from pinfold.sandbox.backend import StartRequest
from pinfold.sandbox.linux.host.backend import LinuxBackend
from pinfold.session import open_parts
from pinfold.session.serialize import result_as_plain
from pinfold.settings import files, sources
from pinfold.state.directory import state_directory
from pinfold.workspace import rm_targets
from tests.patience import PATIENCE, wait_until
from tests.probe_module import probes_of, run
from tests.processes import wardens_of
from tests.sandbox.probes.protected_names import RUN_AT_ONCE
from tests.session.probes.run import journal

NO, ONCE = pinfold.Answer.NO, pinfold.Answer.ONCE
SESSION = pinfold.Reply(pinfold.Answer.SESSION, pinfold.Reach.TARGET)
DIRECTORY = pinfold.Reply(pinfold.Answer.SESSION, pinfold.Reach.DIRECTORY)
HOME = os.environ.get("HOME", "")
OUT = f"{HOME}/out"


class Person:
    """Answers calls that wait, as told; `meanwhile` is done while they wait."""

    name = "a test"

    def __init__(
        self,
        answer: pinfold.Answer | pinfold.Reply = ONCE,
        meanwhile: Callable[[str], None] | None = None,
    ) -> None:
        self.answer = answer
        self.meanwhile = meanwhile
        self.asked: list[pinfold.PermissionNeeded] = []

    def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer | pinfold.Reply:
        self.asked.append(question)
        if self.meanwhile:
            self.meanwhile(question.path)
        return self.answer

    @property
    def paths(self) -> list[str]:
        return [question.path for question in self.asked]


def opened(person: Person, settings: dict[str, Any] | None = None) -> pinfold.Session:
    os.makedirs(OUT, exist_ok=True)
    return pinfold.Session([os.getcwd()], settings=settings or {}, approvers=[person])


def _plan_of(session: pinfold.Session) -> str:
    """How the pen of its next command is built."""
    context = session._resources.now()
    return session.sandboxes.sandboxed().plan(session._resources.widened(context.policy, context))


def until(event: threading.Event) -> Callable[[str], None]:
    """What a person does meanwhile who takes their time."""

    def wait(_path: str) -> None:
        event.wait(60)

    return wait


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(path: str, text: str = "old\n") -> str:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def python(program: str, *words: str) -> list[str]:
    return ["/usr/bin/python3", "-c", program, *words]


# What is granted goes on as if it had always been allowed.


def what_was_granted_can_be_run_at_once() -> None:
    person = Person(pinfold.Answer.ONCE)
    with opened(person) as session:
        result = session.run(python(RUN_AT_ONCE, OUT, "40"))
    assert result.exit_code == 0, result.stderr
    assert len(person.asked) == 40


def a_question_tells_arguments_apart() -> None:
    """What an answer is remembered for is the command that was run, not one that reads like it."""
    person = Person()
    with opened(person) as session:
        for words in (("a b", "c"), ("a", "b c")):
            session.run(python(f"open('{OUT}/told', 'w')", *words))
    assert [question.command.rpartition(" ")[2] for question in person.asked] == ["c", "c'"], person.asked
    assert len({question.command for question in person.asked}) == 2


def a_granted_create_is_the_callers_own() -> None:
    person = Person()
    with opened(person) as session:
        result = session.run(f"umask 027; echo hi > {OUT}/new; cat {OUT}/new; stat -c '%a %u' {OUT}/new")
        assert result.stdout == f"hi\n640 {os.geteuid()}\n" and not result.violations, result
    (question,) = person.asked
    assert (question.capability, question.operation) == ("write", "open")
    assert (question.path, question.program) == (f"{OUT}/new", "bash")
    assert f"{OUT}/new" in question.decision.reasons[0].message and question.command.startswith("umask")


def a_granted_open_has_the_callers_flags() -> None:
    write(f"{OUT}/old", "12345")
    program = (
        "import os, sys, fcntl; p = sys.argv[1]\n"
        "a = os.open(p, os.O_WRONLY | os.O_APPEND); os.write(a, b'6'); os.lseek(a, 0, 0); os.write(a, b'7')\n"
        "assert fcntl.fcntl(a, fcntl.F_GETFD) & fcntl.FD_CLOEXEC\n"
        "b = os.open(p, os.O_RDWR); assert os.read(b, 9) == b'1234567'\n"
        "c = os.open(p, os.O_WRONLY | os.O_TRUNC); assert os.fstat(c).st_size == 0; os.write(c, b'new')\n"
        "assert not fcntl.fcntl(c, fcntl.F_GETFL) & os.O_APPEND\n"
    )
    person = Person()
    with opened(person) as session:
        result = session.run(python(program, f"{OUT}/old"))
        assert result.exit_code == 0, result
    assert len(person.asked) == 1 and read(f"{OUT}/old") == "new"


def every_change_that_is_seen_can_be_granted() -> None:
    write(f"{OUT}/a")
    write(f"{OUT}/gone")
    os.mkdir(f"{OUT}/empty")
    write("mine", "mine\n")
    program = (
        "import os, sys; o = sys.argv[1] + '/'\n"
        "os.mkdir(o + 'd', 0o700); os.mknod(o + 'n'); os.symlink('a', o + 's'); os.link(o + 'a', o + 'l')\n"
        "os.rename(o + 'a', o + 'b'); os.unlink(o + 'gone'); os.rmdir(o + 'empty')\n"
        "os.truncate(o + 'b', 1); os.chmod(o + 'b', 0o600); os.rename('mine', o + 'l')\n"
        "os.mkfifo(o + 'f'); fd = os.open(o, os.O_RDONLY); os.unlink('n', dir_fd=fd)\n"
        "os.chdir(o); os.truncate('l', 2); open('l', 'r+').write('x')\n"
    )
    person = Person()
    with opened(person) as session:
        result = session.run(python(program, OUT))
        assert result.exit_code == 0 and not result.violations, result
    assert sorted(os.listdir(OUT)) == ["b", "d", "f", "l", "s"]
    assert read(f"{OUT}/b") == "o" and read(f"{OUT}/l") == "xi" and not os.path.exists("mine")
    assert os.stat(f"{OUT}/b").st_mode & 0o777 == 0o600 and os.readlink(f"{OUT}/s") == "a"
    operations = {question.operation for question in person.asked}
    assert operations == {
        *("mkdir", "mknod", "symlink", "link", "rename", "unlink", "rmdir", "truncate", "chmod")
    }, operations


def whoever_looks_first_is_told_to_try() -> None:
    """A plain file that only the fence closes may be asked about, so `rm` at a terminal gets to try; so does
    `rm -r`, of a directory."""
    write(f"{OUT}/file")
    write(f"{OUT}/closed")
    os.mkdir(f"{OUT}/directory")
    os.chmod(f"{OUT}/closed", 0o444)
    os.symlink(f"{OUT}/file", "link")
    write(".git/config", "")
    program = (
        "import os, sys; out = sys.argv[1]; say = lambda p, m=os.W_OK: print(int(os.access(p, m)))\n"
        "say(out + '/file'); say('link'); say(out + '/file', os.W_OK | os.R_OK); say('.git/config')\n"
        "say(out + '/file', os.W_OK | os.X_OK); say(out + '/directory'); say('/usr'); say(out + '/none')\n"
        "say('/proc/sys/kernel/hostname'); say('/etc/passwd') if os.geteuid() else print(0)\n"
        "say(out + '/closed') if os.geteuid() else print(0)\n"
        "os.chdir(out); say('file'); fd = os.open('.', os.O_RDONLY)\n"
        "print(int(os.access('file', os.W_OK, dir_fd=fd, effective_ids=True, follow_symlinks=False)))\n"
    )
    person = Person()
    with opened(person) as session:
        result = session.run(python(program, OUT))
        assert result.stdout.split() == [*"1111", *"0000", *"00", "0", *"11"], result
        assert not person.asked and not result.violations
        run = session.start(f"rm {OUT}/file", terminal=(24, 80))
        assert run.wait().exit_code == 0 and person.paths == [f"{OUT}/file"]
        write(f"{OUT}/directory/file")
        run = session.start(f"rm -r {OUT}/directory", terminal=(24, 80))
        assert run.wait().exit_code == 0, run.wait()
        assert person.paths[1:] == [f"{OUT}/directory"]
    assert not os.path.exists(f"{OUT}/file") and not os.path.exists(f"{OUT}/directory")
    with opened(Person(), {"filesystem": {"ask": False}}) as session:
        write(f"{OUT}/file")
        assert session.run(f"test -w {OUT}/file").exit_code == 1


def what_rm_deletes_as_a_whole_is_asked_about_once() -> None:
    """And what is protected by its name, or not said to go by the line itself, by itself."""

    def planted(*names: str) -> None:
        for name in names:
            os.makedirs(os.path.dirname(f"{OUT}/{name}"), exist_ok=True)
            write(f"{OUT}/{name}")

    for answer, code in ((NO, 1), (ONCE, 0)):
        person = Person(answer)
        planted("tree/1", "tree/2", "tree/deep/3", "other")
        with opened(person) as session:
            result = session.run(f"rm -r {OUT}/tree")
            assert result.exit_code == code, result
            (question,) = person.asked
            assert (question.operation, question.path) == ("rmtree", f"{OUT}/tree")
            assert f"delete all of {OUT}/tree" in question.decision.reasons[0].message
            assert os.path.exists(f"{OUT}/tree/deep/3") is (answer is NO)
            session.run(f"rm {OUT}/other")
            assert person.paths[1:] == [f"{OUT}/other"]
    planted("tree/1", "tree/2", "tree/.vscode/tasks.json")
    with opened(person := Person(SESSION)) as session:
        assert session.run(f"rm -rf {OUT}/tree; echo > {OUT}/tree").exit_code == 0
        names = [f"{OUT}/tree/.vscode", f"{OUT}/tree/.vscode/tasks.json"]
        assert sorted(person.paths) == [f"{OUT}/tree", f"{OUT}/tree", *names]
        write_asked = {question.operation for question in person.asked if question.path == f"{OUT}/tree"}
        assert write_asked == {"rmtree", "open"}  # leave to delete is not leave to write
    # What is hidden lies in it; another program; a name that only the shell knows.
    os.remove(f"{OUT}/tree")
    for line, hide in (
        ("rm -r {}/tree", [f"{OUT}/tree/2"]),
        ("find {}/tree -delete", []),
        ("x={}/tree; rm -r $x", []),
    ):
        planted("tree/1", "tree/2")
        with opened(person := Person(NO), {"filesystem": {"hide": hide}}) as session:
            session.run(line.format(OUT))
            assert "rmtree" not in {question.operation for question in person.asked} and person.asked, line


def a_link_is_followed_before_anybody_is_asked() -> None:
    write(f"{OUT}/real")
    os.symlink(f"{OUT}/real", "link")
    os.symlink(f"{OUT}/made", "dangling")
    person = Person()
    with opened(person) as session:
        assert session.run("echo 1 > link; echo 2 > dangling").exit_code == 0
    assert person.paths == [f"{OUT}/real", f"{OUT}/made"] and read(f"{OUT}/made") == "2\n"


def what_would_fail_by_itself_asks_nobody() -> None:
    write(f"{OUT}/there")
    person = Person()
    with opened(person) as session:
        result = session.run(
            f"mkdir {OUT}/there; set -C; echo > {OUT}/there; rm {OUT}/none; rmdir {OUT}/there;"
            f" cat < {OUT}/none;"
            f" echo > {OUT}/none/x; echo > /dev/null; echo > /proc/self/comm; truncate -s 0 /dev/null; true"
        )
        assert "File exists" in result.stderr and "cannot overwrite" in result.stderr, result
        if os.geteuid():
            session.run("echo > /etc/hostname; echo > /etc/new; rm /etc/hostname")
    assert not person.asked, person.paths


# No.


def no_is_final_for_a_command() -> None:
    person = Person(NO)
    with opened(person) as session:
        result = session.run(f"for n in 1 2 3 4; do echo > {OUT}/new; done")
        assert result.stderr.count("Read-only file system") == 4
        (violation,) = result.violations
        assert violation.answered == "a test said no" and violation.times == 4
        assert violation.why == "it is outside the writable directories; a test said no"
        assert len(person.asked) == 1 and not os.path.exists(f"{OUT}/new")
        session.run(f"echo > {OUT}/new")
        assert len(person.asked) == 2
    told = [entry.data for entry in journal() if entry.kind == "elevation"]
    assert [each["answer"] for each in told] == ["no", "no"] and told[0]["paths"] == [f"{OUT}/new"]


def nobody_is_asked_where_settings_or_the_policy_say_no() -> None:
    person = Person()
    with opened(person, {"filesystem": {"ask": False}}) as session:
        assert session.run(f"echo > {OUT}/new").exit_code
    assert not person.asked and os.listdir(OUT) == []


def under_the_read_only_policy_a_person_is_asked_about_writes_in_the_workspace() -> None:
    person = Person()
    write("there")
    read_only = {"sandbox": {"policy": "read-only"}}
    with opened(person, read_only) as session:
        assert (
            session.run(
                f"echo a > there; echo b > new; mkdir d; chmod 600 there; echo c > {OUT}/new"
            ).exit_code
            == 0
        )
        assert person.paths == [
            os.path.abspath(each) for each in ("there", "new", "d", "there", f"{OUT}/new")
        ]
        assert (read("there"), read("new"), read(f"{OUT}/new")) == ("a\n", "b\n", "c\n")
        assert session.run("rm there").exit_code == 0 and not os.path.exists("there")
        person.answer = NO
        result = session.run("echo > there; rm new")
        assert result.exit_code and len(result.violations) == 2, result
    assert os.path.exists("new") and not os.path.exists("there")


def under_the_read_only_policy_a_grant_is_for_what_was_asked_alone() -> None:
    person = Person(SESSION)
    with opened(person, {"sandbox": {"policy": "read-only"}}) as session:
        assert session.run("echo > new").exit_code == 0 and session.run("echo > new").exit_code == 0
        assert len(person.asked) == 1
        person.answer = NO
        assert session.run("echo > other").exit_code and len(person.asked) == 2
        assert session.run("mkdir new.d").exit_code and len(person.asked) == 3
    assert os.listdir() == ["new"]


def what_a_command_tried_under_the_read_only_policy_is_told() -> None:
    """In a workspace below the private /tmp too, where commands may write all else."""
    write("there")
    with tempfile.TemporaryDirectory() as below, opened(Person(), {"filesystem": {"ask": False}}) as session:
        for place in (os.getcwd(), below):
            session.add_project(place)
            policy = pinfold.SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
            line = f"echo > {place}/there; echo > {place}/new; mkdir {place}/d; echo > /tmp/free"
            result = session.run(pinfold.RunCommand(line, policy=policy))
            told = [f"{place}/{name}" for name in ("there", "new", "d")]
            assert [each.path for each in result.violations][-3:] == told, result


def the_administrators_read_only_policy_is_nobodys_to_lift() -> None:
    managed = f"{HOME}/managed.toml"
    write(managed, '[sandbox]\npolicy = "read-only"\n')
    person = Person()
    # An ordinary user's file cannot be root's, as an administrator's is.
    owned = mock.patch.object(files, "_require_owned", lambda *_: None)
    with mock.patch.object(sources, "MANAGED", managed), owned, opened(person) as session:
        result = session.run("echo > new")
        assert result.exit_code and "administrator" in result.violations[0].why, result
    assert not person.asked


def what_nobody_may_grant_is_not_asked() -> None:
    secret = write(f"{HOME}/.ssh/id_rsa")
    settings = write(f"{HOME}/.config/pinfold/settings.toml", "")
    state = state_directory(os.environ)
    code = os.path.dirname(pinfold.__file__)
    tries = (
        f"echo > {secret}",
        f"echo > {HOME}/.ssh/config",
        f"echo > {settings}",
        f"rm {settings}",
        f"mv {settings} {OUT}/x",
        f"ln {settings} {OUT}/x",
        f"echo > {HOME}/.config/pinfold/other.toml",
        f"echo > {state}/journal.sqlite",
        f"echo > {state}/journal.sqlite.new",
        f"rm {state}/journal.sqlite",
        f"chmod 777 {HOME}/.config/pinfold",
        f"echo > {code}/new.py",
        "mkdir .pinfold",
        f"mkdir {OUT}/.pinfold",
        "mkdir -p sub/.pinfold",
    )
    person = Person()
    os.makedirs(OUT)
    with pinfold.Session([os.getcwd()], approvers=[person]) as session:
        for line in tries:
            result = session.run(line)
            assert result.exit_code, line
    assert not person.asked, [(each.command, each.path) for each in person.asked]
    assert os.listdir(OUT) == [] and read(secret) == "old\n"


# For the session.


def a_session_grant_widens_later_pens() -> None:
    person = Person(SESSION)
    write(f"{OUT}/file")
    with opened(person) as session:
        assert session.run(f"echo 1 > {OUT}/file").exit_code == 0
        assert session.run(f"echo 2 > {OUT}/file; echo 3 >> {OUT}/file").exit_code == 0
        assert person.paths == [f"{OUT}/file"] and read(f"{OUT}/file") == "2\n3\n"
        plan = _plan_of(session)
        assert f"bind '{OUT}/file' True" in plan
        assert session.run(f"echo > {OUT}/other").exit_code == 0
        assert person.paths[1:] == [f"{OUT}/other"]


def leave_to_make_a_directory_is_no_leave_to_write_in_it() -> None:
    person = Person(SESSION)
    with opened(person) as session:
        assert session.run(f"mkdir {OUT}/d").exit_code == 0
        os.rmdir(f"{OUT}/d")
        assert session.run(f"mkdir {OUT}/d").exit_code == 0 and len(person.asked) == 1
        assert f"'{OUT}/d'" not in _plan_of(session)
        person.answer = NO
        assert session.run(f"echo > {OUT}/d/file").exit_code
        assert person.paths[1:] == [f"{OUT}/d/file"] and os.listdir(f"{OUT}/d") == []


def a_directory_can_be_granted() -> None:
    person = Person(DIRECTORY)
    with opened(person) as session:
        assert session.run(f"echo 1 > {OUT}/a; echo 2 > {OUT}/b; mkdir {OUT}/c").exit_code == 0
        assert session.run(f"echo 3 > {OUT}/c/d").exit_code == 0
        assert person.paths == [f"{OUT}/a"]
        person.answer = NO
        assert session.run(f"mkdir {OUT}/.vscode").exit_code
    assert not os.path.exists(f"{OUT}/.vscode")


OPENS_LATER = """
import os, sys, time
def opened(name):
    try: os.close(os.open(f"{sys.argv[1]}/{name}", os.O_RDWR | os.O_CREAT))
    except OSError: return False
    return True
print(opened("first"), opened("second"))
open("begun", "w").close()
while not os.path.exists("narrowed"): time.sleep(0.02)
print([name for name in ("second", "hidden", "protected") if opened(name)])
"""


def what_was_granted_does_not_outlast_the_settings_that_it_stood_on() -> None:
    """Nor does a command that goes on in its pen: what is hidden by now is nobody's to grant."""
    person = Person(DIRECTORY)
    with opened(person) as session:
        for name in ("hidden", "protected"):
            write(f"{OUT}/{name}")
        running = session.start(python(OPENS_LATER, OUT), timeout=60)
        wait_until(lambda: os.path.exists("begun"))
        assert person.paths == [f"{OUT}/first"]
        person.answer = NO
        session.change({"filesystem": {"hide": [f"{OUT}/hidden"], "protect": [f"{OUT}/protected"]}})
        write("narrowed")
        assert running.wait().stdout == "True True\n[]\n"
        assert person.paths[1:] == [f"{OUT}/second", f"{OUT}/protected"]
        assert session.run(f"echo new > {OUT}/third").exit_code
    assert not os.path.exists(f"{OUT}/third")


LEFT = """
{{
    for turn in 2 3; do
        until test -e go$turn; do sleep 0.02; done
        {line}
        echo $? > told$turn
    done
}} >/dev/null 2>&1 &
{line}
"""


def _is_written(path: str) -> bool:
    return os.path.exists(path) and bool(read(path))


def what_was_granted_once_ends_with_the_run() -> None:
    """What a command leaves running is asked about anew, call by call; `no` and `session` it keeps."""
    for number, line in enumerate((f"echo $turn >> {OUT}/a", f"mkdir {OUT}/b && rmdir {OUT}/b")):
        for answer in (ONCE, NO, pinfold.Answer.SESSION):
            person, place = Person(answer), f"{number}-{answer}"
            os.mkdir(place)
            with opened(person) as session:
                result = session.run(f"cd {place}; {LEFT.format(line=line)}")
                assert (result.exit_code == 0) is (answer is not NO), (line, answer)
                asked = len(person.asked)
                for turn in (2, 3):
                    told = f"{place}/told{turn}"
                    write(f"{place}/go{turn}")
                    wait_until(partial(_is_written, told))
                    assert (read(told) == "0\n") is (answer is not NO), (line, answer, turn)
            again = person.asked[asked:]
            assert len(again) == (2 * asked if answer is ONCE else 0), (line, answer, person.paths)
            assert all("has ended" in each.decision.reasons[-1].message for each in again), again


def what_was_asked_under_other_settings_is_granted_for_that_call_alone() -> None:
    person = Person(DIRECTORY)
    with opened(person) as session:
        person.meanwhile = lambda _: session.change({"filesystem": {"protect": [f"{OUT}/protected"]}})
        assert session.run(f"echo 1 > {OUT}/a").exit_code == 0
        person.answer, person.meanwhile = NO, None
        assert session.run(f"echo 2 > {OUT}/b").exit_code
        assert person.paths == [f"{OUT}/a", f"{OUT}/b"]


def a_git_directory_that_settings_protect_is_no_matter_of_git_writes() -> None:
    """It is asked about as any name of theirs, and a yes to one file in it opens no other."""
    os.makedirs(".git/objects")
    person = Person(SESSION)
    with opened(person, {"filesystem": {"protect": [".git"], "git_writes": True}}) as session:
        assert session.run("echo 1 > .git/a").exit_code == 0
        (reason,) = person.asked[0].decision.reasons
        assert reason.step == "protected" and "your settings protect it" in reason.message, reason
        person.answer = NO
        assert session.run("echo 2 > .git/b").exit_code
    assert person.paths == [f"{os.getcwd()}/.git/{name}" for name in "ab"]


def where_no_thread_is_to_be_had_the_call_hears_no_and_the_next_is_asked_about() -> None:
    start, missing = threading.Thread.start, ["pinfold-asking", "pinfold-grant"]

    def start_or_not(thread: threading.Thread) -> None:
        if thread.name in missing:
            missing.remove(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    person = Person()
    with mock.patch.object(threading.Thread, "start", start_or_not), opened(person) as session:
        line = f"for n in 1 2 3; do echo $n > {OUT}/a && echo $n; done"
        result = session.run(line, timeout=PATIENCE)
        assert (result.stdout, len(person.asked), missing) == ("3\n", 1, []), result
        assert "can't start new thread" in result.violations[0].answered, result


def a_directory_that_is_too_much_is_not_offered() -> None:
    person = Person(NO)
    with opened(person) as session:
        session.run(f"echo > {HOME}/x; echo > {os.path.dirname(os.getcwd())}/y; echo > {OUT}/z")
    offered = [bool(question.directory) for question in person.asked]
    assert offered == [False, False, True]


# Git, and what is protected in the workspace.


def what_was_moved_by_grant_has_no_other_name() -> None:
    """By which every later command could write it, and nobody would be asked."""
    subprocess.run(["git", "init", "-q", "."], check=True)
    text = read(".git/config") + "[core]\n\tfsmonitor = true\n"
    for number, target in enumerate((f"{OUT}/moved", ".git/config", ".vscode/tasks.json")):
        person = Person()
        with opened(person) as session:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            name = f"{target}.lock" if target.startswith(".git") else f"lock{number}"
            write(f"other{number}", text)
            os.chmod(f"other{number}", 0o640)
            moved = f"ln other{number} {name} && mv -T {name} {target}"
            assert session.run(moved).exit_code == 0, (moved, person.paths)
            assert person.asked and not os.path.exists(name), moved
            person.answer = NO
            assert session.run(f"echo evil > other{number}").exit_code == 0
            assert (read(target), os.stat(target).st_nlink) == (text, 1), target
            assert os.stat(target).st_mode & 0o777 == 0o640


def a_commit_asks_once() -> None:
    git = "git -c user.name=n -c user.email=e"
    subprocess.run(f"git init -q && echo 1 > f && git add f && {git} commit -qm 1", shell=True, check=True)
    person = Person()
    with opened(person) as session:
        result = session.run(f"git status; echo 2 > f; {git} commit -qam 2; git log --oneline | wc -l")
        assert result.stdout.endswith("2\n") and not result.violations, result
        assert person.paths == [f"{os.getcwd()}/.git"]
        # What git would run is a question of its own.
        person.answer = NO
        assert session.run("echo > .git/hooks/pre-commit").exit_code
        assert person.paths[1:] == [f"{os.getcwd()}/.git/hooks/pre-commit"]
        person.answer = SESSION
        session.run(f"echo 3 > f; {git} commit -qam 3")
        session.run(f"echo 4 > f; {git} commit -qam 4")
        assert len(person.asked) == 3
    assert subprocess.run(["git", "fsck"], capture_output=True).returncode == 0
    log = subprocess.run(["git", "log", "--oneline"], capture_output=True, text=True).stdout
    assert log.count("\n") == 4 and not os.path.exists(".git/hooks/pre-commit")


def a_commit_elsewhere_says_what_makes_it_one_question() -> None:
    git = f"git -C {OUT}/repo -c user.name=n -c user.email=e"
    os.makedirs(f"{OUT}/repo")
    subprocess.run(f"git init -q {OUT}/repo && echo 1 > {OUT}/repo/f && {git} add f", shell=True, check=True)
    person = Person(NO)
    with opened(person) as session:
        session.run(f"{git} commit -qm 1")
        (reason,) = person.asked[0].decision.reasons
        assert f"with {OUT}/repo in `filesystem.write`, all that git writes there" in reason.message
    person = Person()
    with opened(person, {"filesystem": {"write": [f"{OUT}/repo"]}}) as session:
        assert session.run(f"{git} commit -qm 1").exit_code == 0
    assert person.paths == [f"{OUT}/repo/.git"]


def what_git_has_already_is_not_told_as_refused() -> None:
    """Nobody inside can give an object a new time, so git writes it anew and links it to the name it has."""
    subprocess.run(["git", "init", "-q"], check=True)
    with opened(Person()) as session:
        for name in ("a", "b"):
            write(name, "same")
            added = session.run(["git", "add", name])
            assert added.exit_code == 0 and not added.violations, added
        assert "File exists" in session.run("ln .git/HEAD .git/description").stderr


def a_git_that_is_a_file_can_be_granted_as_any() -> None:
    """As those of worktrees and submodules are: git writes that of a new submodule twice."""
    git, other = f"{os.getcwd()}/sub/.git", write("tree/.git")
    os.mkdir("sub")
    person = Person()
    with opened(person, {"filesystem": {"git_writes": True}}) as session:
        twice = session.run("echo 1 > sub/.git; echo 2 >> sub/.git; cat sub/.git; rm sub/.git")
        assert (twice.stdout, twice.stderr, twice.violations) == ("1\n2\n", "", ()), twice
        asked = [(question.operation, question.path) for question in person.asked]
        assert asked == [("open", git), ("unlink", git)], asked
        person.answer = NO
        refused = session.run("echo > tree/.git; rm -f tree/.git; mv tree/.git moved")
        assert {each.operation for each in refused.violations} == {"open", "unlink", "rename"}, refused
    assert read(other) == "old\n" and not os.path.exists(git) and not os.path.exists("moved")


def a_configuration_that_is_not_harmless_is_asked_about() -> None:
    """By git's own way of writing it, as `git config` does."""
    subprocess.run(["git", "init", "-q"], check=True)
    config = f"{os.getcwd()}/.git/config"
    person = Person(NO)
    with opened(person, {"filesystem": {"git_writes": True}}) as session:
        assert session.run("git config user.name me").exit_code == 0 and not person.asked
        refused = session.run("git config core.pager less")
        (told,) = refused.violations
        assert told.path == config and "`core.pager` is not known to be harmless" in told.why, refused
        # What is in the lock may change until the answer, so the question speaks of no setting.
        (asked,) = person.asked
        assert (asked.operation, asked.path) == ("rename", config)
        assert not any("core.pager" in reason.message for reason in asked.decision.reasons)
        person.answer = ONCE
        assert session.run("git config core.pager less").exit_code == 0 and "pager = less" in read(config)
        person.answer = NO
        for line in ("echo >> .git/config", "git config core.editor x"):
            assert session.run(line).exit_code, line
    assert "editor" not in read(config) and not os.path.exists(f"{config}.lock")


def a_submodule_can_be_added() -> None:
    git = "git -c user.name=n -c user.email=e -c protocol.file.allow=always"
    made = f"git init -q && git init -q {OUT}/lib && cd {OUT}/lib && {git} commit -q --allow-empty -m 1"
    subprocess.run(made, shell=True, check=True)
    for git_writes, most in ((True, 4), (False, 7)):
        person = Person()
        with opened(person, {"filesystem": {"git_writes": git_writes}}) as session:
            added = session.run(f"{git} submodule add -q {OUT}/lib of/{git_writes}")
            assert added.exit_code == 0 and not added.violations, added
            assert len(person.asked) <= most, person.paths
            person.answer = NO
            for name in ("config", "hooks/pre-commit"):
                assert session.run(f"echo >> .git/modules/of/{git_writes}/{name}").exit_code, name
    status = subprocess.run(["git", "submodule", "status"], capture_output=True, text=True).stdout
    assert "of/True" in status and "of/False" in status


def a_new_repository_is_one_question() -> None:
    """That about its directory alone would be followed by one about each hook."""
    person = Person()
    with opened(person) as session:
        result = session.run("git init -q new")
        assert result.exit_code == 0 and not result.violations, result
        asked = [(str(question.capability), question.operation) for question in person.asked]
        assert asked == [("widen", "")], asked
        again = session.run("mkdir -p new/.git && mkdir new/.git")
        assert "File exists" in again.stderr and not again.violations and len(person.asked) == len(asked)
    assert os.path.exists("new/.git/HEAD")


def what_is_made_of_a_protected_name_stays_protected() -> None:
    person = Person()
    with opened(person) as session:
        result = session.run("mkdir .vscode; echo 1 > .vscode/tasks.json; cat .vscode/tasks.json")
        assert result.stdout == "1\n" and len(person.asked) >= 2, (result, person.paths)
        person.answer = NO
        late = session.run("echo 3 > .vscode/tasks.json; echo 3 > .vscode/more; rm .vscode/tasks.json")
        assert late.exit_code
    assert read(".vscode/tasks.json") == "1\n" and os.listdir(".vscode") == ["tasks.json"]


# Many at once.


def like_calls_are_one_question() -> None:
    seen = threading.Event()

    def meanwhile(_path: str) -> None:
        seen.wait(60)

    person = Person(ONCE, meanwhile)
    with opened(person) as session:
        run = session.start(f"for n in $(seq 40); do echo $n >> {OUT}/log & done; wait")
        wait_until(lambda: callers(session) == 40)
        seen.set()
        # One made it; for the others it is not what was asked about any more, or it was there already.
        assert run.wait().exit_code == 0
    assert person.paths == [f"{OUT}/log"]


def beyond_its_share_a_command_hears_no() -> None:
    person = Person(NO)
    with opened(person) as session:
        result = session.run(f"for n in $(seq 80); do echo > {OUT}/$n; done")
        assert len(person.asked) == 64, len(person.asked)
        assert "it has asked for 64 other things already" in result.violations[-1].why


def a_thousand_that_wait_stall_nobody() -> None:
    seen = threading.Event()
    person = Person(NO, until(seen))
    program = (
        "import threading, sys\n"
        "def one(n):\n"
        "    try: open(f'{sys.argv[1]}/{n % 20}', 'w')\n"
        "    except OSError: left.append(n)\n"
        "left = []; threading.stack_size(65536)\n"
        "all = [threading.Thread(target=one, args=(n,)) for n in range(1000)]\n"
        "[t.start() for t in all]; print('started', flush=True); [t.join() for t in all]; print(len(left))\n"
    )
    with opened(person, {"limits": {"processes": 3000}}) as session:
        before = _usual(session)
        started: list[object] = []
        waiting = session.start(python(program, OUT))
        taking = threading.Thread(target=lambda: started.extend(waiting.events()))
        taking.start()
        wait_until(lambda: bool(started) and len(person.asked) == 8)
        meanwhile = _usual(session)
        assert meanwhile < 0.5 + 3 * before, (before, meanwhile)
        seen.set()
        taking.join(30)
    assert b"".join(getattr(each, "data", b"") for each in started) == b"started\n1000\n", started


def _usual(session: pinfold.Session) -> float:
    """Seconds that a command takes which makes something."""
    times = []
    for _ in range(20):
        began = time.monotonic()
        assert session.run("echo > here; cat here; rm here").exit_code == 0
        times.append(time.monotonic() - began)
    return sorted(times)[10]


# Who waits may die, be interrupted, or be swapped for something else.

UNTIL = "until test -e {}; do sleep 0.02; done"


def callers(session: pinfold.Session) -> int:
    """How many calls wait."""
    return len(session.sandboxes.sandboxed().elevating.alive)  # type: ignore[attr-defined]


def a_caller_that_died_gets_nothing() -> None:
    going = threading.Event()
    person = Person(ONCE, until(going))
    with opened(person) as session:
        asked = UNTIL.format("asked")
        run = session.start(f"(echo > {OUT}/new) & {asked}; kill -9 $!; wait $! 2>/dev/null; echo over")
        wait_until(lambda: person.asked)
        write("asked")
        assert run.wait().stdout == "over\n" and len(person.asked) == 1
        wait_until(lambda: callers(session) == 0)
        going.set()
        wait_until(lambda: any(entry.kind == "elevation" for entry in journal()))
    assert not os.path.exists(f"{OUT}/new")


def a_question_is_withdrawn_with_its_last_caller() -> None:
    """Like calls are one question: it stands while any of them waits, and who comes later is asked anew."""

    class Patient(Person):
        withdrawn: list[str] = []

        def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer | pinfold.Reply:
            self.asked.append(question)
            wait_until(lambda: len(self.asked) > 1 or bool(self.withdrawn))
            return self.answer

        def withdraw(self, question: pinfold.PermissionNeeded) -> None:
            self.withdrawn.append(question.path)
            write("withdrawn")

    person = Patient(ONCE)
    with opened(person) as session:
        call = f"(echo > {OUT}/new) &"
        two = f"exec 2>&-; {call} a=$!; {call} b=$!; {UNTIL.format('both')}; kill -9 $a"
        then = f"{UNTIL.format('one')}; kill -9 $b; wait; {UNTIL.format('withdrawn')}; echo > {OUT}/new"
        run = session.start(f"{two}; {then}", timeout=60)
        wait_until(lambda: callers(session) == 2)
        write("both")
        wait_until(lambda: callers(session) == 1)
        time.sleep(0.5)
        assert len(person.asked) == 1 and not person.withdrawn
        write("one")
        run.wait()
        assert person.withdrawn == [f"{OUT}/new"]
        assert person.paths == [f"{OUT}/new"] * 2 and os.path.exists(f"{OUT}/new")
    answers = [entry.data["outcome"] for entry in journal() if entry.kind == "elevation"]
    assert answers == ["withdrawn", "granted"], answers


def a_record_is_of_whoever_made_the_call() -> None:
    """A caller that is gone when the answer comes is not mistaken for the warden's end, nor for another."""
    going = threading.Event()
    person = Person(NO, until(going))
    write(f"{OUT}/kept")
    with opened(person) as session:
        asked = UNTIL.format("asked")
        run = session.start(f"chmod 777 {OUT}/kept & {asked}; echo killing; kill -9 $!; sleep 1")
        wait_until(lambda: person.asked)
        write("asked")
        for event in run.events():
            if b"killing" in getattr(event, "data", b""):
                going.set()
        assert [each.operation for each in run.violations] in ([], ["chmod"]), run.violations
        assert session.run("echo > here").exit_code == 0


def a_failure_of_ours_is_a_no_for_that_call_alone() -> None:
    """As where there are no descriptors left for whoever reads the line."""
    person = Person()

    def fail(request: StartRequest, context: GrantContext) -> tuple[str, ...]:
        raise OSError(errno.EMFILE, "too many open files")

    with opened(person) as session:
        old = write(f"{OUT}/old")
        usual, rm_targets._trees = rm_targets._trees, fail
        result = session.run(f"rm -r {old}", timeout=20)
        rm_targets._trees = usual
        assert result.exit_code and not result.timed_out and os.path.exists(old), result
        assert "too many open files" in str(result.violations), result.violations
        assert session.run(f"rm -r {old}", timeout=20).exit_code == 0
    assert person.paths == [old]


def what_cannot_be_written_down_is_not_granted() -> None:
    """Neither once nor for the session: a command may have filled the disk meanwhile."""
    for answer in (ONCE, SESSION):
        person = Person(answer)
        with opened(person) as session:
            session.run("true")
            journal, writable = session.ledger.journal, session.ledger.journal._lines
            person.meanwhile = lambda _path, it=journal: setattr(it, "_lines", TailFile(it.path))
            result = session.run(f"echo > {OUT}/new || echo > {OUT}/new", timeout=20)
            assert result.exit_code and not os.path.exists(f"{OUT}/new"), result
            assert "could not record the answer" in str(result.violations), result.violations
            journal._lines = writable
            person.meanwhile = None
            assert session.run(f"echo > {OUT}/new; rm {OUT}/new", timeout=20).exit_code == 0


def an_answer_is_for_the_mode_that_was_shown() -> None:
    write(f"{OUT}/kept")
    os.chmod(f"{OUT}/kept", 0o644)
    person = Person(ONCE)
    with opened(person) as session:
        result = session.run(f"cd {OUT}; chmod 600 kept; chmod 644 kept; chmod 600 kept; chmod 777 kept")
        assert result.exit_code == 0, result
    said = [question.decision.reasons[0].message.partition("(")[2][:15] for question in person.asked]
    assert said == ["from 644 to 600", "from 600 to 644", "from 600 to 777"], said


def an_interrupt_ends_the_wait() -> None:
    going = threading.Event()
    person = Person(ONCE, until(going))
    program = (
        "import signal, sys, os\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "try: open(sys.argv[1], 'w')\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    with opened(person) as session:
        line = f'/usr/bin/python3 -c "{program}" {OUT}/new & {UNTIL.format("asked")}; kill -INT $!; wait $!'
        run = session.start(f"set -m; {line}")
        wait_until(lambda: person.asked)
        write("asked")
        assert "interrupted" in run.wait().stdout
        going.set()
    assert not os.path.exists(f"{OUT}/new")


def a_swap_while_it_is_asked_gains_nothing() -> None:
    def other_directory(_path: str) -> None:
        os.rename(f"{OUT}/d", f"{OUT}/moved")
        os.mkdir(f"{OUT}/d")

    def link_to_another(_path: str) -> None:
        os.rename(f"{OUT}/d", f"{OUT}/moved")
        os.symlink(f"{OUT}/victim", f"{OUT}/d")

    def other_file(path: str) -> None:
        os.rename(path, f"{OUT}/kept")
        write(path, "another\n")

    def link_in_its_place(path: str) -> None:
        if os.path.exists(path):
            os.unlink(path)
        os.symlink(f"{OUT}/victim/file", path)

    def gone(path: str) -> None:
        os.unlink(path)

    lines = (
        "echo > {}/d/new",
        "echo > {}/d/old",
        "rm {}/d/old",
        "truncate -s 0 {}/d/old",
        "chmod 7 {}/d/old",
    )
    swaps = (other_directory, link_to_another, other_file, link_in_its_place, gone)
    for line in lines:
        for swap in swaps:
            shutil.rmtree(OUT, ignore_errors=True)
            write(f"{OUT}/d/old")
            write(f"{OUT}/victim/file", "victim\n")
            write(f"{OUT}/victim/old", "victim\n")
            if line.endswith("new") and swap in (other_file, gone):
                continue
            person = Person(ONCE, swap)
            with opened(person) as session:
                result = session.run(line.format(OUT))
                assert len(person.asked) == 1, (line, swap, result)
                assert result.exit_code and "something else" in result.violations[0].why, (
                    line,
                    swap,
                )
            for name in ("file", "old"):
                assert read(f"{OUT}/victim/{name}") == "victim\n", (line, swap)
                assert os.stat(f"{OUT}/victim/{name}").st_mode & 0o111 == 0
            assert sorted(os.listdir(f"{OUT}/victim")) == ["file", "old"]


def what_racing_threads_change_gains_nothing() -> None:
    for kind in RACES:
        race(30, kind)


def race(turns: int, kind: str) -> None:
    """Something is swapped all the time while a call waits that a person grants; the victim never is."""
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(f"{OUT}/granted")
    write(f"{OUT}/victim/file", "victim\n")
    person = Person(ONCE, _not_the_victim)
    with opened(person) as session:
        command = [*python(RACER, kind, OUT, os.getcwd(), str(turns))]
        result = session.run(command, timeout=turns * 0.5 + 60)
        assert result.exit_code == 0, (kind, result)
        assert person.asked, (kind, "nobody was asked")
        strange = [path for path in person.paths if "/granted/" not in path and "/victim/" not in path]
        assert not strange, (kind, strange)
        assert session.run("echo > after; cat after").exit_code == 0
    assert read(f"{OUT}/victim/file") == "victim\n", kind
    assert os.listdir(f"{OUT}/victim") == ["file"], kind


def _not_the_victim(path: str) -> None:
    if "/granted/" not in path:
        raise PermissionError("an approver that raises says no")


RACES = ("path", "link", "descriptor", "exec", "death")
RACER = r"""
import ctypes, os, sys, threading, time
kind, out, work, turns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
libc = ctypes.CDLL(None, use_errno=True)
good, bad = f"{out}/granted/".encode(), f"{out}/victim/".encode()
assert kind
stop = False
buffer = ctypes.create_string_buffer(200)
link = f"{work}/link"
fds = {good: os.open(good, os.O_PATH), bad: os.open(bad, os.O_PATH)}
moving = os.dup(fds[good])
name = b""

def point(way):
    new = f"{link}.{threading.get_ident()}"
    try: os.unlink(new)
    except OSError: pass
    os.symlink(way, new)
    os.rename(new, link)

def swap():
    n = 0
    while not stop:
        n += 1
        way = (good, bad)[n % 2]
        if kind == "path": buffer.value = way + b"file"
        elif kind == "descriptor": os.dup2(fds[way], moving)
        elif kind == "link": point(way)

point(good)
buffer.value = good + b"file"
thread = threading.Thread(target=swap)
thread.start()
O = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
for turn in range(turns):
    if kind == "path": fd = libc.open(buffer, O, 0o644)
    elif kind == "descriptor": fd = libc.openat(moving, b"file", O, 0o644)
    elif kind == "link": fd = libc.open(f"{link}/file".encode(), O, 0o644)
    else:
        fd = -1
        pid = os.fork()
        if pid == 0:
            # The thread that waits is ended by its process's exec, or by a kill, sooner or later.
            begun = threading.Event()
            def opens():
                begun.set()
                libc.open(good + b"%d" % (turn % 8), O, 0o644)
            threading.Thread(target=opens, daemon=True).start()
            begun.wait()
            time.sleep((turn * 5 % 8) ** 2 / 10_000)
            if kind == "exec": os.execv("/bin/true", ["true"])
            os.kill(os.getpid(), 9)
        os.waitpid(pid, 0)
    if fd >= 0:
        where = os.readlink(f"/proc/self/fd/{fd}")
        assert "victim" not in where, where
        os.write(fd, b"granted")
        os.close(fd)
stop = True
thread.join()
"""


# What cannot wait is run again, once.


MOVED = "import os, sys; os.rename(sys.argv[1] + '/d', sys.argv[1] + '/e')"
"""Directories are not moved on a caller's behalf."""
ATTRIBUTE = "import os, sys; os.setxattr(sys.argv[1] + '/file', 'user.pinfold', b'1'); print('set')"


def what_cannot_wait_is_granted_afterwards_and_run_once_more() -> None:
    write(f"{OUT}/file")
    os.mkdir(f"{OUT}/d")
    person = Person()
    with opened(person) as session:
        result = session.run(python(f"print('begun'); {MOVED}", OUT))
        assert result.exit_code == 0 and result.stdout == "begun\n", result
        assert result.decision.sandboxed and result.enforcement and not result.violations
        assert os.path.isdir(f"{OUT}/e") and result.needed is None
        result = session.run(python(ATTRIBUTE, OUT))
        assert result.exit_code == 0 and result.stdout == "set\n", result
        run = session.start(
            python(f"print('again'); {MOVED}".replace("/d'", "/e'").replace("/e')", "/f')"), OUT)
        )
        events = list(run.events())
        assert [getattr(each, "data", b"") for each in events].count(b"again\n") == 2, events
        assert [type(each).__name__ for each in events].count("Exited") == 1
        assert getattr(events[-1], "exit_code", 1) == 0 and os.path.isdir(f"{OUT}/f")
        # Only what was granted, and for that run.
        assert session.run(f"mkdir {OUT}/other && rmdir {OUT}/other").exit_code == 0
    kinds = [question.capability for question in person.asked]
    assert kinds == ["widen", "widen", "widen", "write", "write"], kinds
    assert [widening.value for widening in person.asked[1].decision.widening] == [f"{OUT}/file"]
    assert "the sandbox denied `rename" in person.asked[0].decision.reasons[0].message
    rows = [entry.kind for entry in journal() if entry.kind in ("run", "end")]
    assert rows[:4] == ["run", "end", "run", "end"], rows


def run_again_once_and_fenced() -> None:
    os.makedirs(f"{OUT}/d")
    tried = "open('tries', 'a').write('x'); "
    person = Person(NO)
    with opened(person) as session:
        result = session.run(python(tried + MOVED, OUT))
        assert result.exit_code and result.needed is None and read("tries") == "x"
        assert [question.capability for question in person.asked] == ["widen"]
        # Granted, it fails for another reason: nothing is asked, or run, a third time.
        person.answer = ONCE
        third = f"{tried}{MOVED}; os.rename(sys.argv[1] + '/e', '{HOME}/elsewhere')"
        result = session.run(python(third, OUT))
        assert result.exit_code and read("tries") == "xxx" and os.path.isdir(f"{OUT}/e")
        assert len(person.asked) == 2 and result.needed is None
        # What was answered while it waited is answered.
        person.answer = NO
        result = session.run(
            python(
                f"{tried}open(sys.argv[1] + '/new', 'w')".replace(
                    "open('tries'", "import sys; open('tries'", 1
                ),
                OUT,
            )
        )
        assert result.exit_code and read("tries") == "xxxx" and len(person.asked) == 3
        assert person.asked[-1].capability == "write" and result.needed is None
        assert session.counts["unsandboxed"] == 0 and session.counts["sandboxed"] == 4


def it_is_run_again_where_it_was_or_not_at_all() -> None:
    os.makedirs(f"{OUT}/d")
    os.mkdir("sub")

    def swap(_: str) -> None:
        os.rename("sub", "away")
        os.symlink(OUT, "sub")

    person = Person(ONCE, swap)
    with opened(person) as session:
        result = session.run(python(MOVED, OUT), cwd="sub")
        assert result.exit_code and len(person.asked) == 1, result
        assert os.path.isdir(f"{OUT}/d") and session.counts["sandboxed"] == 1


def nobody_is_asked_afterwards_where_settings_say_no() -> None:
    os.makedirs(f"{OUT}/d")
    person = Person()
    with opened(person, {"filesystem": {"ask": False}}) as session:
        assert session.run(python(MOVED, OUT)).exit_code and not person.asked
    with opened(person) as session:
        reading, writing = os.pipe()
        os.close(writing)
        run = session.start(python(MOVED, OUT), stdin=reading)
        assert run.wait().exit_code and not person.asked, "its input was read by the first run"
        os.close(reading)
        narrow = pinfold.SandboxPolicy(published_ports=())
        asked = pinfold.RunCommand("", argv=tuple(python(MOVED, OUT)), policy=narrow)
        assert session.run(asked).exit_code and not person.asked, "its own policy would be dropped"


def no_directory_becomes_a_repository_where_somebody_is_asked() -> None:
    """They were made without a question: each name by itself is one that commands may write."""
    for answer in (NO, ONCE, SESSION):
        for git in (False, True):
            person = Person(answer)
            with opened(person, {"filesystem": {"git_writes": git}}) as session:
                made = session.run("mkdir -p x/objects x/refs; echo ref: refs/heads/main > x/HEAD")
                assert [each.path for each in made.violations] == [os.path.abspath("x/HEAD")], made
                session.run("git init -q --bare y; mkdir z; cp -r y/. z; mkdir z/objects z/refs")
                assert not any(
                    os.path.exists(f"{name}/HEAD") and os.path.exists(f"{name}/objects") for name in "xyz"
                )
                assert not person.asked and session.run("git init -q --bare /tmp/fine").exit_code == 0
            subprocess.run(["rm", "-rf", "x", "y", "z"], check=True)


def an_answer_for_always_holds_where_nobody_can_be_asked() -> None:
    line = f"echo x >> {OUT}/log"
    with opened(Person(pinfold.Answer.ALWAYS)) as session:
        assert session.run(line).exit_code == 0
    with pinfold.Session([os.getcwd()], settings={}) as alone:
        assert alone.run(line).exit_code == 0 and read(f"{OUT}/log") == "x\nx\n"
        # Whatever else is as if nothing had been said: it was not asked about, and can be granted afterwards.
        result = alone.run(f"echo y >> {OUT}/log; mkdir {OUT}/new")
        assert result.exit_code and read(f"{OUT}/log") == "x\nx\n"
        assert not any(each.answered for each in result.violations) and result.needed, result
    subprocess.run(["rm", f"{state_directory(os.environ)}/approvals.json"], check=True)
    with pinfold.Session([os.getcwd()], settings={}) as alone:
        assert alone.run(line).exit_code and read(f"{OUT}/log") == "x\nx\n"


def an_answer_for_any_command_holds_for_other_programs_and_other_files_of_git() -> None:
    git = "git -c user.name=t -c user.email=t@example.org"
    subprocess.run(f"git init -q && {git} commit -q --allow-empty -m 1", shell=True, check=True)
    always = pinfold.Reply(pinfold.Answer.ALWAYS, pinfold.Reach.TARGET)
    write(f"{OUT}/log", "")
    with opened(Person(always)) as session:
        assert session.run(f"echo x >> {OUT}/log").exit_code == 0
        assert session.run("git checkout -q -b first").exit_code == 0
    with pinfold.Session([os.getcwd()], settings={}) as alone:
        assert alone.run(["cp", "/etc/hostname", f"{OUT}/log"]).exit_code == 0
        assert alone.run("touch new && git add new").exit_code == 0
        assert alone.run(["cp", "/etc/hostname", f"{OUT}/other"]).exit_code
        assert alone.run("echo x > .git/hooks/post-commit").exit_code
    for line in (
        "git branch within/a/directory",
        "mkdir .git/refs/heads/made",
        "git branch -D within/a/directory",
    ):
        with pinfold.Session([os.getcwd()], settings={}) as alone:
            done = alone.run(line)
            assert done.exit_code == 0, (line, done, done.violations)


def an_answer_for_a_session_is_for_no_other_where_nobody_can_be_asked() -> None:
    line = f"echo x >> {OUT}/log"
    with opened(Person(SESSION)) as session:
        assert session.run(line).exit_code == 0
    with pinfold.Session([os.getcwd()], settings={}) as alone:
        assert alone.run(line).exit_code
    with pinfold.Session(resume=session.id, settings={}) as again:
        assert again.run(line).exit_code == 0


async def _retried_by_asyncio(line: str) -> None:
    async with pinfold.AsyncSession([os.getcwd()], settings={}) as session:
        needed = (await session.run(line)).needed
        assert needed and (await (await session.retry(needed)).wait()).exit_code == 0


def a_result_tells_what_it_needed_where_nobody_could_be_asked() -> None:
    os.makedirs(OUT)
    with pinfold.Session([os.getcwd()], settings={}) as session:
        result = session.run(f"echo x >> tries; echo 1 > {OUT}/new")
        assert result.exit_code and result.needed, result
        assert result.needed.capability == "widen"
        assert [widening.value for widening in result.needed.decision.widening] == [OUT]
        plain = result_as_plain(result)["needed"]
        assert plain["capability"] == "widen" and plain["requestId"] == result.needed.request_id
        again = session.retry(result.needed).wait()
        assert again.exit_code == 0 and again.decision.sandboxed and not again.needed, again
        assert read(f"{OUT}/new") == "1\n" and read("tries") == "x\nx\n"
        try:
            session.retry(result.needed)
        except pinfold.PolicyError as error:
            assert "nothing to run again" in str(error)
        else:
            raise AssertionError("it was run a third time")
        # A no is final too.
        os.mkdir(f"{HOME}/no")
        result = session.run(f"echo 1 > {HOME}/no/new")
        assert result.needed and session.retry(result.needed, NO).refusal
        # What comes back counts by its id alone: nothing else can be put in its place.
        result = session.run(f"echo 1 > {HOME}/no/new")
        assert result.needed
        free = replace(result.needed.decision, sandboxed=False)
        again = session.retry(replace(result.needed, decision=free)).wait()
        assert again.decision.sandboxed and session.counts["unsandboxed"] == 0, again
        os.unlink(f"{HOME}/no/new")
        assert os.listdir(f"{HOME}/no") == []
        asyncio.run(_retried_by_asyncio(f"echo 1 > {HOME}/no/new"))
        # Nobody is to grant a whole home for a file in it.
        assert session.run(f"echo 1 > {HOME}/new").needed is None
        # What succeeds needs nothing, and what nobody may grant is not needed.
        assert session.run(f"echo 1 > {OUT}/other; true").needed is None
        assert session.run(f"echo 1 > {OUT}/other; mkdir .pinfold").needed is None
    assert not os.path.exists(f"{HOME}/new") and not os.path.exists(f"{OUT}/other")


def without_notifications_there_is_no_pen_to_write_in() -> None:
    """Names could be made that are protected: nothing runs, and nothing is asked or tried in another way."""
    backend = open_parts._backend()
    assert isinstance(backend, LinuxBackend)
    person = Person()
    for fact in ("notification", "wait_killable"):
        machine = backend.machine
        forced: dict[str, Any] = {fact: Layer(False, "forced")}
        backend.machine = machine._replace(**forced)
        try:
            with opened(person) as session:
                session.run("touch made")
        except pinfold.ConfinementError as error:
            assert "commands can create protected names that do not exist yet" in str(error)
        else:
            raise AssertionError("it ran")
        with opened(person, {"sandbox": {"policy": "read-only"}}) as session:
            result = session.run(f"cat made; echo > made; echo > {OUT}/new")
            assert result.exit_code and result.decision.sandboxed and not result.needed, result
        backend.machine = machine
    assert not person.asked and not os.path.exists("made") and os.listdir(OUT) == []


def a_cancelled_run_is_not_run_again() -> None:
    os.makedirs(f"{OUT}/d")
    withdrawn = threading.Event()

    class Patient(Person):
        def withdraw(self, question: pinfold.PermissionNeeded) -> None:
            withdrawn.set()

    person = Patient(ONCE, until(withdrawn))
    with opened(person) as session:
        run = session.start(python(f"open('tries', 'a').write('x'); {MOVED}", OUT))
        ended: list[object] = []
        taking = threading.Thread(target=lambda: ended.extend(run.events()))
        taking.start()
        wait_until(lambda: bool(person.asked))
        run.cancel()
        taking.join(30)
        assert ended and withdrawn.is_set() and read("tries") == "x"


# The warden's end.


def a_warden_that_dies_closes() -> None:
    going = threading.Event()
    person = Person(ONCE, until(going))
    with opened(person) as session:
        run = session.start(f"echo > {OUT}/new; echo $?")
        wait_until(lambda: bool(person.asked))
        (warden,) = wardens_of(session.sandboxes.sandboxed().keeper.pid)  # type: ignore[attr-defined]
        os.kill(warden, signal.SIGKILL)
        result = run.wait()
        assert "Function not implemented" in result.stderr and result.stdout == "1\n", result
        assert any(each.operation == "warden" for each in result.violations)
        going.set()
        wait_until(lambda: any(entry.kind == "elevation" for entry in journal()))
    assert not os.path.exists(f"{OUT}/new")


# What is told.


def refusals_tell_everything() -> None:
    ignoring = {
        "violations": {"ignore": {"touch": [f"{OUT}/ignored"]}},
        "filesystem": {"protect": ["kept.txt"]},
    }
    with opened(Person(NO), ignoring) as session:
        line = f"touch {OUT}/new; touch kept.txt; touch {OUT}/ignored; mkdir .git"
        result = session.run(line)
        told = {each.path.rpartition("/")[2]: each for each in result.violations}
        assert set(told) == {"new", "kept.txt", ".git"}, told
        new, kept, git = told["new"], told["kept.txt"], told[".git"]
        assert (new.program, new.operation, new.command) == ("touch", "open", line)
        assert new.pid and "filesystem.write" in new.origin and OUT in new.remedy
        assert kept.rule == "kept.txt" and "filesystem.protect" in kept.remedy
        assert "git_writes" in git.remedy
        text = result.violations_text
        assert text.startswith("<sandbox_violations>\n") and text.endswith("\n</sandbox_violations>")
        assert f"open {OUT}/new" in text and "ignored" not in text
    (end,) = [entry.data for entry in journal() if entry.kind == "end"]
    assert len(end["violations"]) == 4


def a_bypass_is_offered_what_would_have_been_enough() -> None:
    class Careful(Person):
        def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer:
            self.asked.append(question)
            return NO if question.capability in ("write", "bypass") else ONCE

    person = Careful()
    with opened(person) as session:
        line = f"echo 1 > {OUT}/new"
        assert session.run(line).exit_code
        result = session.run(pinfold.RunCommand(line, disable_sandbox=True))
        assert result.exit_code == 0 and result.decision.sandboxed, result
        assert [question.capability for question in person.asked] == ["write", "widen"]
        (widening,) = person.asked[1].decision.widening
        assert (widening.field, widening.value) == ("additional_readwrite_paths", OUT)
        # Where nothing is known of it, or nothing would be enough, there is only the one question.
        session.run(pinfold.RunCommand("true", disable_sandbox=True))
        assert session.run("mkdir .pinfold").exit_code
        session.run(pinfold.RunCommand("mkdir .pinfold", disable_sandbox=True))
        assert [question.capability for question in person.asked[2:]] == ["bypass", "bypass"]


def what_nobody_may_grant_is_told_all_the_same() -> None:
    write(".pinfold/settings.toml", "")
    person = Person()
    with opened(person) as session:
        result = session.run(python("open('.pinfold/settings.toml', 'r+')"))
        (violation,) = result.violations
        assert (violation.rule, violation.grantable) == (".pinfold", False) and not person.asked, violation


CLAIM = run_again_once_and_fenced.__name__
ELEVATIONS = probes_of(globals(), "opened", "until", "read", "write", "python", "race", "callers", CLAIM)

if __name__ == "__main__":
    run(globals())
