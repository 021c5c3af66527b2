"""`pinfold run`, as root and as an ordinary user, with and without a terminal."""

import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import urllib.request
from typing import Any

import pytest

from pinfold.approval.chain import NOBODY
from tests.cli.terminal_user import Person
from tests.network.probes.programs import free_port
from tests.patience import wait_until
from tests.probe_module import PYTHON

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--", "true"], 0),
        (["true"], 0),
        (["-c", "exit 3"], 3),
        (["-c", "kill -9 $$"], 137),
        (["--", "no-such-program"], 127),
        (["--", "/etc/passwd"], 126),
        (["-c", "rm -rf /"], 126),
        (["--timeout", "0.3", "--", "sleep", "50"], 124),
        (["--cwd", "/nowhere", "--", "true"], 2),
        ([], 2),
        (["-c", "true", "--", "true"], 2),
        (["--timeout", "-1", "--", "true"], 2),
    ],
)
def test_exit_codes(person: Person, arguments: list[str], code: int) -> None:
    done = person.run(*arguments)
    assert done.returncode == code, done
    assert b"Traceback" not in done.stderr


def test_what_pinfold_itself_cannot_do_is_told_in_one_line(person: Person) -> None:
    (person.where / "home/.local").write_text("in the way")
    done = person.run("--", "touch", "made")
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1 and b"so nothing is run" in done.stderr
    assert not (person.work / "made").exists()


def test_an_agent_that_has_no_hook_asked_about_nothing(person: Person) -> None:
    done = person.run("--asked-by", "nobody", "--", "touch", "made")
    assert done.returncode == 2 and not (person.work / "made").exists()
    assert b"unknown agent `nobody`" in done.stderr and b"claude-code" in done.stderr


@pytest.mark.parametrize(
    "option",
    ["--write=.", "--allow-domain=a.test", "--publish=80", "--network=all", "--policy=workspace-write"],
)
def test_an_agents_line_has_no_more_than_a_hook_writes(person: Person, option: str) -> None:
    """Rules of the agent's may let each such line run unasked."""
    done = person.run(
        "--asked-by", "claude-code", "--policy", "read-only", option, "-c", "touch made; echo ran"
    )
    assert done.returncode == 2 and not done.stdout and not (person.work / "made").exists()
    assert f"no {option.partition('=')[0]};".encode() in done.stderr
    assert b"ran\n" in person.run("--asked-by", "codex", "--policy", "read-only", "-c", "echo ran").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--mode", "ask_every_time", "-c", "touch made"),
        ("--dangerously-disable-sandbox", "-c", "touch made"),
        ("-c", "echo x > .mcp.json && touch made"),
    ],
)
def test_an_agent_does_not_answer_on_a_terminal_that_it_made(
    person: Person, arguments: tuple[str, ...]
) -> None:
    """Codex and VS Code run commands on terminals that the model may type into."""
    typed = [(b"Run it?", b"y"), (b"Allow this write?", b"y")]
    for first in typed:
        code, written = person.on_terminal("--asked-by", "codex", *arguments, typed=[first])
        assert code and first[0] not in written, written
        assert not (person.work / "made").exists()


def test_streams_stay_apart_and_words_stay_words(person: Person) -> None:
    done = person.run("-c", "echo out; echo err >&2; cat", stdin=b"in\n" * 50_000)
    assert done.stdout == b"out\n" + b"in\n" * 50_000
    assert done.stderr == b"err\n"
    assert person.run("--", "printf", "%s|", "a b", "--", "-c").stdout == b"a b|--|-c|"
    assert person.run("printf", "%s|", "--", "-c").stdout == b"--|-c|"


def test_output_comes_as_it_is_written(person: Person) -> None:
    process = subprocess.Popen(
        [*person.program, "run", "-c", "echo first; sleep 30"],
        stdout=subprocess.PIPE,
        # Whoever runs the tests in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **person.given,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"first\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(25) == 130  # long before the command would have ended
    process.stdout.close()


def ends_of(person: Person) -> list[Any]:
    """How the journal says that each command ended."""
    told = subprocess.run(
        [*person.program, "journal", "list", "--json"], capture_output=True, timeout=60, **person.given
    )
    return [action["end"] for action in json.loads(told.stdout) if action["kind"] == "run"]


@pytest.mark.parametrize("output", [(), ("--json",)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_it_ends_its_command_and_that_is_written_down(
    person: Person, number: signal.Signals, output: tuple[str, ...]
) -> None:
    process = subprocess.Popen(
        [*person.program, "run", *output, "-c", "touch begun; sleep 30; touch over"],
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
        **person.given,
    )
    wait_until((person.work / "begun").exists)
    process.send_signal(number)
    assert process.wait(25) == 128 + number
    (end,) = ends_of(person)
    assert end and end["cancelled"] and not (person.work / "over").exists()


def test_a_terminal_that_is_closed_ends_its_command_and_that_is_written_down(person: Person) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*person.program, "run", "-c", "touch begun; sleep 30; touch over"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        **person.given,
    )
    os.close(theirs)
    wait_until((person.work / "begun").exists)
    os.close(ours)
    _, told = process.communicate(timeout=25)
    assert process.returncode == 128 + signal.SIGHUP and not told
    (end,) = ends_of(person)
    assert end and end["cancelled"] and not (person.work / "over").exists()


def test_what_was_typed_ahead_is_the_commands(person: Person) -> None:
    code, written = person.on_terminal("-c", "read -r x; echo got:$x", typed=[], before=b"ahead\n")
    assert code == 0 and b"got:ahead" in written, written


def test_a_hangup_that_is_ignored_ends_nothing(person: Person) -> None:
    process = subprocess.Popen(
        [*person.program, "run", "-c", "touch begun; until test -e go; do sleep 0.05; done; exit 5"],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        **person.given,
    )
    wait_until((person.work / "begun").exists)
    process.send_signal(signal.SIGHUP)
    (person.work / "go").touch()
    assert process.wait(25) == 5


def test_a_denial_says_why_with_a_caret(person: Person) -> None:
    person.settings('[commands]\ndeny = ["curl"]\n')
    done = person.run("-c", "echo hi && curl evil.example")
    assert done.returncode == 126 and not done.stdout
    text = done.stderr.decode()
    assert "            ^^^^^^^^^^^^^^^^^" in text and "settings.toml:2" in text
    assert text.endswith("\n\npinfold: not run\n") and text.count("matches the deny rule `curl`") == 1
    words = person.run("--", "curl", "two words").stderr.decode()
    assert "  curl 'two words'\n  ^^^^^^^^^^^^^^^^\n" in words, words
    alone = person.run("--mode", "ask_every_time", "--", "ls").stderr.decode()
    assert alone.endswith(f"\n\npinfold: not run; {NOBODY.by}\n")


def test_choices_of_the_command_line(person: Person) -> None:
    (person.where / "home/more").mkdir()
    os.chown(person.where / "home/more", *os.stat(person.work)[4:6])
    (person.work / "secret").write_text("x")
    more = person.where / "home/more"
    assert person.run("-c", f"touch {more}/x").returncode == 1
    assert person.run("--write", str(more), "-c", f"touch {more}/x").returncode == 0
    # What is not there cannot be opened; in the project it may be made all the same.
    missing = person.run("--write", f"{more}/no/y", "--write", "later", "--", "true")
    assert missing.returncode == 0 and missing.stderr.count(b"\n") == 1
    assert f"--write has no effect: {more}/no/y does not exist".encode() in missing.stderr.replace(
        b"\n", b" "
    )
    assert person.run("--policy", "read-only", "-c", "touch here").returncode == 1
    assert person.run("--hide", f"{person.work}/secret", "-c", "cat secret").stdout == b""
    assert person.run("-c", "cat secret").stdout == b"x"


def test_globs_that_open_nothing_are_named(person: Person) -> None:
    """On one line, whoever wrote them: in settings or on the command line."""
    more = person.where / "home/more"
    done = person.run("--write", f"{more}/x_*", "--", "true")
    assert done.returncode == 0 and done.stderr.count(b"\n") == 1, done
    said = f"`{more}/x_*` in `filesystem.write` opens nothing: nothing there matches it"
    assert said in done.stderr.decode()
    (more / "x_1").mkdir(parents=True)
    assert person.run("--write", f"{more}/x_*", "--", "true").stderr == b""


def test_json_tells_everything(person: Person) -> None:
    told = json.loads(person.run("--json", "-c", "echo out; exit 4").stdout)
    assert (told["exitCode"], told["stdout"], told["decision"]) == (4, "out\n", "allow")
    assert told["enforcement"]["level"] in ("full", "partial") and told["refusal"] is None
    refused = person.run("--json", "-c", "rm -rf /")
    assert refused.returncode == 126
    assert json.loads(refused.stdout)["enforcement"] is None
    assert "is open to ask" in json.loads(refused.stdout)["refusal"]
    strange = json.loads(person.run("--json", "--", "touch", "/usr/\udcff").stdout)
    (violation,) = strange["violations"]
    assert violation["path"] == "/usr/\ufffd" and violation["command"].endswith("/usr/\ufffd'")


@pytest.mark.parametrize(
    ("answer", "made"), [(b"y\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False)]
)
def test_a_person_at_the_terminal_is_asked(person: Person, answer: bytes, made: bool) -> None:
    code, written = person.on_terminal(
        "--mode", "ask_every_time", "--", "touch", "made", typed=[(b"Run it?", answer)]
    )
    assert (person.work / "made").exists() is made, written
    assert code == (0 if made else 126)
    assert b"touch made" in written


def test_what_leaves_the_fence_has_the_terminal_too(person: Person) -> None:
    line = "stty size; read word < /dev/tty; echo got:$word"
    code, written = person.on_terminal(
        "--dangerously-disable-sandbox", "-c", line, typed=[(b"Run it?", b"y"), (b"33 80", b"hello\r")]
    )
    assert code == 0 and b"got:hello" in written, written


@pytest.mark.parametrize(
    ("answer", "said"), [(b"n\n", b"said no"), (b"y\n", b"DNS lookup of nowhere.invalid failed")]
)
def test_a_person_is_asked_about_a_host_while_the_command_waits(
    person: Person, answer: bytes, said: bytes
) -> None:
    """The command has the terminal's keys before and after, and none of the answer."""
    line = "curl -sS -m 20 http://nowhere.invalid/; read word; echo got:$word"
    code, written = person.on_terminal(
        "--network", "ask", "-c", line,
        typed=[(b"Allow this connection?", answer), (said, b"hello\r")],
    )  # fmt: skip
    assert code == 0 and b"connect to nowhere.invalid:80" in written and b"got:hello" in written, written


def test_a_shell_that_ends_has_no_history_to_complain_of(person: Person) -> None:
    code, written = person.on_terminal("--", "bash", "--norc", typed=[(b"bash-", b"exit 3\r")])
    assert code == 3 and b"refused" not in written, written


def test_a_history_that_cannot_begin_is_told_only_of_what_fails(person: Person) -> None:
    line = "(echo typed > ~/.viminfo) 2>/dev/null; "
    done = person.run("-c", f"{line} true")
    assert (done.returncode, done.stderr) == (0, b"")
    done = person.run("-c", f"{line} false")
    assert done.returncode == 1 and b".viminfo" in done.stderr


def test_what_is_told_at_a_terminal_fits_it(person: Person) -> None:
    person.settings("[filesystem]\nask = false\n")
    _, written = person.on_terminal("-c", "{ echo x > .mcp.json; } 2> complaint", typed=[])
    told = written[written.index(b"pinfold: refused") :].decode().splitlines()
    assert len(told) > 1 and max(map(len, told)) < 80 and all(each.startswith("  ") for each in told[1:]), (
        told
    )


def test_whoever_said_no_is_told_just_that(person: Person) -> None:
    _, written = person.on_terminal("-c", "echo x > .mcp.json", typed=[(b"Allow this write?", b"n")])
    told = written[written.index(b"pinfold: refused") :].decode()
    said = f"pinfold: refused open {person.work}/.mcp.json: the person at the terminal said no"
    assert " ".join(told.split()) == said


def test_what_was_typed_before_the_question_is_no_answer(person: Person) -> None:
    code, written = person.on_terminal(
        *("--mode", "ask_every_time", "--", "touch", "made"), typed=[(b"Run it?", b"n\n")], before=b"y\ny\n"
    )
    assert code == 126 and not (person.work / "made").exists(), written


def test_the_command_has_a_terminal_of_its_own(person: Person) -> None:
    line = "tty; stty size; read word; echo got:$word"
    code, written = person.on_terminal("-c", line, typed=[(b"33 80", b"hello\r")])
    assert code == 0 and b"/dev/pts/0" in written and b"got:hello" in written


def test_a_program_that_is_missing_leaves_the_terminal_in_order(person: Person) -> None:
    code, written = person.on_terminal("--", "no-such-program", typed=[])
    assert code == 127 and b"no-such-program: No such file or directory\r\n" in written


def test_the_whole_file_system_is_refused_in_one_line(person: Person) -> None:
    """And at once: before all of it is looked through for ignore files, some of which may be broken."""
    for option in ("--project", "--write"):
        done = person.run(option, "/", "--", "true")
        assert done.returncode == 125 and b"work in a directory" in done.stderr
        assert done.stderr.count(b"\n") == 1


def test_a_failure_is_json_to_whoever_wants_that(person: Person) -> None:
    done = person.run("--json", "--project", "/", "--", "true")
    assert done.returncode == 125 and done.stderr == b""
    assert "work in a directory" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize("words", [["--", "npm", "ls", "--json"], ["npm", "ls", "--json"]])
def test_json_that_the_command_is_told_is_the_commands(person: Person, words: list[str]) -> None:
    person.settings("mode = 1")
    done = person.run(*words)
    assert done.returncode == 2 and done.stdout == b"" and b"settings.toml:1" in done.stderr


def test_keys_reach_the_command(person: Person) -> None:
    code, written = person.on_terminal(
        "-c",
        "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done",
        typed=[(b"ready", b"\x03")],
    )
    assert code == 9 and b"caught" in written


def is_served(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def test_what_no_setting_opens_is_told_no_setting(person: Person) -> None:
    subprocess.run(["git", "init", "-q"], cwd=person.work, check=True)
    told = person.run("-c", "git -c safe.directory='*' init -q --separate-git-dir=a b").stderr.decode()
    assert "`git init --separate-git-dir` cannot work on a project" in told and "refused open" in told
    assert "to allow it" not in told


def test_hosts_and_ports_are_named_on_the_command_line(person: Person) -> None:
    """And what was refused is told with the setting that opens it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        assert person.run("-c", line).returncode == 1
        opened = person.run("--network", "rules", "--allow-domain", f"localhost:{port}", "-c", line)
        assert opened.returncode == 0, opened
    for options, hint in (
        (("--network", "none"), b'to allow it: set `network.access = "ask"`'),
        (
            ("--network", "rules", "--allow-domain", "a.test"),
            b"add `203.0.113.9:80` to `network.allow`",
        ),
    ):
        refused = person.run(*options, "-c", "exec 3<>/dev/tcp/203.0.113.9/80")
        assert refused.returncode == 1 and hint in refused.stderr, refused.stderr
    port = free_port()
    serve = f"{PYTHON} -m http.server --bind 127.0.0.1 {port}"
    running = subprocess.Popen(
        [*person.program, "run", "--network", "none", "--publish", str(port), "--", *serve.split()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **person.given,
    )
    try:
        wait_until(lambda: is_served(port))
    finally:
        running.terminate()
        running.wait()


@pytest.mark.parametrize("port", ["0", "65536", "http", "3000:80", "1" * 5000])
def test_what_is_no_port_is_told_so(person: Person, port: str) -> None:
    done = person.run("--publish", port, "--", "true")
    assert done.returncode == 2
    assert f"argument --publish: `{port}` is not a port number from 1 to 65535" in done.stderr.decode()


def test_a_port_that_is_taken_is_told_at_once(person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = person.run("--publish", str(port), "-c", "echo > made")
    assert done.returncode == 0 and (person.work / "made").exists()
    assert done.stderr.decode() == (
        f"pinfold: port {port} is not published: localhost:{port}: Address already in use\n"
    )


def test_who_misses_the_ssh_agent_is_told_how_it_is_lent(person: Person) -> None:
    """The variable is taken from the environment, so nothing of what the program misses is seen."""
    hint = (
        b"pinfold: the sandbox cannot reach the ssh agent; "
        b"to allow it, add `$SSH_AUTH_SOCK` to `network.unix_sockets`"
    )
    program = person.work / "ssh-add"
    program.write_text('#!/bin/sh\n[ -n "$SSH_AUTH_SOCK" ]\n')
    program.chmod(0o755)
    assert person.run("-c", "./ssh-add -l").stderr == b""  # nobody has one
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(path := str(person.where / "home/agent"))
        os.chmod(path, 0o777)
        person.given["env"]["SSH_AUTH_SOCK"] = path
        missing = person.run("-c", "./ssh-add -l")
        assert missing.returncode == 1 and missing.stderr.strip() == hint
        assert person.run("-c", "false").stderr == b""
        person.settings('[network]\nunix_sockets = ["$SSH_AUTH_SOCK"]\n')
        lent = person.run("-c", "./ssh-add -l")
        assert (lent.returncode, lent.stderr) == (0, b"")


def test_what_git_cannot_do_inside_is_told(person: Person) -> None:
    hint = b"pinfold: `git worktree remove` cannot work on a project in the sandbox; run it outside"
    program = person.work / "git"
    program.write_text("#!/bin/sh\nexit $CODE\n")
    program.chmod(0o755)
    assert person.run("-c", "CODE=1 ./git -C x worktree remove y").stderr.strip() == hint
    for fine in ("CODE=0 ./git worktree remove y", "CODE=1 ./git worktree list", "false git worktree remove"):
        assert person.run("-c", fine).stderr == b""


@pytest.mark.parametrize("told", [None, "", "rel", "~", "."])
def test_home_never_begins_at_the_workspace(person: Person, told: str | None) -> None:
    """A command that writes settings where such a home would have them changes nothing by that."""
    del person.given["env"]["HOME"]
    person.given["env"] |= {} if told is None else {"HOME": told}
    person.given["env"]["XDG_STATE_HOME"] = str(person.where / "home")  # an account's own is not for tests
    loose = '[sandbox]\nenabled = false\n[commands]\nallow = ["id"]\n'
    places = [person.work / name / ".config/pinfold" for name in ("~", "rel", ".")]
    line = "; ".join(f"mkdir -p '{place}'; printf '{loose}' > '{place}/settings.toml'" for place in places)
    person.run("-c", line.replace("\n", "\\n"))
    done = person.run("--json", "--", "id")
    assert done.returncode == 0 and json.loads(done.stdout)["sandboxed"], done
    assert not (person.work / "~/.local").exists() and not (person.work / "rel/.local").exists()


def test_without_a_home_the_remedy_is_named(person: Person) -> None:
    person.given["env"]["HOME"] = "/nonexistent/home"
    if person.given["user"] is None:
        pytest.skip("root can make one there")
    done = person.run("--", "true")
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1 and b"name another one in XDG_STATE_HOME" in done.stderr
    person.given["env"]["XDG_STATE_HOME"] = str(person.where / "home")
    assert person.run("--", "true").returncode == 0


def test_a_grant_of_what_is_not_there_says_so(person: Person) -> None:
    person.settings('[filesystem]\nwrite = ["~/kept/deep"]\n')
    told = person.run("-c", "mkdir -p ~/kept/deep").stderr
    assert f"create `{person.where}/home/kept/deep`: `filesystem.write` lists it".encode() in told
    (person.where / "home/kept/deep").mkdir(parents=True)
    for each in ("kept", "kept/deep"):
        os.chown(person.where / "home" / each, person.given["user"] or -1, person.given["group"] or -1)
    assert person.run("-c", "touch ~/kept/deep/file").returncode == 0


def test_nobody_is_told_to_open_what_is_not_theirs(person: Person) -> None:
    told = person.run("-c", "touch /etc/pinfold-test").stderr
    is_root = person.given["user"] is None and not os.geteuid()
    assert b"refused open /etc/pinfold-test" in told and (b"add `/etc`" in told) is is_root


def test_an_empty_path_is_told_as_one(person: Person) -> None:
    assert person.run("--project", "", "--", "true").stderr.startswith(
        b"pinfold: an empty path: is not a directory"
    )
