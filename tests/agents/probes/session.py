"""One long conversation of each real agent, bare and with Pinfold: thirty turns, and the same results.

Each function of `PLAYERS` plays a script with one agent as its person would, who says yes to each question.
Claude Code's dialog comes over its control protocol, and Gemini CLI's on a terminal. Codex's questions come
on the page of `pinfold web`, since its hooks cannot ask.

Left out: a subagent of Codex and of Gemini CLI, whose tools for that this does not drive; plan mode, which
cannot begin in the middle of a conversation without a person (`a_plan_reads_unasked` of `turns.py` has it for
Claude Code; neither `codex exec` nor Gemini CLI's hooks know it); and for Codex a kept copy of long output,
since it keeps none.
"""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pinfold.kernel import mounts
from tests.agents.index_stub import Index
from tests.agents.model_stub import Call, Model, Step
from tests.agents.probes.turns import PROGRAMS, TOOLS, environ, installed, settings, started_by
from tests.patience import wait_until
from tests.session.fake_internet import Machine
from tests.web.page_world import Tab, page

HOST = "a.test"
LONG = 420.0
"""Seconds that one conversation may take on a busy machine."""
AGAIN = "run exactly the same command again"
APP, TEST = "def answer():\n    return 41\n", "import unittest, app\n\n\nclass T(unittest.TestCase):\n"
TEST += "    def test_answer(self):\n        self.assertEqual(app.answer(), 42)\n\n\nunittest.main()\n"
ALLOW = "Allow once"
"""An answer in Gemini CLI's dialog."""
SUBAGENT = "Say what the helper sees."


class Turn(NamedTuple):
    name: str
    step: Step
    expect: str
    """A part of what the model is told, bare or not."""
    wants: str = ""
    """What the person is asked for, once; empty if nothing."""
    varies: bool = False
    """Whether nothing but `expect` is the same each time."""


def script(agent: str, index: str) -> list[Turn]:
    tool, key = TOOLS[agent]

    def sh(line: str, **more: object) -> Call:
        return Call(tool, {key: line, **more})

    def read(path: str) -> Call:
        return {
            "claude-code": Call("Read", {"file_path": f"{os.getcwd()}/{path}"}),
            "gemini": Call("read_file", {"file_path": path}),
        }.get(agent, sh(f"cat {path}"))

    def edit(path: str, old: str, new: str) -> Call:
        changed = {"file_path": f"{os.getcwd()}/{path}", "old_string": old, "new_string": new}
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"
        return {
            "claude-code": Call("Edit", changed),
            "gemini": Call("replace", {**changed, "instruction": "mend the answer"}),
        }.get(agent, sh(f"apply_patch <<'EOF'\n{patch}\nEOF"))

    def write(path: str, text: str) -> Call:
        given = {"file_path": f"{os.getcwd()}/{path}", "content": text}
        return {"claude-code": Call("Write", given), "gemini": Call("write_file", given)}.get(
            agent, sh(f"cat > {path} <<'EOF'\n{text}EOF")
        )

    python = "/usr/bin/python3"
    pip = f"PIP_CONFIG_FILE=/dev/null {python} -m pip install --no-cache-dir --disable-pip-version-check -qq"
    pip += f" --target lib --index-url {index}/simple/ --trusted-host {HOST} tinypkg 2>&1; echo pip=$?"
    npm = f"npm install --registry {index} tinypkg >/dev/null 2>&1; echo npm=$?"
    commit = "git add app.py new.txt && git commit -qm second; echo commit=$?"
    serve = f"echo $$ > /tmp/server.pid; exec {python} -m http.server 8123 --bind 127.0.0.1"
    # On a terminal, a process that has not left it when the line ends gets SIGHUP: also bare.
    served = f": > /tmp/server.pid; setsid sh -c '{serve}' > /tmp/server.log 2>&1 & "
    served += "until [ -s /tmp/server.pid ]; do sleep 0.1; done; echo started"
    kept = "find ~/.claude/projects ~/.gemini/tmp -type f -name '*.txt' 2> /dev/null | xargs grep -hx 15000"
    stays = agent == "claude-code"
    turns = [
        Turn("list", [sh("ls")], "app.py"),
        Turn("read", [read("app.py")], "return 41"),
        Turn("a test that fails", [sh(f"{python} test_app.py 2>&1 | tail -1")], "FAILED (failures=1)"),
        # Of another size: Python takes what it compiled within the same second for the file's.
        Turn("edit", [edit("app.py", "    return 41", "    return 40 + 2")], "", varies=True),
        Turn("read what was edited", [sh("cat app.py")], "return 40 + 2"),
        Turn("a test that passes", [sh(f"{python} test_app.py 2>&1 | tail -1")], "OK"),
        Turn("write", [write("new.txt", "written\n")], "", varies=True),
        Turn("read what was written", [sh("cat new.txt")], "written"),
        Turn("an exit code", [sh("echo before; exit 3")], "before"),
        Turn("both outputs", [sh("echo one; echo two >&2")], "two", varies=True),
        Turn("a server in the background", [sh(served)], "started"),
        Turn(
            "curl from the next line",
            [sh("curl -s --retry 30 --retry-delay 1 --retry-connrefused http://127.0.0.1:8123/new.txt")],
            "written",
        ),
        Turn("cd", [sh("cd sub && pwd")], "/sub"),
        Turn("where the next line begins", [sh("basename $PWD")], "sub" if stays else "work"),
        Turn("and back", [sh(f"cd {os.getcwd()} && basename $PWD")], "work"),
        Turn("no variable stays", [sh("LEFT=1; export LEFT; echo [$LEFT]")], "[1]"),
        Turn("in the next line", [sh("echo [$LEFT]")], "[]"),
        Turn("a scratch script", [sh("echo 'print(6 * 7)' > /tmp/scratch.py; echo made")], "made"),
        Turn("run it", [sh(f"{python} /tmp/scratch.py")], "42"),
        Turn("pip install", [sh(pip)], "pip=0", wants=f"connect to {HOST}"),
        Turn(
            "use what pip brought",
            [sh(f"PYTHONPATH=lib {python} -c 'import tinypkg; print(tinypkg.SAYS)'")],
            "tiny from pip",
        ),
        Turn("npm install", [sh(npm)], "npm=0"),
        Turn("use what npm brought", [sh("node -e \"console.log(require('tinypkg'))\"")], "tiny from npm"),
        Turn("git status", [sh("git status --short app.py new.txt")], "app.py"),
        Turn("git commit", [sh(commit)], "commit=0", wants="git"),
        Turn("git log", [sh("git log --format=%s")], "second"),
        Turn("no pager waits", [sh(f"git log --format=%s{'%n' * 60}end")], "end"),
        Turn("nor an editor", [sh("git commit --allow-empty 2>/dev/null; echo commit=$?")], "commit=1"),
        Turn("long output", [sh("seq 1 30000")], "1", varies=True),
        # A line of the middle: the model was told the beginning and the end.
        Turn("read it again", [sh("seq 1 30000 | grep -x 15000" if agent == "codex" else kept)], "15000"),
        Turn(
            "parallel calls", [sh(f"echo parallel {number}") for number in range(3)], "parallel", varies=True
        ),
        Turn("a killed call", [sh("kill -9 $$")], "", varies=True),
        Turn("the next line works", [sh("echo works; cat /tmp/scratch.py")], "works"),
        Turn("the server still serves", [sh("curl -s http://127.0.0.1:8123/new.txt")], "written"),
        Turn("end it", [sh("xargs kill < /tmp/server.pid; echo ended $?")], "ended 0"),
    ]
    if agent == "claude-code":
        helper: dict[str, Any] = {"description": "helps", "prompt": SUBAGENT}
        helper |= {"subagent_type": "general-purpose", "run_in_background": False}
        turns.append(Turn("a subagent", [Call("Agent", helper)], "helped", varies=True))
    return turns


class Played(NamedTuple):
    heard: list[str]
    """What the model was told of each call, the last time that it asked for it."""
    asked: list[str]
    """What the person was asked."""


def clean() -> None:
    """The project and the home, as they were before any agent."""
    kept = ("work", "resolv.conf", "hosts", "passwd")
    for directory in (Path.cwd(), Path.home()):
        for each in directory.iterdir():
            if each.name in kept:
                continue
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    Path("app.py").write_text(APP)
    Path("test_app.py").write_text(TEST)
    Path("sub").mkdir()
    subprocess.run(["git", "init", "-q", "."], check=True, env=environ())
    with Path(".git/config").open("a") as config:  # Gemini CLI's lines see no ~/.gitconfig
        config.write("[user]\nname = n\nemail = n@example.org\n")
    for line in ("git add .", "git commit -qm first"):
        subprocess.run(line.split(), check=True, env=environ())


def play(agent: str, index: Index, *, with_pinfold: bool) -> Played:
    clean()
    installed(agent, with_hooks=with_pinfold)
    settings('[network]\nallow = ["127.0.0.0/8"]\n')  # where the index is; its name has to be asked about
    turns = script(agent, index.address)
    model = Model(*(turn.step for turn in turns), again=lambda told: AGAIN in told, subagent=SUBAGENT)
    model.subagent_step = [Call(TOOLS[agent][0], {TOOLS[agent][1]: "cat /tmp/scratch.py; echo helped"})]
    asked: list[str] = []
    try:
        PLAYERS[agent](model, sum(len(turn.step) for turn in turns), asked)
        heard = [plain(each) for number, each in enumerate(model.heard) if number not in model.repeated]
        return Played(heard, asked)
    finally:
        model.close()
        clear_tmp()


def clear_tmp() -> None:
    """Ends and removes what a bare conversation leaves outside its project; with Pinfold there is nothing."""
    with suppress(OSError, ValueError):
        os.kill(int(Path("/tmp/server.pid").read_text()), 9)
    for name in ("server.pid", "server.log", "scratch.py"):
        Path("/tmp", name).unlink(missing_ok=True)


def plain(told: str) -> str:
    """What an agent says of a call, without what differs from one time to the next."""
    text = json.loads(told) if told.startswith(('"', "[", "{")) else told
    if isinstance(text, dict):
        text = text.get("output", str(text))
    if isinstance(text, list):
        text = "\n".join(str(part.get("text", part)) for part in text)
    text = text.partition("\nOutput:\n")[2] if text.startswith("Chunk ID") else text
    text = re.sub(r"\n*\[System\] Tool input parameters were modified by a hook before execution\.", "", text)
    text = re.sub(r"(?m)^(Process Group PGID|Background PIDs): .*\n?", "", text)
    text = re.sub(r"(?m)^pinfold: `.*` still runs in another sandbox .*\n?", "", text)  # a notice of ours
    return re.sub(r"(?m)[ \r]+$", "", text).strip()


def claude_code(model: Model, calls: int, asked: list[str]) -> None:
    _, given = started_by("claude-code", model.address)
    words = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    words += ["--permission-prompt-tool", "stdio", "--permission-mode", "acceptEdits"]
    with subprocess.Popen(
        [PROGRAMS["claude-code"], *words],
        env=environ(**given, PINFOLD_HOOK_SERVICE=""),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        late = threading.Timer(LONG, process.kill)
        late.start()
        assert process.stdin and process.stdout
        into, out = process.stdin, process.stdout

        def say(said: dict[str, Any]) -> None:
            into.write(json.dumps(said) + "\n")
            into.flush()

        say({"type": "user", "message": {"role": "user", "content": "go"}})
        for line in out:
            said = json.loads(line)
            if said.get("type") == "result":
                into.close()
            if said.get("type") == "control_request":
                request = said["request"]
                asked.append(str(request.get("decision_reason", "")))
                response = {"behavior": "allow", "updatedInput": request["input"]}
                answer = {"subtype": "success", "request_id": said["request_id"], "response": response}
                say({"type": "control_response", "response": answer})
        late.cancel()


def codex(model: Model, calls: int, asked: list[str]) -> None:
    words, given = started_by("codex", model.address)
    with page(Path.home()) as (opened, _):
        tab = Tab(opened)

        def say_yes() -> None:
            with suppress(OSError, AssertionError):  # the page has closed
                while True:
                    (question,) = tab.questions()
                    asked.append(question["content"]["headline"])
                    tab.answer(question["id"], "session", reach="target")
                    tab.questions(count=0)

        threading.Thread(target=say_yes, daemon=True).start()
        subprocess.run(
            [PROGRAMS["codex"], *words],
            env=environ(**given, PINFOLD_HOOK_SERVICE=""),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONG,
        )


def gemini(model: Model, calls: int, asked: list[str]) -> None:
    _, given = started_by("gemini", model.address)
    with_pinfold = (Path.home() / ".gemini/policies").exists()
    variables = environ(**given, PINFOLD_HOOK_SERVICE="", TERM="xterm-256color", NO_COLOR="1")
    child, terminal = pty.fork()
    if not child:
        # With no size, it draws again all that was said so far whenever something changes.
        termios.tcsetwinsize(0, (40, 120))
        # Bare, it would ask about each line.
        mode = "auto_edit" if with_pinfold else "yolo"
        words = ["-i", "go", "-m", "gemini-2.5-flash", "--approval-mode", mode]
        os.execve(PROGRAMS["gemini"], [PROGRAMS["gemini"], *words], variables)
    end, seen, answered = time.monotonic() + LONG, "", -1
    try:
        while len(model.heard) < len(model.repeated) + calls and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 1 << 16).decode("utf-8", "replace")
            elif ALLOW in seen:  # nothing moves while a dialog is open
                asked.append(words_of(seen.rpartition(ALLOW)[0]).rpartition("? Shell ")[2])
                answered = len(model.heard)
                os.write(terminal, b"\r")
            if answered == len(model.heard):
                seen = ""  # it draws the dialog once more as it closes
            elif ALLOW not in seen:
                seen = seen[-4000:]
    except OSError:  # it has ended
        return
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def words_of(drawn: str) -> str:
    """What a terminal was told to show, without colors, boxes and the ends of lines."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn)
    return " ".join(re.sub("[\u2500-\u257f]", " ", text).split())


PLAYERS: dict[str, Callable[[Model, int, list[str]], None]] = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini": gemini,
}


def a_session_gives_the_same_results_as_bare(agent: str) -> None:
    index = Index(HOST)
    bare = play(agent, index, with_pinfold=False)
    ours = play(agent, index, with_pinfold=True)
    turns = script(agent, index.address)
    calls = [turn for turn in turns for _ in turn.step]
    heard = len(bare.heard), len(ours.heard)
    assert heard == (len(calls), len(calls)), (heard, bare.heard[-1:], ours.heard[-1:])
    wrong = [
        (turn.name, there, here)
        for turn, there, here in zip(calls, bare.heard, ours.heard, strict=True)
        if turn.expect not in here or turn.expect not in there or not (turn.varies or there == here)
    ]
    assert not wrong, "\n\n".join(f"{name}\n  bare: {there}\n  ours: {here}" for name, there, here in wrong)
    wanted = [turn.wants for turn in turns if turn.wants]
    assert len(ours.asked) == len(wanted), ours.asked
    assert all(want in asked for want, asked in zip(wanted, ours.asked, strict=True)), ours.asked
    index.close()
    left = Path.home() / ".local/state/pinfold/conversations"
    wait_until(lambda: not os.listdir(left))


if __name__ == "__main__":
    os.chdir(Path.cwd().parent)
    Path("machine").mkdir()
    os.chdir("machine")
    Machine()
    Path("tmp").mkdir()
    Path("tmp").chmod(0o1777)
    mounts.bind(os.path.realpath("tmp"), "/tmp")  # what a bare agent's commands leave there is its own
    os.chdir("../work")
    name, chosen, PROGRAMS[chosen] = sys.argv[1].split(":")
    globals()[name](chosen)
