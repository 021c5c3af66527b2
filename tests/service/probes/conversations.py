"""Conversations of agents, with real hooks and clients: each function runs in a child, as two users."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pinfold.integrations.hooks.rewrite import START, has_launcher, own_program
from pinfold.integrations.install.agents import hook_words
from pinfold.isolated import isolated_python, own_command, packages_apart
from pinfold.model.escape_text import quoted
from pinfold.service.local_socket import connect, socket_path
from tests.patience import wait_until
from tests.probe_module import SKIPPED, probes_of, run
from tests.processes import processes_of

CANNOT = "the sandbox is not available here"
AGENT = """
import json, os, subprocess, sys
for line in os.fdopen(int((sys.argv[1:] or [0])[0])):
    given = json.loads(line)
    done = subprocess.run(given["words"], input=given["stdin"], capture_output=True, text=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""
"""An agent: a program of its own, which starts hooks and lines."""


class Said(NamedTuple):
    verdict: str
    why: str
    line: str
    """What the agent runs."""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def environ(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG")}
    return {**kept, **more}


@contextmanager
def service() -> Iterator[int]:
    """The user's service; its process."""
    with subprocess.Popen(
        own_command("serve", "--agents"), env=environ(), stdin=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(lambda: listens() or process.poll() is not None)
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


def listens() -> bool:
    """Whether a service takes connections; a socket that a killed one has left does not."""
    try:
        connection = connect(socket_path(environ()))
    except OSError:
        return False
    assert connection
    connection.close()
    return True


def payload(line: str, conversation: str, **more: object) -> str:
    return json.dumps(
        {
            "hook_event_name": "PreToolUse",
            "cwd": os.getcwd(),
            "session_id": conversation,
            "tool_name": "Bash",
            "tool_input": {"command": line},
            **more,
        }
    )


def hook(line: str, conversation: str = "a", agent: str = "claude-code", **more: object) -> Said:
    done = subprocess.run(
        hook_words(agent),
        input=payload(line, conversation, **more),
        env=environ(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return said_of(done.stdout, line)


def said_of(out: str, line: str) -> Said:
    said: dict[str, Any] = json.loads(out)["hookSpecificOutput"]
    changed = said.get("updatedInput", {}).get("command", line)
    return Said(said["permissionDecision"], said["permissionDecisionReason"], changed)


def shell(line: str, cwd: str | None = None, **more: str) -> Ended:
    """Runs a line as an agent does that reads its output by pipes."""
    done = subprocess.run(
        ["bash", "-c", line],
        env=environ(**more),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
    )
    skip_without_sandbox(done.stderr)
    return Ended(done.returncode, done.stdout, done.stderr)


def skip_without_sandbox(stderr: str) -> None:
    if CANNOT in stderr:
        print(stderr)
        sys.exit(SKIPPED)


def turn(line: str, conversation: str = "a", agent: str = "claude-code", **more: object) -> Ended:
    """One line of a conversation, from the hook to its end. The agent's person says yes."""
    return shell(hook(line, conversation, agent, **more).line)


def agent_program() -> list[str]:
    """The words that start an agent: it is no Python that Pinfold would take for its own."""
    program = Path.home() / "agent"
    if not program.exists():
        shutil.copy(os.path.realpath("/usr/bin/python3"), program)
    return [str(program), "-I", "-c", AGENT]


@contextmanager
def program(
    *options: str, stdin: int = subprocess.DEVNULL
) -> Iterator[tuple[Callable[[list[str], str], Ended], subprocess.Popen[str]]]:
    """An agent's program: what it does with words and their standard input, and its process."""
    given, into = os.pipe()
    words = [*agent_program(), str(given), *options]
    with (
        os.fdopen(into, "w") as orders,
        subprocess.Popen(
            words,
            stdin=stdin,
            stdout=subprocess.PIPE,
            text=True,
            env=environ(),
            pass_fds=[given],
            start_new_session=True,
        ) as process,
    ):
        os.close(given)
        assert process.stdout
        out = process.stdout

        def do(words: list[str], stdin: str) -> Ended:
            orders.write(json.dumps({"words": words, "stdin": stdin}) + "\n")
            orders.flush()
            return Ended(*json.loads(out.readline()))

        try:
            yield do, process
        finally:
            process.kill()


@contextmanager
def another_agent() -> Iterator[tuple[Callable[[str, str], Ended], subprocess.Popen[str]]]:
    """A program with conversations of its own: what runs a line in one, and the program's process."""
    with program() as (do, process):

        def in_turn(line: str, conversation: str) -> Ended:
            said = do(list(hook_words("claude-code")), payload(line, conversation))
            return do(["bash", "-c", said_of(said.out, line).line], "")

        yield in_turn, process


@contextmanager
def attended(agent: str = "claude-code") -> Iterator[Callable[..., Said]]:
    """The hook of an agent that has a terminal, and so dialogs."""
    ours, theirs = os.openpty()
    with program(stdin=theirs) as (do, _):

        def said(line: str, conversation: str = "a", **more: object) -> Said:
            done = do(list(hook_words(agent)), payload(line, conversation, **more))
            assert done.code == 0, done
            return said_of(done.out, line)

        yield said
    os.close(ours)
    os.close(theirs)


def is_warm(conversation: str = "a") -> bool:
    """Whether a line finds what `begun` left."""
    return turn("cat /tmp/begun", conversation).out == "begun\n"


def begun(conversation: str = "a") -> None:
    done = turn("echo begun > /tmp/begun", conversation)
    assert done.code == 0, done


# What a conversation keeps


def a_line_finds_what_the_line_before_has_left() -> None:
    with service():
        begun()
        assert is_warm()
        served = turn("python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & echo $!")
        assert served.code == 0 and served.out.strip().isdigit(), served
        wait_until(lambda: turn("curl -sf http://127.0.0.1:8123/ > /dev/null").code == 0)
        assert turn("pkill -f '[h]ttp.server'; echo $?").out == "0\n"


def a_line_begins_where_the_one_before_ended() -> None:
    Path("sub/deeper").mkdir(parents=True)
    with service():
        ended = shell(f"{hook('cd sub/deeper').line}; echo $? $PWD; {hook('exit 3').line}; echo $? $PWD")
        assert ended.out == f"0 {os.getcwd()}/sub/deeper\n3 {os.getcwd()}/sub/deeper\n", ended
        ended = shell(f"{hook('cd sub; false').line}; echo $? $PWD")
        assert ended.out == f"1 {os.getcwd()}\n", ended
        ended = shell(f"{hook('cd /nowhere').line}; echo $? $PWD")
        assert ended.out == f"1 {os.getcwd()}\n", ended


def a_conversation_is_its_own() -> None:
    """Neither another conversation, nor one of the same name of another agent, sees or ends what it left."""
    Path.home().joinpath("other").mkdir()
    with service():
        begun()
        assert turn("sleep 600 > /dev/null 2>&1 & echo $! > /tmp/pid").code == 0
        for conversation, agent in (("b", "claude-code"), ("a", "codex")):
            seen = turn("ls /tmp; pgrep sleep; kill -9 -1", conversation, agent)
            assert "begun" not in seen.out and "\n" not in seen.out.strip(), seen
        assert turn("kill -0 $(cat /tmp/pid); echo $?").out == "0\n"
        line = "echo x > ~/other/file"
        assert turn(line).code == 1
        assert hook(line).verdict == "ask" and turn(line).code == 0
        assert turn("echo y > ~/other/file", "b").code == 1
        assert Path.home().joinpath("other/file").read_text() == "x\n"


def commands_get_the_callers_streams_variables_and_mask() -> None:
    with service():
        done = turn("echo out; echo err >&2; exit 7")
        assert (done.code, done.out, done.err) == (7, "out\n", "err\n"), done
        assert turn("kill -9 $$").code == 128 + 9
        assert shell(hook("echo $GREETING").line, GREETING="hello").out == "hello\n"
        assert shell(f"umask 077; {hook('umask').line}").out == "0077\n"
        assert shell(f"echo given | {hook('cat', agent='codex').line}").out == "given\n"
        # One file for both outputs, as Claude Code has it, in the order of writing.
        mixed = hook("for i in 1 2 3; do echo o$i; echo e$i >&2; done; echo x > /dev/stdout")
        with open("log", "wb") as log:
            subprocess.run(["bash", "-c", mixed.line], env=environ(), stdout=log, stderr=log, timeout=60)
        assert Path("log").read_text() == "o1\ne1\no2\ne2\no3\ne3\nx\n", Path("log").read_text()
        # The agent sees a pipe's end when the last process that has it open ends.
        assert shell(hook("(sleep 0.3; echo late) & echo soon").line).out == "soon\nlate\n"


def a_line_on_a_terminal_is_one_of_the_conversation() -> None:
    """Gemini CLI, for one, gives each line a terminal."""
    with service():
        assert turn("echo begun > /tmp/begun", agent="codex").code == 0
        line = (
            "cat /tmp/begun; tty -s && stty size; trap 'stty size' WINCH; echo $$ ready; read x; echo got $x"
        )
        line += "; trap 'echo int; exit 7' INT; echo again; while true; do sleep 0.1; done"
        ours, theirs = pty.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 33, 77, 0, 0))
        before = termios.tcgetattr(theirs)
        words = ["setsid", "--ctty", "--wait", "bash", "-c", hook(line, agent="codex").line]
        with subprocess.Popen(words, env=environ(), stdin=theirs, stdout=theirs, stderr=theirs) as client:
            said = b""

            def heard(text: bytes) -> bool:
                nonlocal said
                if select.select([ours], [], [], 0.1)[0]:
                    said += os.read(ours, 1 << 16)
                return text in said

            try:
                wait_until(lambda: heard(b"ready\r\n"))
                assert said.startswith(b"begun\r\n33 77\r\n"), said
                fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 22, 66, 0, 0))
                os.write(ours, b"typed\r")
                wait_until(lambda: heard(b"again\r\n"))
                wait_until(lambda: heard(b"22 66\r\n"))
                assert b"got typed" in said, said
                os.write(ours, b"\x03")
                wait_until(lambda: heard(b"int\r\n"))
                assert client.wait(60) == 7
            finally:
                client.kill()
        assert termios.tcgetattr(theirs) == before
        os.close(ours)
        os.close(theirs)


def keys_come_from_a_terminal_that_does_not_control_the_client() -> None:
    """The client is in the background of another one, which stops no reader of this."""
    with service():
        line = hook("echo ready; read x; echo got $x", agent="codex").line
        ours, theirs = pty.openpty()
        other, controlling = pty.openpty()
        start = f"set -m; ({line}) < {os.ttyname(theirs)} > {os.ttyname(theirs)} 2>&1 & wait $!"
        words = ["setsid", "--ctty", "--wait", "bash", "-c", start]
        with subprocess.Popen(
            words, env=environ(), stdin=controlling, stdout=controlling, stderr=controlling
        ) as client:
            said = b""

            def heard(text: bytes) -> bool:
                nonlocal said
                if select.select([ours], [], [], 0.1)[0]:
                    said += os.read(ours, 1 << 16)
                return text in said

            try:
                wait_until(lambda: heard(b"ready\r\n"))
                os.write(ours, b"typed\r")
                wait_until(lambda: heard(b"got typed\r\n"))
                assert client.wait(60) == 0
            finally:
                client.kill()
        for each in (ours, theirs, other, controlling):
            os.close(each)


def parallel_lines_share_the_conversation() -> None:
    with service():
        begun()
        line = hook("cat /tmp/begun; sleep 0.1; echo $$").line
        running = [
            subprocess.Popen(["bash", "-c", line], env=environ(), stdout=subprocess.PIPE, text=True)
            for _ in range(8)
        ]
        told = [each.communicate(timeout=60)[0] for each in running]
        assert all(each.startswith("begun\n") for each in told) and len(set(told)) == 8, told


# /tmp, as the agent's file tools and its lines see it


EVENTS = {"cursor": "preToolUse", "gemini": "BeforeTool"}
SHELLS = {"cursor": "Shell", "gemini": "run_shell_command", "vscode": "run_in_terminal"}
WRITING = {
    "claude-code": ("Write", "file_path"),
    "cursor": ("Write", "file_path"),
    "gemini": ("write_file", "file_path"),
    "vscode": ("create_file", "filePath"),
}
READING = {
    "claude-code": ("Read", "file_path"),
    "cursor": ("Read", "file_path"),
    "gemini": ("read_file", "absolute_path"),
    "vscode": ("read_file", "filePath"),
}


def used(agent: str, tool: str, given: dict[str, Any], **more: object) -> tuple[str, dict[str, Any], str]:
    """What an agent's hook says of a tool: its opinion, the input that the tool gets, and what the model is
    told."""
    said = {
        "hook_event_name": EVENTS.get(agent, "PreToolUse"),
        "cwd": os.getcwd(),
        "conversation_id" if agent == "cursor" else "session_id": "a",
        "tool_name": tool,
        "tool_input": given,
        **({"workspace_roots": [os.getcwd()]} if agent == "cursor" else {}),
        **more,
    }
    done = subprocess.run(
        hook_words(agent), input=json.dumps(said), env=environ(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout or "{}")
    specific = told.get("hookSpecificOutput", {})
    opinion = told.get("permission") or told.get("decision") or specific.get("permissionDecision", "none")
    changed = told.get("updated_input") or specific.get("updatedInput") or specific.get("tool_input")
    return opinion, changed or given, specific.get("additionalContext", "")


def lined(agent: str, line: str, **more: object) -> Ended:
    """One line of an agent's conversation."""
    opinion, given, _ = used(agent, SHELLS.get(agent, "Bash"), {"command": line, **more})
    assert opinion == "allow", (agent, opinion)
    return shell(given["command"])


def a_file_tools_tmp_is_the_lines_tmp() -> None:
    content = {"content": "by the tool\n", "a_field_of_tomorrow": [1]}
    with service():
        for agent, (tool, key) in WRITING.items():
            opinion, given, told = used(agent, tool, {key: f"/tmp/{agent}-x", **content})
            assert opinion == "allow" and {**given, key: ""} == {key: "", **content}, (agent, given)
            assert given[key].startswith(f"/tmp/pinfold-{os.geteuid()}/"), given
            assert agent in EVENTS or os.path.dirname(given[key]) in told, told
            Path(given[key]).write_text(given["content"])
            done = lined(
                agent, f"cat /tmp/{agent}-x; echo by a line > /tmp/{agent}-y; echo >> $TMPDIR/{agent}-x"
            )
            assert done.out == "by the tool\n", (agent, done)
            tool, key = READING[agent]
            for name, text in (("x", "by the tool\n\n"), ("y", "by a line\n")):
                _, given, _ = used(agent, tool, {key: f"/tmp/{agent}-{name}"})
                assert Path(given[key]).read_text() == text, (agent, given)
            # Under its own path it is the same file to all.
            assert lined(agent, f"cat {given[key]}").out == "by a line\n"
            assert not Path(f"/tmp/{agent}-x").exists() and not Path(f"/tmp/{agent}-y").exists()


def a_patchs_tmp_is_the_lines_tmp() -> None:
    patch = "*** Begin Patch\n*** Add File: /tmp/x\n+/tmp/x\n*** End Patch"
    with service():
        for tool, line in (("apply_patch", patch), ("Bash", f"apply_patch <<'EOF'\n{patch}\nEOF")):
            opinion, given, _ = used("codex", tool, {"command": line})
            assert opinion == "allow" and given["command"].count("+/tmp/x") == 1, given
            place = given["command"].partition("Add File: ")[2].partition("\n")[0]
            Path(place).write_text(tool)
            assert lined("codex", "cat /tmp/x").out == tool


def a_file_tool_is_not_led_elsewhere() -> None:
    """What commands see of the machine's /tmp stays the machine's; so does what they have no file for."""
    with service():
        assert turn("echo inside > /tmp/both; mkdir -p /tmp/dir; ln -s ~/.bashrc /tmp/out").code == 0
        machines = Path(f"/tmp/pinfold-test-{os.getpid()}")
        machines.mkdir()
        try:
            machine, gone = str(machines / "file"), str(machines / "gone")
            Path(machine).write_text("the machine's")
            for tool, path in (("Read", machine), ("Edit", machine), ("Read", gone), ("Write", "/tmp")):
                _, given, _ = used("claude-code", tool, {"file_path": path})
                assert given["file_path"] == path, given
            opinion, given, _ = used("claude-code", "Write", {"file_path": "/tmp/out", "content": ""})
            assert opinion == "ask", given  # where it leads is judged
            # The agent has rules of its own for what lies elsewhere: no allow of ours passes over them.
            links = {"machines": f"{machines}/file", "project": f"{os.getcwd()}/file", "far": "/run/x"}
            assert turn("; ".join(f"ln -s {path} /tmp/to-{name}" for name, path in links.items())).code == 0
            for name in links:
                for tool in ("Read", "Write"):
                    opinion, given, _ = used("claude-code", tool, {"file_path": f"/tmp/to-{name}"})
                    assert opinion == "ask", (name, tool, opinion)
            patch = "*** Begin Patch\n*** Add File: /tmp/x\n+x\n*** Add File: file\n+x\n*** End Patch"
            assert used("vscode", "apply_patch", {"input": patch})[0] == "ask"
            opinion, given, _ = used(
                "claude-code", "Write", {"file_path": "/tmp/../tmp/dir/x", "content": ""}
            )
            assert opinion == "allow" and Path(given["file_path"]).parent.is_dir(), given
            settings = Path.home() / ".config/pinfold/settings.toml"
            settings.parent.mkdir(parents=True)
            settings.write_text('[filesystem]\ntmp = "shared"\n')
            _, given, _ = used("claude-code", "Write", {"file_path": "/tmp/new", "content": ""})
            assert given["file_path"] == "/tmp/new", given
        finally:
            shutil.rmtree(machines)


def a_conversations_tmp_is_its_own_and_ends_with_it() -> None:
    with service():
        begun()
        _, given, _ = used("claude-code", "Read", {"file_path": "/tmp/begun"})
        place = os.path.dirname(given["file_path"])
        seen = turn(f"ls -A /tmp/pinfold-*; cat {place}/begun", "b")
        assert "begun" not in seen.out and os.path.basename(place) not in seen.out, seen
        assert os.stat(os.path.dirname(place)).st_mode & 0o077 == 0
        turn("mkdir -p /tmp/closed/deep; chmod 0 /tmp/closed")
        ending = payload("", "a", hook_event_name="SessionEnd", reason="other")
        assert not subprocess.run(
            hook_words("claude-code"), input=ending, env=environ(), text=True
        ).returncode
        assert not os.path.lexists(place)


# How it ends


REFILLED = 10
"""More parsers and builders of sandboxes may wait than when they were counted; fifty things are a leak."""


def fifty_conversations_at_once_leave_nothing() -> None:
    with service() as pid:
        begun()
        told: dict[str, Ended] = {}

        def talk(conversation: str) -> None:
            line = f"echo {conversation} > /tmp/own; cat /tmp/own; sleep 600 > /dev/null 2>&1 &"
            told[conversation] = turn(line, conversation)

        before = held_by(pid)
        names = [f"c{number}" for number in range(50)]
        threads = [threading.Thread(target=talk, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {name: each.out.strip() for name, each in told.items()} == {name: name for name in names}, told
        for name in names:
            ending = payload("", name, hook_event_name="SessionEnd", reason="other")
            done = subprocess.run(hook_words("claude-code"), input=ending, env=environ(), text=True)
            assert done.returncode == 0
        wait_until(lambda: all(now < then + REFILLED for now, then in zip(held_by(pid), before, strict=True)))
        assert is_warm()


def held_by(pid: int) -> tuple[int, int, int]:
    """A service's descriptors, threads and processes."""
    open_ones, threads = (len(os.listdir(f"/proc/{pid}/{each}")) for each in ("fd", "task"))
    return open_ones, threads, len(processes_of(pid))


def a_client_that_dies_ends_its_command() -> None:
    with service():
        line = hook("sleep 600 & echo $! > /tmp/pid; echo ready; sleep 600").line
        with subprocess.Popen(
            ["bash", "-c", line], env=environ(), stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as client:
            assert client.stdout and client.stdout.readline() == "ready\n"
            os.killpg(client.pid, signal.SIGKILL)
        wait_until(lambda: turn("kill -0 $(cat /tmp/pid) 2>/dev/null; echo $?").out == "1\n")


def a_conversation_ends_as_its_agent_says() -> None:
    with service():
        begun()
        ending = payload("", "a", hook_event_name="SessionEnd", reason="other")
        done = subprocess.run(hook_words("claude-code"), input=ending, env=environ(), text=True)
        assert done.returncode == 0
        assert not is_warm()


def a_conversation_ends_with_its_agents_process() -> None:
    with service():
        with another_agent() as (in_turn, process):
            done = in_turn("sleep 600 > /dev/null 2>&1 & echo begun > /tmp/begun; echo $PINFOLD_PEN", "a")
            skip_without_sandbox(done.err)
            assert done.out == "1\n", done
            assert in_turn("cat /tmp/begun", "a").out == "begun\n"
            process.kill()
        wait_until(lambda: not records())
        assert not is_warm()


def records() -> list[str]:
    return os.listdir(Path.home() / ".local/state/pinfold/conversations")


def a_service_that_starts_again_resumes_conversations_and_never_wider() -> None:
    Path.home().joinpath("other").mkdir()
    line = "echo x > ~/other/file"
    with service() as pid:
        assert turn(line).code == 1 and hook(line).verdict == "ask" and turn(line).code == 0
        os.kill(pid, signal.SIGKILL)
    with service() as pid:
        assert turn("echo y > ~/other/file").code == 0  # granted for the conversation
        os.kill(pid, signal.SIGKILL)
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sandbox]\npolicy = "read-only"\n')
    with service():
        assert turn("echo z > ~/other/file").code == 1
        assert turn("echo z > here").code == 1
    assert Path.home().joinpath("other/file").read_text() == "y\n" and not Path("here").exists()


def without_the_service_a_line_runs_alone_and_once() -> None:
    with service() as pid:
        line = hook("echo $PINFOLD_PEN; echo once >> count").line
        os.kill(pid, signal.SIGKILL)
    assert shell(line).out == "1\n" and Path("count").read_text() == "once\n"


def a_line_whose_service_dies_is_not_run_again() -> None:
    with service() as pid:
        line = hook("echo once >> count; echo begun; sleep 600").line
        with subprocess.Popen(
            ["bash", "-c", line], env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout and client.stdout.readline() == "begun\n"
            os.kill(pid, signal.SIGKILL)
            _, err = client.communicate(timeout=60)
            assert client.returncode == 125 and "may have partly completed" in err, err
    assert Path("count").read_text() == "once\n"


# Questions


def what_was_denied_is_asked_when_the_line_is_tried_again() -> None:
    Path.home().joinpath("other").mkdir()
    line = "echo x > ~/other/file"
    with service():
        first = hook(line)
        assert first.verdict == "allow"
        denied = shell(first.line)
        assert denied.code == 1 and "run exactly the same command again" in denied.err, denied
        again = hook(line)
        assert again.verdict == "ask" and f"write {Path.home()}/other" in again.why, again
        assert shell(again.line).code == 0 and hook(line).verdict == "allow"
        assert turn("echo y > ~/other/file").code == 0
    assert Path.home().joinpath("other/file").read_text() == "y\n"


def what_a_line_will_want_is_asked_before_it_runs() -> None:
    """All of it in one question, by name. A yes holds for the conversation, and grants exactly that."""
    subprocess.run(["git", "init", "--quiet"], check=True)
    secret = Path.home() / ".netrc"
    secret.write_text("key\n")
    Path.home().joinpath(".aws").mkdir()
    Path.home().joinpath(".aws/credentials").write_text("other\n")
    Path("new").write_text("")
    line = (
        "git add new && cat ~/.netrc ~/.aws/credentials;"
        " curl -s https://x.example/ -o y; git -c user.name=a -c user.email=a@b.example commit -qm x"
    )
    names = ("git writes", f"read {secret}", "connect to x.example:443")
    with service(), attended() as asked:
        first = asked(line)
        assert first.verdict == "ask" and all(name in first.why for name in names), first
        assert first.why.count("Yes allows it") == 1, first
        done = shell(first.line)
        assert done.out == "key\n" and done.code == 0, done
        assert asked(line).verdict == "allow"
        removed = asked("git rm -q --cached new")
        assert removed.verdict == "allow" and shell(removed.line).code == 0, removed
        done = shell(asked("git log --format=%s; git status --short").line)
        assert done.out == "x\nD  new\n?? new\n", done
        other = asked("curl -s https://y.example")
        assert other.verdict == "ask" and "x.example" not in other.why, other


def a_yes_grants_what_settings_have_not_allowed_meanwhile() -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)
    Path("new").write_text("")
    secret, settings = Path.home() / ".netrc", Path.home() / ".config/pinfold/settings.toml"
    secret.write_text("key\n")
    settings.parent.mkdir(parents=True)
    with service(), attended() as asked:
        first = asked("git add new && cat ~/.netrc")
        assert first.verdict == "ask" and "git writes" in first.why and f"read {secret}" in first.why, first
        settings.write_text("[filesystem]\ngit_writes = true\n")
        done = shell(first.line)
        assert (done.code, done.out) == (0, "key\n"), done


def nothing_is_asked_that_is_allowed_or_never_granted() -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)
    Path(".env").write_text("")
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    allowed = '[filesystem]\ngit_writes = true\n[network]\nallow = ["*.example"]\ndeny = ["q.test"]\n'
    lines = (
        "git commit -m x",
        "curl https://x.example",
        "curl https://q.test",
        "cat .env",
        "cd /tmp; git init",
    )
    with service(), attended() as asked:
        settings.write_text(allowed)
        for line in lines:
            assert asked(line).verdict == "allow", line
        for closed in ('[network]\naccess = "none"\n', '[sandbox]\npolicy = "read-only"\n'):
            settings.write_text(closed)
            assert asked("curl https://x.example").verdict == "allow", closed
        settings.write_text("[filesystem]\nask = false\n")
        assert asked("git commit -m x").verdict == "allow"
        settings.write_text("")
        for mode in ("plan", "bypassPermissions", "dontAsk"):
            assert "git writes" not in asked("git add -n x; git add x", permission_mode=mode).why
        assert "git writes" in asked("git add x").why


def where_no_dialog_is_possible_nothing_more_is_asked() -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)
    _ours, theirs = os.openpty()
    with service():
        assert hook("git commit -m x").verdict == "allow"
        assert hook("git commit -m x", agent="codex").verdict == "allow"
        with program("-p", stdin=theirs) as (do, _):
            done = do(list(hook_words("claude-code")), payload("git commit -m x", "b"))
            assert said_of(done.out, "").verdict == "allow", done


def a_rules_question_names_what_the_line_will_want() -> None:
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[commands]\nask = ["curl"]\n')
    with service(), attended() as asked:
        first = asked("curl -s https://x.example")
        assert first.verdict == "ask" and "connect to x.example:443" in first.why, first
        assert "rule" in first.why or "curl" in first.why.replace("curl -s", ""), first
        shell(first.line)
        again = asked("curl -s https://x.example")
        assert again.verdict == "ask" and "connect to" not in again.why, again


def a_no_in_the_agents_dialog_grants_nothing() -> None:
    """The agent does not run the line then; what it runs later, or elsewhere, has not been granted."""
    Path.home().joinpath("other").mkdir()
    Path("sub").mkdir()
    line = "echo x > ~/other/file"
    with service():
        assert turn(line, prompt_id="1").code == 1
        asked = hook(line, prompt_id="1")
        assert asked.verdict == "ask"
        assert shell(asked.line, "sub").code == 1  # another directory: another line
        hook("echo on", prompt_id="2")  # the person's next words
        assert shell(asked.line).code == 1
    assert not Path.home().joinpath("other/file").exists()


def a_yes_is_for_the_call_that_was_asked_about() -> None:
    """The same line from another call, let through before, takes nothing while the person still thinks."""
    Path.home().joinpath("other").mkdir()
    line = "echo x > ~/other/file"
    with service():
        early = hook(line)
        assert early.verdict == "allow" and turn(line).code == 1
        asked = hook(line)
        assert asked.verdict == "ask" and f"write {Path.home()}/other" in asked.why, asked
        assert shell(early.line).code == 1
        assert not Path.home().joinpath("other/file").exists()
        again = hook(early.line)  # an agent may write such a line by itself
        assert again.verdict == "ask" and shell(asked.line).code == 1
        forged = re.sub("--offer [0-9a-f]+", f"--offer {'0' * 16}", again.line)
        assert forged != again.line and shell(forged).code == 1
        assert shell(again.line).code == 0


def a_no_holds_where_the_line_is_not_asked_about_again() -> None:
    """The person says no, and changes the agent's mode; or the line is to run outside of the sandbox."""
    Path.home().joinpath("other").mkdir()
    line = "echo x > ~/other/file"
    with service():
        assert turn(line).code == 1
        for mode in ("dontAsk", "bypassPermissions", "plan"):
            assert hook(line).verdict == "ask"
            assert shell(hook(line, permission_mode=mode).line).code == 1, mode
        assert hook(line).verdict == "ask"
        outside = {"command": line, "dangerouslyDisableSandbox": True}
        said = hook(line, tool_input=outside)
        assert said.verdict == "ask" and "outside of the sandbox" in said.why, said
        shell(said.line)
        Path.home().joinpath("other/file").unlink(missing_ok=True)
        assert hook("pinfold request --write ~/other").verdict == "ask"
        assert shell(hook("pinfold request --write ~/other", permission_mode="plan").line).code != 0
        assert turn("echo y > ~/other/file").code == 1
    assert not Path.home().joinpath("other/file").exists()


def git_outside_the_sandbox_obeys_no_repository_in_tmp() -> None:
    """A command may change that repository's configuration after it was judged."""
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sandbox]\nexcluded_commands = ["git status"]\n[commands]\nallow = ["git status"]\n')
    with service():
        made = turn("mkdir -p /tmp/r/sub; command git -C /tmp/r init -q; echo $TMPDIR", agent="codex")
        assert made.code == 0, made
        place = made.out.strip()
        assert hook("git status", agent="codex").verdict == "allow"
        for where in (f"{place}/r", f"{place}/r/sub", place):
            given = {"command": "git status", "workdir": where}
            assert shell(hook("git status", agent="codex", tool_input=given).line, where).code == 126, where
            said = hook("git status", cwd=where, tool_input={"command": "git status"})
            assert said.verdict == "ask" and "commands can write" in said.why, said


def git_outside_the_sandbox_is_judged_by_its_clients_variables() -> None:
    """Not by the service's, which another process has started."""
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sandbox]\nexcluded_commands = ["git status"]\n[commands]\nallow = ["git status"]\n')
    subprocess.run(["git", "init", "-q", "."], check=True)
    evil = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "./evil"}
    with service():
        line = hook("git status", agent="codex").line
        for variables, code in (({}, 0), ({"GIT_DIR": ".git"}, 126), (evil, 126), ({}, 0)):
            for more in ({}, {"PINFOLD_HOOK_SERVICE": "0"}):
                assert shell(line, **variables, **more).code == code, (variables, more)


def an_agent_may_ask_for_a_grant() -> None:
    Path.home().joinpath("other").mkdir()
    with service():
        asked = hook("pinfold request --write ~/other --host x.example --git-writes --why 'to build'")
        assert asked.verdict == "ask" and "connect to x.example" in asked.why, asked
        granted = shell(asked.line)
        assert granted.code == 0 and f"write {Path.home()}/other" in granted.out, granted
        assert turn("echo y > ~/other/file").code == 0
        unattended = hook("pinfold request --host y.example", permission_mode="dontAsk")
        assert unattended.verdict != "ask" and shell(unattended.line).code != 0


def cursor_asks_by_the_hook_that_can() -> None:
    """One of its hooks changes the line, and the other one asks about the changed one."""
    Path.home().joinpath("other").mkdir()
    line = "echo x > ~/other/file"
    with service():
        for expected in ("allow", "ask", "allow"):
            opinion, given, _ = used("cursor", "Shell", {"command": line})
            assert opinion == "allow", opinion
            said = {
                "hook_event_name": "beforeShellExecution",
                "conversation_id": "a",
                "workspace_roots": [os.getcwd()],
                "cwd": os.getcwd(),
                "command": given["command"],
            }
            done = subprocess.run(
                hook_words("cursor"), input=json.dumps(said), env=environ(), capture_output=True, text=True
            )
            told = json.loads(done.stdout)
            assert told["permission"] == expected, told
            if expected == "ask":
                assert f"write {Path.home()}/other" in told["user_message"], told
            ended = shell(given["command"])
            assert (ended.code != 0) == (
                expected == "allow" and not Path.home().joinpath("other/file").exists()
            )
            assert expected == "ask" or not ended.code or "run exactly the same" in ended.err, ended


def an_agent_without_dialogs_asks_on_the_page() -> None:
    """And each text says where an answer can be given."""
    Path.home().joinpath("other").mkdir()
    line = "pinfold request --write ~/other"
    with service():
        for agent, more in (("codex", {}), ("claude-code", {"permission_mode": "dontAsk"})):
            said = hook(line, agent=agent, **more)
            assert said.verdict == "allow", said
            done = shell(said.line)
            assert done.code == 126 and "`pinfold web` page is open" in done.err, done
        denied = turn("echo x > ~/other/file", agent="codex")
        assert denied.code == 1 and "`pinfold web`" in denied.err and "terminal" in denied.err, denied
        assert f"{Path.home()}/other/file" in denied.err or "~/other/file" in denied.err, denied
        from tests.web.page_world import Tab, page

        with page(Path.home()) as (opened, _):
            tab = Tab(opened)

            def say_yes() -> None:
                (question,) = tab.questions()
                assert "write ~/other" in json.dumps(question), question
                tab.answer(question["id"], "session")

            person = threading.Thread(target=say_yes)
            person.start()
            done = turn(line, agent="codex")
            person.join(30)
            assert done.code == 0 and f"granted: write {Path.home()}/other" in done.out, done
        assert turn("echo x > ~/other/file", agent="codex").code == 0
        done = turn(line, agent="codex")
        assert done.code == 0 and "the policy in force has all of that" in done.err, done


def no_command_reads_the_secret_of_the_webhook() -> None:
    """The webhook answers for an agent without dialogs, and no command could."""
    from tests.approval.test_notifications import receiver, signed

    Path.home().joinpath("other").mkdir()
    own = environ()
    with service(), receiver(lambda given: signed(own, given[0]["nonce"], answer="session")) as (url, heard):
        settings = Path.home() / ".config/pinfold/settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[approvals]\nwebhook = "{url}"\n')
        done = turn("pinfold request --write ~/other", agent="codex")
        assert done.code == 0 and "granted: write" in done.out and len(heard) == 1, done
        file = Path.home() / ".local/state/pinfold/webhook.key"
        secret = file.read_text().strip()
        done = turn(f"cat {file}; ls {file.parent}; grep -r {secret[:8]} ~ /proc/*/environ", agent="codex")
        assert secret[:8] not in done.out and "webhook.key" not in done.out, done


def a_rule_that_asks_is_answered_in_the_dialog() -> None:
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[commands]\nask = ["echo ship"]\n')
    with service():
        asked = hook("echo ship it")
        assert asked.verdict == "ask"
        assert shell(asked.line).out == "ship it\n"
        assert shell(asked.line).code == 126  # a yes is good once


def a_plan_changes_nothing() -> None:
    with service():
        begun()
        planned = hook("cat /tmp/begun; touch made", permission_mode="plan")
        ended = shell(planned.line)
        assert ended.out == "begun\n" and not Path("made").exists(), ended


def a_plans_line_that_reads_is_one_of_the_conversation() -> None:
    """It names the program `pinfold`, where there is one."""
    with service() as pid:
        begun()
        planned = hook("cat /tmp/begun || echo alone; false", permission_mode="plan").line
        assert ("{ d=" in planned) != has_launcher(), planned
        assert shell(planned) == (1, "begun\n", "")
        if has_launcher():  # which starts this, where it is installed
            started = " ".join(map(quoted, isolated_python(START, *packages_apart(), "--pinfold")))
            assert shell(planned.replace(own_program()[0], started)) == (1, "begun\n", "")
        os.kill(pid, signal.SIGKILL)
    ended = shell(planned)
    assert (ended.code, ended.out) == (1, "alone\n"), ended


def settings_that_change_count_for_the_next_line() -> None:
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    with service():
        begun()
        line = hook("echo x > made").line
        settings.write_text('[sandbox]\npolicy = "read-only"\n')
        assert shell(line).code == 1 and not Path("made").exists()
        settings.write_text('[commands]\ndeny = ["echo"]\n')
        assert shell(line).code == 126 and hook("echo y").verdict == "deny"


# Who may use it


def a_client_elsewhere_runs_its_command_alone() -> None:
    """In another program's sandbox the service would lead out of it."""
    with service():
        begun()
        line = hook("cat /tmp/begun || echo alone").line
        places = [["setpriv", "--no-new-privs"]]
        for kind in ("--mount", "--net", "--pid --fork", "--ipc", "--uts"):
            user = ["--user", "--map-current-user"] if os.geteuid() else []
            places.append(["unshare", *user, *kind.split()])
        if not os.geteuid():
            places += [
                ["setpriv", "--regid", "12345", "--clear-groups"],
                ["setpriv", "--bounding-set", "-sys_boot"],
            ]
        for place in places:
            done = subprocess.run(
                [*place, "bash", "-c", line], env=environ(), capture_output=True, text=True, timeout=60
            )
            assert "begun" not in done.stdout, (place, done)
        assert is_warm()


def what_is_no_hooks_line_runs_alone() -> None:
    with service():
        begun()
        line = hook("cat /tmp/begun", agent="codex", conversation="a").line
        assert "--conversation a" in line
        for other in (
            line.replace("--asked-by codex", "--asked-by claude-code --write /"),
            line.replace("--asked-by codex", "--asked-by claude-code --policy danger-full-access"),
            line.replace("--asked-by codex", "--asked-by claude-code --network all"),
            line.replace("--asked-by codex", "--asked-by nobody"),
        ):
            assert "begun" not in shell(other).out, other


def a_line_of_another_conversation_is_not_taken_for_ones_own() -> None:
    """An agent may write the line of a client by itself: that names a conversation that it is not in."""
    with service():
        begun()
        other = hook("cat /tmp/begun").line
        said = hook(other, "b")
        assert said.line != other and "begun" not in shell(said.line).out, said


def nothing_in_a_sandbox_reaches_the_service() -> None:
    with service():
        path = socket_path(environ())
        connecting = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        done = turn(f'ls -la ~/.local/state/pinfold; python3 -c "{connecting}"')
        assert done.code == 1 and os.path.basename(path) not in done.out, done


HELPERS = (
    *("environ", "service", "listens", "payload", "hook", "said_of", "shell", "skip_without_sandbox", "turn"),
    *("agent_program", "another_agent", "held_by", "is_warm", "begun", "records", "used", "lined"),
    *("program", "attended"),
)
NAMES = probes_of(globals(), *HELPERS)

if __name__ == "__main__":
    run(globals())
