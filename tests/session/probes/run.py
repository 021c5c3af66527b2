"""What holds of a session that runs things: each function runs in a child, as root and as another user."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

from msgspec import json

import pinfold
from pinfold.audit import JournalEntry, JournalError
from pinfold.audit.history import entries
from pinfold.kernel import namespaces
from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.host import command as start
from pinfold.session import start as start_stage
from pinfold.state.directory import journal_file
from pinfold.state.sessions import live_sessions
from tests.patience import PATIENCE, wait_until
from tests.probe_module import PYTHON, probes_of, run


def opened(settings: dict[str, Any] | None = None, **given: Any) -> pinfold.Session:
    return pinfold.Session([os.getcwd()], settings=settings or {}, **given)


def journal() -> list[JournalEntry]:
    return [entry for entry in entries(journal_file(os.environ)) if entry.kind != "policy"]


class Says:
    """An approver that says the same to everything, but no to calls that wait: see `elevations`."""

    name = "a test"

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[pinfold.PermissionNeeded] = []

    def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer | None:
        self.asked.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        if question.capability is pinfold.Capability.WRITE:
            return pinfold.Answer.NO
        return self.answer  # type: ignore[return-value]


ASKING: dict[str, Any] = {"mode": "ask_every_time"}


def a_line_runs_and_tells_how_it_went() -> None:
    with opened() as session:
        result = session.run("echo out; echo err >&2; exit 3")
        assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
        assert result.ran and not result.refusal and result.decision.sandboxed
        assert result.enforcement and result.enforcement.level != "none"
        assert result.check() is result
        assert session.run(["printf", "%s", "a b"]).stdout == "a b"
        killed = session.run("kill -9 $$")
        assert (killed.exit_code, killed.signal) == (None, 9)
        assert session.counts == {"sandboxed": 3}


def it_runs_in_the_project_unless_told_otherwise() -> None:
    os.mkdir("below")
    work = os.getcwd()
    with opened() as session:
        assert session.run("pwd").stdout == f"{work}\n"
        assert session.run(pinfold.RunCommand("pwd", cwd="below")).stdout == f"{work}/below\n"
        os.chdir("/")
        assert session.run("pwd").stdout == f"{work}\n"
    with pinfold.Session([work], settings={}) as session:
        assert session.run("pwd").stdout == f"{work}\n"


def nobody_to_ask_means_no() -> None:
    with opened(ASKING) as session:
        result = session.run("touch made")
        assert not result.ran and result.exit_code is None
        assert "is open to ask" in result.refusal
        try:
            result.check()
        except pinfold.SandboxViolation as error:
            assert "is open to ask" in str(error)
        else:
            raise AssertionError("a refused command passed for one that ran")
    assert not os.path.exists("made")


def approvers_that_fail_say_no() -> None:
    for answer in (RuntimeError("broken"), "yes", True, 1, pinfold.Answer.NO, None):
        with opened(ASKING, approvers=[Says(answer)]) as session:
            assert not session.run("touch made").ran, answer
    assert not os.path.exists("made")


def an_approver_lets_it_run_once() -> None:
    yes = Says(pinfold.Answer.ONCE)
    with opened(ASKING, approvers=[Says(None), yes]) as session:
        result = session.run(pinfold.RunCommand("touch made", description="to make it"))
        assert result.exit_code == 0 and os.path.exists("made")
        assert yes.asked[0].command == "touch made" and yes.asked[0].description == "to make it"
        session.run("touch made")
        assert len(yes.asked) == 2
        assert session.counts == {"asked": 2, "sandboxed": 2}
    answers = [entry.data.get("by") for entry in journal() if entry.kind == "run"]
    assert answers == ["a test", "a test"]


def an_answer_for_the_session_is_not_asked_for_again() -> None:
    yes = Says(pinfold.Answer.SESSION)
    with opened(ASKING, approvers=[yes]) as session:
        assert [session.run("echo x").stdout for _ in range(3)] == ["x\n"] * 3
        assert len(yes.asked) == 1 and yes.asked[0].choices == ("no", "once", "session", "always")
        session.run("echo y")
        session.run("echo x", cwd="/")
        assert len(yes.asked) == 3
        session.change({"commands": {"deny": ["echo"]}})
        assert session.run("echo x").decision.verdict == "deny"
        session.change({"commands": {"deny": ["curl"]}})
        session.run("echo x")
        assert len(yes.asked) == 4, "other settings are another ground"
    by = [entry.data.get("by") for entry in journal() if entry.kind == "run"]
    assert by[:2] == ["a test", "a test, earlier"]


def a_resumed_session_has_its_answers_again() -> None:
    with opened(ASKING, approvers=[Says(pinfold.Answer.SESSION)]) as session:
        assert session.run("echo x").ran
        for wrong, why in ((session.id, "has not ended"), ("0" * 16, "no session")):
            try:
                opened(ASKING, resume=wrong)
            except pinfold.PolicyError as error:
                assert why in str(error)
            else:
                raise AssertionError("it was resumed")
    with opened(ASKING) as other:
        assert not other.run("echo x").ran
    with pinfold.Session(settings=ASKING, resume=session.id) as resumed:
        assert resumed.id == session.id and resumed.roots == session.roots
        assert resumed.run("echo x").ran and not resumed.run("echo y").ran
    os.mkdir("elsewhere")
    try:
        pinfold.Session(["elsewhere"], settings=ASKING, resume=session.id)
    except pinfold.PolicyError as error:
        assert "had other projects" in str(error)
    else:
        raise AssertionError("it was resumed elsewhere")
    with opened({**ASKING, "commands": {"deny": ["curl"]}}, resume=session.id) as changed:
        assert not changed.run("echo x").ran


def always_is_known_in_later_sessions() -> None:
    with opened(ASKING, approvers=[Says(pinfold.Answer.ALWAYS)]) as session:
        assert session.run("touch made").ran
    with opened(ASKING) as later:
        result = later.run("touch made")
        assert result.ran and result.settlement and result.settlement.remembered
        assert not later.run("touch other").ran
    file = os.path.expanduser("~/.local/state/pinfold/approvals.json")
    assert os.stat(file).st_mode & 0o777 == 0o600
    with open(file, "w") as damaged:
        damaged.write("{}")
    with opened(ASKING) as after:
        assert not after.run("touch made").ran
        assert any("earlier answers do not count" in notice for notice in after.notices)


def answers_cannot_be_seen_or_given_from_a_pen() -> None:
    with opened({"mode": "ask_every_time"}, approvers=[Says(pinfold.Answer.ALWAYS)]) as session:
        session.run("true")
        file = os.path.expanduser("~/.local/state/pinfold/approvals.json")
        with open(file) as kept:
            before = kept.read()
        session.run(f"cat {file}; echo x > {file}; rm {file}; mv {file} .")
        assert file not in session.run(f"ls {os.path.dirname(file)}/*").stdout
        assert not session.run(f"cat {file}").stdout
        with open(file) as kept:
            assert before[:-2] in kept.read()


def a_rule_is_added_to_the_settings_and_the_rest_of_them_stays() -> None:
    path = os.path.expanduser("~/settings.toml")
    with open(path, "w") as file:
        file.write("# mine\n[sandbox]\nauto_allow = false  # ask\n")
    person = Says(pinfold.Answer.RULE)
    with pinfold.Session([os.getcwd()], settings=path, approvers=[person]) as session:
        result = session.run("touch made")
        assert result.ran and result.settlement and result.settlement.rules == ("touch",), result
        assert session.run("touch other").ran and len(person.asked) == 1
        assert session.run("python3 -c 1").refusal and "not offered" in session.run("python3 -c 1").refusal
    with open(path) as file:
        text = file.read()
    assert text == '# mine\n[sandbox]\nauto_allow = false  # ask\n\n[commands]\nallow = ["touch"]\n', text
    with opened({"sandbox": {"auto_allow": False}}, approvers=[person]) as session:
        assert not session.run("touch made").ran, "there is no file to add a rule to, so it is not offered"


def what_nothing_lifts_is_answered_once() -> None:
    no = Says(pinfold.Answer.NO)
    with opened(approvers=[no]) as session:
        session.run("rm -rf ~/*")
        session.run(pinfold.RunCommand("true", disable_sandbox=True))
        wider = pinfold.SandboxPolicy(additional_readwrite_paths=(os.path.expanduser("~/x"),))
        session.run(pinfold.RunCommand("true", policy=wider))
    assert [len(question.choices) for question in no.asked] == [2, 2, 3]


def a_denied_command_is_never_asked_about() -> None:
    yes = Says(pinfold.Answer.ONCE)
    with opened({"commands": {"deny": ["touch"]}}, approvers=[yes]) as session:
        result = session.run("touch made")
        assert not result.ran and "denied" in result.refusal
    assert not yes.asked and not os.path.exists("made")


def a_bypass_runs_outside_only_when_approved() -> None:
    probe = f"echo > {os.environ['HOME']}/outside"
    for answer, made in ((pinfold.Answer.NO, False), (pinfold.Answer.ONCE, True)):
        says = Says(answer)
        with opened(approvers=[says]) as session:
            result = session.run(pinfold.RunCommand(probe, disable_sandbox=True))
            assert says.asked[0].capability == "bypass"
            assert result.ran is made and os.path.exists(f"{os.environ['HOME']}/outside") is made
    closed = {"sandbox": {"allow_unsandboxed": False}}
    os.unlink(f"{os.environ['HOME']}/outside")
    with opened(closed, approvers=[Says(pinfold.Answer.ONCE)]) as session:
        result = session.run(pinfold.RunCommand(probe, disable_sandbox=True))
        assert result.ran and result.exit_code and "Read-only" in result.stderr


def a_requested_path_is_writable_once_approved() -> None:
    home = os.environ["HOME"]
    os.mkdir(f"{home}/wanted")
    wanted = pinfold.SandboxPolicy(additional_readwrite_paths=(f"{home}/wanted",))
    with opened(approvers=[Says(pinfold.Answer.ONCE)]) as session:
        assert session.run(pinfold.RunCommand(f"echo > {home}/wanted/x", policy=wanted)).exit_code == 0
        assert session.run(f"echo > {home}/wanted/y").exit_code
        assert session.run(pinfold.RunCommand(f"echo > {home}/z", policy=wanted)).exit_code


def every_run_is_journaled_first() -> None:
    program = (
        "import pinfold, os\n"
        "session = pinfold.Session([os.getcwd()], settings={})\n"
        "session.run('echo > begun; sleep 100')\n"
    )
    with _host(program):
        wait_until(lambda: os.path.exists("begun"))
    (entry,) = journal()
    assert entry.kind == "run" and entry.data["command"] == "echo > begun; sleep 100"


def what_cannot_be_journaled_is_not_run() -> None:
    state = os.path.dirname(journal_file(os.environ))
    os.makedirs(os.path.dirname(state))
    with open(state, "w"):
        pass
    with opened() as session:
        try:
            session.run("touch made")
        except JournalError as error:
            assert "so nothing is run" in str(error)
        else:
            raise AssertionError("it ran")
    assert not os.path.exists("made")


def the_journal_tells_the_whole_story() -> None:
    with opened({"commands": {"deny": ["curl"]}}) as session:
        session.run("exit 7")
        session.run("curl x.example")
    run, end, refused = journal()
    assert (run.kind, end.kind, refused.kind) == ("run", "end", "refused")
    assert end.about == run.id and end.data["exit_code"] == 7 and end.data["seconds"] > 0
    assert refused.data["step"] == "denied" and refused.data["rule"] == "curl"
    assert run.session == session.id and run.data["sandboxed"] is True
    assert os.stat(f"{journal_file(os.environ)}.new").st_mode & 0o777 == 0o600


def the_journal_is_hidden_from_commands() -> None:
    state = os.path.dirname(journal_file(os.environ))
    with opened() as session:
        assert session.run("true").exit_code == 0
        seen = session.run(f"ls -A {state}; cat {state}/journal.sqlite.new; echo > {state}/x")
        assert seen.stdout == "" and seen.exit_code
    # Not even where the whole home is writable, or named as readable.
    home = os.environ["HOME"]
    with opened({"filesystem": {"write": [home], "read": [state]}}) as session:
        seen = session.run(f"ls -A {state}; rm -rf {state}; mv {home}/.local {home}/moved; echo > {state}/x")
        assert seen.stdout == "" and seen.exit_code
    assert len([entry for entry in journal() if entry.kind == "run"]) == 3


def output_and_the_end_come_as_events() -> None:
    with opened() as session:
        execution = session.start("echo one; sleep 0.3; echo two >&2; exit 4")
        events = list(execution.events())
    assert [event.data for event in events if isinstance(event, pinfold.Output)] == [b"one\n", b"two\n"]
    assert isinstance(events[-1], pinfold.Exited) and events[-1].exit_code == 4
    assert [entry.kind for entry in journal()] == ["run", "end"]


def what_was_streamed_is_not_waited_for_again() -> None:
    with opened() as session:
        streamed = session.start("echo one; mkdir .vscode; exit 4")
        assert pinfold.Output(pinfold.Stream.STDOUT, b"one\n") in list(streamed.events())
        result = streamed.wait()
        assert (result.exit_code, result.stdout, result.stderr) == (4, "", "")
        assert [each.path for each in result.violations] == [f"{os.getcwd()}/.vscode"]
        gathered = session.start("echo one; exit 4")
        assert gathered.wait() == gathered.wait() and gathered.wait().stdout == "one\n"
        try:
            next(gathered.events())
        except pinfold.ConfinementError:
            pass
        else:
            raise AssertionError("it was followed twice")
    assert [entry.kind for entry in journal()] == ["run", "end"] * 2


FOLLOWED = """
import os, pinfold
session = pinfold.Session([os.getcwd()], settings={})
events = session.start("echo on; sleep 1000").events()
print(next(events))
"""


def a_program_that_ends_while_it_follows_a_command_ends() -> None:
    """At Python's own end no thread can be started."""
    done = subprocess.run([sys.executable, "-c", FOLLOWED], capture_output=True, timeout=30, check=True)
    assert b"on" in done.stdout and not done.stderr, done


def cancelling_ends_the_command_and_its_daemons() -> None:
    with opened() as session:
        execution = session.start("setsid sleep 543 & sleep 544")
        threading.Timer(0.3, execution.cancel).start()
        result = execution.wait()
        assert result.cancelled
        assert session.run("pgrep -f 'sleep 54[34]'").exit_code == 1


def time_runs_out() -> None:
    with opened() as session:
        result = session.run(pinfold.RunCommand("sleep 1000", timeout=0.3))
        assert result.timed_out and "timed_out=True" in repr(result)


def output_beyond_the_limit_is_told() -> None:
    with opened({"limits": {"output": "1kB"}}) as session:
        result = session.run("head -c 5000 /dev/zero")
        assert result.truncated and len(result.stdout_bytes) == 1000 and result.exit_code == 0


def a_second_project_is_writable_once_added() -> None:
    other = f"{os.environ['HOME']}/other"
    os.mkdir(other)
    with opened() as session:
        assert session.run(f"touch {other}/x").exit_code
        session.add_project(other)
        assert session.roots == (os.getcwd(), other)
        assert session.run(f"touch {other}/x; touch here").exit_code == 0
    assert os.path.exists(f"{other}/x") and os.path.exists("here")


def the_policy_can_be_changed_by_a_person() -> None:
    with opened() as session:
        assert session.run("touch made").exit_code == 0
        session.change({"sandbox": {"policy": "read-only"}})
        assert session.policy.type.name == "WORKSPACE_READONLY"
        assert session.run("touch more").exit_code and not os.path.exists("more")
        try:
            session.change({"sandbox": {"policy": "nonsense"}})
        except pinfold.PolicyError:
            assert session.policy.type.name == "WORKSPACE_READONLY"
        else:
            raise AssertionError("nonsense was taken")
        # Nothing of it stays, and what one change says of a section another does not take back.
        session.change({"sandbox": {"auto_allow": False}})
        assert session.policy.type.name == "WORKSPACE_READONLY" and not session.settings.sandbox.auto_allow


def variables_are_scrubbed_and_set() -> None:
    os.environ["MY_TOKEN"] = "hidden"
    with opened({"environment": {"set": {"GIVEN_TOKEN": "yes"}}}) as session:
        seen = session.run("env").stdout
        assert "hidden" not in seen and "GIVEN_TOKEN=yes" in seen and "PINFOLD_PEN=1" in seen
        other = session.run("env", environment={"A": "b", "AWS_X": "c"}).stdout
        assert "A=b" in other and "AWS_X" not in other and "GIVEN_TOKEN=yes" in other


def standard_input_is_bytes_or_a_descriptor() -> None:
    with opened() as session:
        assert session.run("wc -c", stdin=b"x" * 300_000).stdout == "300000\n"
        assert session.run("wc -c").stdout == "0\n"
        reader, writer = os.pipe()
        execution = session.start("wc -c", stdin=reader)
        os.write(writer, b"first")
        threading.Timer(0.2, _finish, (writer, b"second")).start()
        assert execution.wait().stdout == "11\n"
        os.close(reader)
        # One that stops reading does not hold anything up.
        with open("/dev/zero", "rb") as endless:
            assert session.start("head -c 3 | wc -c", stdin=endless.fileno()).wait().stdout == "3\n"


def a_file_is_judged_by_its_path() -> None:
    with opened() as session:
        assert session.check_path("a.txt").verdict == "allow"
        assert session.check_path("a.txt", write=True).verdict == "allow"
        assert session.check_path(f"{os.environ['HOME']}/.ssh/id_rsa").verdict != "allow"
        assert session.check_path("/etc/passwd", write=True).verdict != "allow"


def a_tool_of_the_hosts_own_passes_the_same_check() -> None:
    """It declares what it reads and writes, and does it by itself."""
    asked: list[str] = []

    def person(question: pinfold.PermissionNeeded) -> pinfold.Answer:
        asked.append(question.command)
        return pinfold.Answer.ONCE if question.path.endswith("yes.md") else pinfold.Answer.NO

    with opened(approvers=[person]) as session:
        session.permit_tool("remember", reads=["notes.md"], writes=[os.path.abspath("notes.md")])
        assert not asked
        elsewhere = os.path.expanduser("~/yes.md")
        session.permit_tool("remember", writes=[elsewhere])
        assert asked == [f"remember {elsewhere}"]
        for reads, writes in (
            ([os.path.expanduser("~/.ssh/id_rsa")], []),
            ([], [os.path.expanduser("~/no.md")]),
            ([], [".git/hooks/pre-commit"]),
            ([], [os.path.expanduser("~/.claude/skills/x/SKILL.md")]),
            (["ok.md"], ["ok.md", ".vscode/tasks.json"]),
        ):
            try:
                session.permit_tool("remember", reads=reads, writes=writes)
                raise AssertionError(reads, writes)
            except pinfold.FileRefused:
                pass
    written = {str(entry.data.get("path")) for entry in journal() if "remember" in str(entry.data)}
    assert written >= {os.path.abspath("notes.md"), elsewhere}, written


def without_user_namespaces() -> None:
    """This process, and all it starts, in a user namespace that allows no further one."""
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(namespaces.CLONE_NEWUSER)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("1")
    # One is left, so that the look at the switch sees nothing, and the first pen meets it.
    if subprocess.run(["unshare", "--user", "sleep", "0"], capture_output=True).returncode == 0:
        with open("/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")


def no_fence_no_run() -> None:
    without_user_namespaces()
    with opened() as session:
        result = session.run("touch made")
        assert not result.ran and result.decision.reasons[0].step == "no_fence", result
        try:
            result.check()
        except pinfold.SandboxUnavailable:
            pass
        else:
            raise AssertionError("it passed for one that ran")
        assert session.counts == {"refused": 1, "unavailable: refuse": 1}
    with opened({"sandbox": {"if_unavailable": "ask"}}) as session:
        assert not session.run("touch made").ran
        session.desk.approvers = (Says(pinfold.Answer.ONCE),)
        assert session.run("touch asked").ran
        assert session.counts["unavailable: ask"] == 2
    with opened({"sandbox": {"if_unavailable": "run"}, "commands": {"allow": ["touch"]}}) as session:
        result = session.run("touch accepted")
        assert result.enforcement and result.enforcement.level == "none"
        assert session.counts == {"unsandboxed": 1, "unavailable: run": 1}
    assert sorted(os.listdir(".")) == ["accepted", "asked"]


def a_fork_of_the_host_has_a_fence_of_its_own() -> None:
    with opened() as session:
        assert session.run("true").exit_code == 0
        if (child := os.fork()) == 0:
            code = 1
            try:
                with opened() as own:
                    code = own.run("exit 5").exit_code or 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        assert session.run("exit 6").exit_code == 6


LINE = "echo a; until [ -e go ]; do sleep 0.05; done; echo b; exit 5"


def a_fork_of_the_host_leaves_its_commands_alone() -> None:
    """It throws its copies of what follows them away, or tries to go on: the commands, their output and their
    ends in the journal are the other's all the same."""

    def leaves() -> None:
        events.close()
        session.close()

    def follows() -> None:
        with suppress(ConfinementError):
            next(events)
            raise AssertionError("it took what is the other's")
        for use in (execution.wait, execution.cancel):
            with suppress(ConfinementError):
                use()
                raise AssertionError(f"{use} is the other's")

    for is_fenced in (True, False):
        with opened(approvers=[Says(pinfold.Answer.ONCE)]) as session:
            execution = session.start(pinfold.RunCommand(LINE, disable_sandbox=not is_fenced))
            assert execution.decision.sandboxed is is_fenced
            events: Any = execution.events()
            told = [next(events)]
            for act in (leaves, follows):
                assert _forked(act) == 0
            assert [entry.kind for entry in journal() if entry.session == session.id] == ["run"]
            assert [each.id for each in live_sessions()] == [session.id]
            with open("go", "x"):
                told += list(events)
            os.unlink("go")
            assert [each.data for each in told[:-1] if isinstance(each, pinfold.Output)] == [b"a\n", b"b\n"]
            assert told[-1] == pinfold.Exited(5, None)
            assert [entry.kind for entry in journal() if entry.session == session.id] == ["run", "end"]
            assert session.run("true").exit_code == 0


def who_lets_go_of_a_command_waits_for_no_lock_of_their_own() -> None:
    """Python's collector comes at any moment: also to a thread that is just starting another command, or
    hears what was refused."""
    with opened() as session:
        session.run("true")
        pens: Any = session.sandboxes.sandboxed()
        ((_, pen),) = pens.pens
        for lock in (pen.lock, pen.warden.lock, pens.init._lock):
            events = session.start("echo; sleep 54.321").events()
            next(events)
            around: list[object] = [events]
            around.append(around)
            del events, around
            with lock:
                gc.collect()
            wait_until(lambda: not _sleeping("54.321"))
            assert session.run("exit 5").exit_code == 5
    assert [entry.kind for entry in journal()].count("end") == 7


def a_fork_tells_nothing_of_what_was_never_started() -> None:
    with opened() as session:
        events: Any = session.start(["no-such-program"]).events()
        next(events)
        assert _forked(events.close) == 0
        assert [entry.kind for entry in journal()] == ["run"]
        assert list(events) == [pinfold.Exited(127, None)]
    assert [entry.kind for entry in journal()] == ["run", "end"]


def _forked(act: Callable[[], None]) -> int:
    """The exit code of a fork that does this."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:  # noqa: BLE001  (told by the code, and to whoever reads)
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def a_wait_that_is_interrupted_ends_the_command_once() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGUSR1, interrupt)
    with opened() as session:
        execution = session.start("mkdir .vscode; touch begun; sleep 30")
        followed: Any = execution._running
        interrupter = threading.Thread(
            target=_interrupt_once, args=(lambda: followed.taken and os.path.exists("begun"),)
        )
        interrupter.start()
        try:
            execution.wait()
        except KeyboardInterrupt:
            interrupter.join()
        else:
            raise AssertionError("it was not interrupted")
        (end,) = [entry for entry in journal() if entry.kind == "end"]
        assert end.data["cancelled"] and [each["path"] for each in end.data["violations"]]
        assert execution.wait().cancelled
    assert [entry.kind for entry in journal()] == ["run", "end"]


def a_start_that_is_interrupted_is_told_as_cancelled() -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with opened() as session:
        pens: Any = session.sandboxes.sandboxed()
        pens.start = interrupted
        with suppress(KeyboardInterrupt):
            session.run("true")
    assert [entry.data.get("cancelled") for entry in journal()] == [None, True]


def a_run_that_could_not_begin_is_told_as_that() -> None:
    """Though the session was closed meanwhile, which told the run as cancelled by then."""

    def broken(closes: Callable[[], None]) -> Callable[[object], None]:
        def start(_: object) -> None:
            closes()
            raise ConfinementError("it is broken")

        return start

    for is_closed_meanwhile in (False, True):
        session = opened()
        pens: Any = session.sandboxes.sandboxed()
        pens.start = broken(session.close if is_closed_meanwhile else lambda: None)
        try:
            session.run("true")
        except ConfinementError as error:
            assert str(error) == "it is broken", error
        else:
            raise AssertionError("it was not said")
        assert not session.notices
        session.close()
    told = [(entry.kind, entry.data.get("error"), entry.data.get("cancelled")) for entry in journal()]
    run, failed, cancelled = ("run", None, None), ("end", "it is broken", None), ("end", None, True)
    assert told == [run, failed, run, cancelled], told


def a_command_that_nobody_gets_is_ended() -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    sleep = f"31.{os.getpid()}"  # a command line that nobody else has

    def is_asleep() -> bool:
        return subprocess.run(["pgrep", "-f", f"^sleep {sleep}$"], stdout=subprocess.DEVNULL).returncode == 0

    for place, part in ((start_stage, "Execution"), (start, "PennedCommand")):
        with opened() as session:
            execution = session.start(["sleep", sleep])
            wait_until(is_asleep)
            execution.cancel()
            with mock.patch.object(place, part, interrupted), suppress(KeyboardInterrupt):
                session.start(["sleep", sleep])
            wait_until(lambda: not is_asleep())


def a_run_whose_pen_ended_is_told_as_failed() -> None:
    with opened() as session:
        for follow in (lambda run: run.wait(), lambda run: list(run.events())):
            run = session.start("until test -e begun; do sleep 0.02; done; kill -9 $PPID; sleep 30")
            with open("begun", "w"):
                pass
            with suppress(ConfinementError):
                follow(run)
                raise AssertionError("it was not said")
            os.unlink("begun")
    ends = [entry.data for entry in journal() if entry.kind == "end"]
    assert ["the sandbox died while the command was running" in end["error"] for end in ends] == [
        True,
        True,
    ], ends
    assert not any(end["cancelled"] for end in ends)


def what_close_ends_is_told_as_cancelled_whoever_waits_for_it() -> None:
    session = opened(approvers=[Says(pinfold.Answer.ONCE)])
    line = "mkdir .vscode; touch begun-{}; sleep 30"
    waited, followed, forgotten = (session.start(line.format(number)) for number in range(3))
    unfenced = session.start(pinfold.RunCommand("touch begun-3; sleep 30", disable_sandbox=True))
    results: list[object] = []
    waiting = [
        threading.Thread(target=lambda: results.append(waited.wait().signal)),
        threading.Thread(target=lambda: results.append(list(followed.events())[-1])),
    ]
    for thread in waiting:
        thread.start()
    wait_until(lambda: all(os.path.exists(f"begun-{number}") for number in range(4)))
    session.close()
    for thread in waiting:
        thread.join()
    killed = pinfold.Exited(None, signal.SIGKILL, cancelled=True)
    assert signal.SIGKILL in results and killed in results
    assert forgotten.wait().cancelled and unfenced.wait().cancelled and not session.notices
    told = journal()
    runs = [entry.id for entry in told if entry.kind == "run"]
    ends = {entry.about or 0: entry.data for entry in told if entry.kind == "end"}
    kinds = [entry.kind for entry in told]
    assert kinds.count("end") == 4 and sorted(ends) == runs, told
    assert all(end["cancelled"] for end in ends.values())
    refused = [[each["path"] for each in ends[run].get("violations", ())] for run in runs]
    assert refused == [[f"{os.getcwd()}/.vscode"]] * 3 + [[]]


def an_end_that_is_being_explained_is_in_the_journal_once_the_session_is_closed() -> None:
    session = opened()
    execution = session.start("mkdir .vscode; exit 3")
    explained = session._refusals.explained
    explains, closed = threading.Event(), threading.Event()

    def slowly(*given: Any) -> object:
        if threading.current_thread() is follower:
            explains.set()
            assert closed.wait(30)
        return explained(*given)

    follower = threading.Thread(target=execution.wait)
    with mock.patch.object(session._refusals, "explained", slowly):
        follower.start()
        assert explains.wait(30)
        session.close()
        told = journal()
        closed.set()
        follower.join()
    (end,) = [entry.data for entry in told if entry.kind == "end"]
    assert end["exit_code"] == 3 and end["violations"] and journal() == told
    assert execution.violations and execution.wait().exit_code == 3


def what_had_ended_by_itself_is_told_as_it_ended_though_nobody_followed_it() -> None:
    session = opened(approvers=[Says(pinfold.Answer.ONCE)])
    fenced = session.start("echo said; exit 3")
    unfenced = session.start(pinfold.RunCommand("exit 4", disable_sandbox=True))
    session.start(["/nowhere/to/be/found"])
    unseen: list[Any] = [fenced._running, unfenced._running]
    wait_until(lambda: all(dict(each.poll.poll(0)).keys() & {each.status} for each in unseen))
    session.close()
    ends = [entry.data for entry in journal() if entry.kind == "end"]
    assert [(end["exit_code"], end["cancelled"]) for end in ends] == [(3, False), (4, False), (127, False)]
    assert (fenced.wait().stdout, fenced.wait().exit_code, unfenced.wait().exit_code) == ("said\n", 3, 4)


def an_end_is_journaled_though_its_refusals_cannot_be_explained() -> None:
    def unexplained(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    with opened() as session, mock.patch.object(session._refusals, "explained", unexplained):
        with suppress(RuntimeError):
            session.run("mkdir .vscode; exit 3")
            raise AssertionError("it was not said")
        (end,) = [entry.data for entry in journal() if entry.kind == "end"]
    assert end["exit_code"] == 3 and [each["path"] for each in end["violations"]] == [
        f"{os.getcwd()}/.vscode"
    ]


def who_follows_what_another_follows_already_ends_nothing() -> None:
    with opened() as session:
        execution = session.start("echo on; exit 4")
        events = execution.events()
        next(events)
        for use in (execution.wait, lambda: next(execution.events())):
            with suppress(ConfinementError):
                use()
                raise AssertionError("it was followed twice")
        assert [entry.kind for entry in journal()] == ["run"]
        assert list(events) == [pinfold.Exited(4, None)]
    assert [entry.data.get("exit_code") for entry in journal()] == [None, 4]


def _interrupt_once(time_has_come: Callable[[], object]) -> None:
    wait_until(time_has_come)
    os.kill(os.getpid(), signal.SIGUSR1)


def many_threads_share_a_session() -> None:
    found: list[str] = []
    with opened() as session:
        threads = [
            threading.Thread(target=lambda n=number: found.append(session.run(f"echo {n}").stdout))
            for number in range(32)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == sorted(f"{number}\n" for number in range(32))


def a_cancelled_task_takes_its_question_along() -> None:
    class Patient(Says):
        withdrawn = threading.Event()

        def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer | None:
            self.asked.append(question)
            self.withdrawn.wait(60)
            return pinfold.Answer.ONCE

        def withdraw(self, _: pinfold.PermissionNeeded) -> None:
            self.withdrawn.set()

    person = Patient(None)

    async def work() -> None:
        async with pinfold.AsyncSession([os.getcwd()], settings=ASKING, approvers=[person]) as session:
            task = asyncio.create_task(session.run("touch made"))
            while not person.asked:
                await asyncio.sleep(0.01)
            task.cancel()
            while not person.withdrawn.is_set():
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(work(), 2 * PATIENCE))
    assert not os.path.exists("made")


def asyncio_hosts_run_many_at_once() -> None:
    async def work() -> None:
        async with pinfold.AsyncSession([os.getcwd()], settings={}) as session:
            waits = "until test -e go; do sleep 0.5; done"
            running = [asyncio.create_task(session.run(f"echo > {n}; {waits}; echo {n}")) for n in range(64)]
            while not all(os.path.exists(str(n)) for n in range(64)):
                await asyncio.sleep(0.05)
            open("go", "w").close()
            assert [(await each).stdout for each in running] == [f"{n}\n" for n in range(64)]
            assert (await session.check("ls")).verdict == "allow"
            assert (await session.check_path("x")).verdict == "allow"

    asyncio.run(work())


def a_cancelled_task_cancels_its_command() -> None:
    async def work() -> None:
        async with pinfold.AsyncSession([os.getcwd()], settings={}) as session:
            task = asyncio.create_task(session.run("echo > begun; sleep 545"))
            while not os.path.exists("begun"):
                await asyncio.sleep(0.01)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            async with asyncio.timeout(30):
                while (await session.run("pgrep -f 'sleep 54[5]'")).exit_code != 1:
                    await asyncio.sleep(0.05)

    asyncio.run(work())


def a_cancelled_task_cancels_what_it_had_only_begun() -> None:
    session = pinfold.AsyncSession([os.getcwd()], settings={})

    begun, start = threading.Event(), session.session.start

    def begin(*given: Any, **more: Any) -> pinfold.Execution:
        begun.set()
        return start(*given, **more)

    session.session.start = begin  # type: ignore[method-assign]

    async def leave_while_it_starts() -> None:
        task = asyncio.create_task(session.run("sleep 546; touch made"))
        while not begun.is_set():  # else nothing would be started at all
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def is_gone() -> bool:
        return (await session.run("pgrep -f 'sleep 54[6]'")).exit_code == 1

    asyncio.run(leave_while_it_starts())  # and with it ends the loop
    wait_until(lambda: [entry.kind for entry in journal()].count("end") == 1)
    assert asyncio.run(is_gone())
    asyncio.run(session.close())


def a_command_is_cancelled_though_the_hosts_threads_are_busy() -> None:
    free = threading.Event()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        busy = [loop.run_in_executor(None, free.wait, 2 * PATIENCE) for _ in range(64)]
        async with pinfold.AsyncSession([os.getcwd()], settings={}) as session:
            task = asyncio.create_task(session.run("echo > begun; sleep 547"))
            while not os.path.exists("begun"):
                await asyncio.sleep(0.01)
            task.cancel()
            done, _ = await asyncio.wait((task,), timeout=PATIENCE)
            assert task in done and not free.is_set()
            execution = await session.start("sleep 547")
            await execution.cancel()
            assert (await execution.wait()).cancelled
        free.set()
        await asyncio.gather(*busy)

    asyncio.run(asyncio.wait_for(work(), 2 * PATIENCE))


def asyncio_hosts_take_events() -> None:
    async def work() -> None:
        async with pinfold.AsyncSession([os.getcwd()], settings={}) as session:
            execution = await session.start("yes | head -c 3000000; exit 2")
            size = 0
            async for event in execution.events():
                if isinstance(event, pinfold.Output):
                    size += len(event.data)
                else:
                    assert event.exit_code == 2
            assert size == 3_000_000
            endless = await session.start("yes")
            async for _ in endless.events():
                break
            left = await endless.wait()
            assert (left.signal, left.exit_code) == (9, None), "who leaves its events ends it"
            try:
                raise AssertionError([event async for event in endless.events()])
            except pinfold.ConfinementError as error:
                assert "can be followed once" in str(error)
            followed = await session.start("until test -e go; do sleep 0.02; done; echo x")
            taking = asyncio.ensure_future(anext(aiter(followed.events())))
            while not followed.execution._running.taken:  # type: ignore[union-attr]
                await asyncio.sleep(0.01)
            try:
                raise AssertionError(await followed.wait())
            except pinfold.ConfinementError as error:
                assert "another caller reads" in str(error)
            open("go", "w").close()
            assert await taking == pinfold.Output(pinfold.Stream.STDOUT, b"x\n")
            refused = await session.start("rm -rf /")
            assert refused.refusal and [event async for event in refused.events()] == []
        try:
            raise AssertionError(await session.run("true"))
        except pinfold.ConfinementError as error:
            assert "is closed" in str(error)

    asyncio.run(work())


def what_ended_with_its_session_can_be_asked_for_afterwards() -> None:
    async def work() -> None:
        session = pinfold.AsyncSession([os.getcwd()], settings={})
        waited, followed = await session.start("sleep 550"), await session.start("echo x; sleep 551")
        while not _sleeping("551"):
            await asyncio.sleep(0.01)
        await session.close()
        assert (await waited.wait()).cancelled
        output, end = [event async for event in followed.events()]
        assert output == pinfold.Output(pinfold.Stream.STDOUT, b"x\n")
        assert isinstance(end, pinfold.Exited) and end.cancelled
        wait_until(lambda: all(thread.name != "pinfold-command" for thread in threading.enumerate()))

    asyncio.run(asyncio.wait_for(work(), 2 * PATIENCE))


def python_ends_whoever_waits_for_a_command_and_each_run_has_an_end() -> None:
    """Nobody has closed the session; a loop that is left does not end its tasks."""
    waits = {
        "nobody": "session.start('sleep 552')",
        "a thread": "threading.Thread(target=session.start('sleep 552').wait, daemon=True).start()",
        "a loop": """
async def work():
    asyncio.ensure_future((await session.start('sleep 552')).wait())
    await asyncio.sleep(0.1)
session = pinfold.AsyncSession(['.'], settings={})
asyncio.new_event_loop().run_until_complete(work())
""",
    }
    for who, line in waits.items():
        program = (
            f"import asyncio, pinfold, threading; session = pinfold.Session(['.'], settings={{}})\n{line}"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), (who, done)
        begun, ended = journal()[-2:]
        assert (begun.kind, ended.kind, ended.about) == ("run", "end", begun.id), who
        assert ended.data["cancelled"] and not _sleeping("552"), who
        assert os.listdir(f"{os.environ['HOME']}/.local/state/pinfold/sessions") == [], who


def a_working_directory_that_is_gone_is_told_where_it_is_wanted() -> None:
    work = os.getcwd()
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir(f"{work}/gone")
    with pinfold.Session([work], settings={}) as session:
        assert session.run("pwd").stdout == f"{work}\n"
    try:
        raise AssertionError(pinfold.Session(settings={}).roots)
    except pinfold.PolicyError as error:
        assert "the working directory is gone" in str(error)


def a_session_ends_though_nobody_can_be_told_that_it_has() -> None:
    with opened() as session:
        execution = session.start("sleep 553")
        listed = f"{os.environ['HOME']}/.local/state/pinfold/sessions"
        os.rename(listed, f"{listed}.away")
        open(listed, "w").close()
    assert execution.wait().cancelled and not _sleeping("553")
    assert [entry.kind for entry in journal()] == ["run", "end"]
    os.unlink(listed)


def who_handles_a_signal_never_waits_for_what_it_came_in_the_middle_of() -> None:
    with opened() as session:
        execution = session.start("sleep 554")
        handled: list[str] = []
        work: dict[str, Callable[[], object]] = {
            "run": lambda: session.run("true"),
            "add": lambda: session.add_project(os.environ["HOME"]),
            "close": session.close,
        }
        for name, do in work.items():
            signal.signal(signal.SIGUSR1, lambda *_, do=do: do())
            session.sandboxes.sandboxed().look_again()  # type: ignore[attr-defined]
            with mock.patch(
                "pinfold.sandbox.linux.host.pen_draft.look", lambda *_: signal.raise_signal(signal.SIGUSR1)
            ):
                try:
                    raise AssertionError(session.run("true"))
                except ConfinementError as error:
                    assert "raise an exception there" in str(error), name
            assert os.environ["HOME"] not in session.roots
            handled.append(name)
        assert session.run("true").exit_code == 0 and handled == ["run", "add", "close"]
        # While it is only waited for, its handler may close the session.
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert execution.wait().cancelled and session.is_closed


def projects_that_are_added_at_once_are_all_there() -> None:
    wanted = [f"{os.environ['HOME']}/p{number}" for number in range(8)]
    for project in wanted:
        os.mkdir(project)
    with opened() as session:
        session.run("true")
        adding = [threading.Thread(target=session.add_project, args=(project,)) for project in wanted]
        adding += [threading.Thread(target=session.change, args=({"mode": "run_everything"},))]
        for thread in adding:
            thread.start()
        for thread in adding:
            thread.join()
        assert sorted(session.roots[1:]) == sorted(map(os.path.realpath, wanted))
        assert session.settings.mode == "run_everything"
        made = session.run([PYTHON, "-c", f"[open(f'{{p}}/made', 'w') for p in {wanted!r}]"])
        assert made.exit_code == 0, made.stderr


def debug_output_is_told_and_hidden() -> None:
    there = f"{os.environ['HOME']}/debug"
    with opened({"sandbox": {"debug_output_dir": there}}) as session:
        assert session.run("exit 3").exit_code == 3
        assert session.run(f"cat {there}/*; ls {there}/log.jsonl").stdout == ""
    with open(f"{there}/log.jsonl", "rb") as file:
        first = json.decode(file.readline())
    assert first["command"] == "exit 3" and first["enforced"] is True and first["exit_code"] == 3
    with open(f"{there}/run-{first['id']}.json", "rb") as file:
        told = json.decode(file.read())
    assert told["policy"]["type"] == "TYPE_WORKSPACE_READWRITE"
    assert told["converted"]["type"] == "WORKSPACE_READWRITE"
    assert told["plan"][0] == "readonlyroot" and told["end"]["seconds"] > 0


def what_the_host_makes_is_held() -> None:
    with opened({"filesystem": {"hide": ["secret.txt"]}}) as session:
        tries = "cat secret.txt; echo x > .git/hooks/h; echo x >> .git/config"
        held = "until [ -e go ] && [ ! -s secret.txt ]; do sleep 0.05; done; sleep 1"
        execution = session.start(f"{held}; {tries}", timeout=60)
        for path in (".git/config", "secret.txt"):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w") as file:
                file.write("[core]\n")
        with open("go", "w"):
            pass
        result = execution.wait()
        assert not result.timed_out and result.stdout == "" and not os.path.exists(".git/hooks/h"), result
        with open(".git/config") as file:
            assert file.read() == "[core]\n"
        assert session.run("cat secret.txt").stdout == ""


def a_session_outlives_its_keeper() -> None:
    with opened() as session:
        assert session.run("true").exit_code == 0
        keeper = session.sandboxes.sandboxed().keeper.pid  # type: ignore[attr-defined]
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not session.sandboxes._pens or not session.sandboxes._pens.is_alive())
        assert session.run("exit 4").exit_code == 4


def a_closed_session_runs_nothing() -> None:
    session = opened()
    session.close()
    session.close()
    try:
        session.run("touch made")
    except ConfinementError as error:
        assert "closed" in str(error)
    assert not os.path.exists("made")


def what_is_denied_while_a_person_thinks_is_denied() -> None:
    class Slow(Says):
        def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer | None:
            session.change({"commands": {"deny": ["touch"]}})
            return pinfold.Answer.ONCE

    with opened(ASKING, approvers=[Slow(None)]) as session:
        result = session.run("touch made")
        assert not result.ran and result.decision.verdict == "deny"
    assert not os.path.exists("made")


def odd_environments_are_refused_before_anything_runs() -> None:
    with opened() as session:
        for given in ({"A": 1}, {"A": "b\0c"}, {"A=B": "c"}, {"": "d"}):
            try:
                session.run("touch made", environment=given)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                continue
            raise AssertionError(f"{given} was taken")
        assert not os.path.exists("made") and session.run("true").exit_code == 0


def a_terminal_is_a_real_one() -> None:
    with opened() as session:
        execution = session.start("tty; stty size; read word; echo got $word", terminal=(30, 100))
        threading.Timer(0.3, lambda: execution.write(b"hello\n")).start()
        data = b"".join(event.data for event in execution.events() if isinstance(event, pinfold.Output))
        assert b"/dev/pts/" in data and b"30 100" in data and b"got hello" in data


def killing_the_host_ends_everything() -> None:
    seconds = f"600.{os.getpid()}"
    line = f"echo > begun; sleep {seconds}"
    with _host(f"import pinfold, os; pinfold.Session([os.getcwd()], settings={{}}).run({line!r})"):
        wait_until(lambda: os.path.exists("begun") and _sleeping(seconds))
    wait_until(lambda: not _sleeping(seconds))


@contextmanager
def _host(program: str) -> Iterator[None]:
    """Another process that runs this; killed in the end."""
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _finish(writer: int, data: bytes) -> None:
    os.write(writer, data)
    os.close(writer)


def _sleeping(seconds: str) -> bool:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if file.read() == b"sleep\0" + seconds.encode() + b"\0":
                        return True
            except OSError:
                continue
    return False


RUNS = probes_of(globals(), "opened", "journal", "without_user_namespaces")

if __name__ == "__main__":
    run(globals())
