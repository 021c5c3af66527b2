"""What holds between an editor and an agent that speak ACP: each function runs in a child."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from msgspec import json

import pinfold
from pinfold.integrations.acp import INVALID, OURS, Proxy
from tests.patience import wait_until
from tests.probe_module import OPEN, probes_of, run

Message = dict[str, Any]


class Desk:
    """A proxy with a scripted editor on one side and a scripted agent on the other."""

    def __init__(self, settings: Message | None = None, answer: str = "no") -> None:
        self.answer = answer
        self.to_editor: list[Message] = []
        self.to_agent: list[Message] = []
        self.came = threading.Condition()
        self.number = 0
        self.stopped: list[str] = []
        """Why the agent was."""
        self.proxy = Proxy(
            lambda directory, person: pinfold.Session(
                [directory], settings=settings or {}, approvers=[person]
            ),
            self._editor,
            self._agent,
            self.stopped.append,
        )
        OPEN.append(self.proxy)
        self.proxy.from_editor(
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
        )
        self.proxy.from_agent({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}})
        new = {"cwd": os.getcwd(), "mcpServers": []}
        self.proxy.from_editor({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": new})
        self.proxy.from_agent({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}})

    def _editor(self, message: Message) -> None:
        self.to_editor.append(message)
        if str(message.get("id", "")).startswith(OURS):
            if not self.answer:
                open("asked", "w").close()
                return  # nobody is there
            if self.answer == "unknown method":
                failed = {
                    "jsonrpc": "2.0",
                    "id": message["id"],
                    "error": {"code": -32601, "message": "what?"},
                }
                threading.Thread(target=self.proxy.from_editor, args=(failed,)).start()
                return
            outcome = {"outcome": "selected", "optionId": self.answer}
            if self.answer == "cancelled":
                outcome = {"outcome": "cancelled"}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}
            threading.Thread(target=self.proxy.from_editor, args=(answer,)).start()

    def _agent(self, message: Message) -> None:
        with self.came:
            self.to_agent.append(message)
            self.came.notify_all()

    def ask(self, method: str, **params: Any) -> Message:
        """The agent's request, and what it is answered."""
        self.number += 1
        number = f"a{self.number}"
        params = {"sessionId": "s", **params}
        self.proxy.from_agent({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        with self.came:
            assert self.came.wait_for(lambda: any(each.get("id") == number for each in self.to_agent), 30)
            return next(each for each in self.to_agent if each.get("id") == number)

    def run(self, command: str, *arguments: str, **given: Any) -> tuple[str, Message]:
        name = self.ask("terminal/create", command=command, args=list(arguments), **given)["result"][
            "terminalId"
        ]
        end = self.ask("terminal/wait_for_exit", terminalId=name)["result"]
        told = self.ask("terminal/output", terminalId=name)["result"]
        assert told["exitStatus"] == end
        return told["output"], end


def the_editor_is_not_asked_to_run_anything() -> None:
    desk = Desk({"filesystem": {"ask": False}})
    assert desk.run("echo $PINFOLD_PEN; exit 3") == ("1\n", {"exitCode": 3, "signal": None})
    assert desk.run("printf", "%s", "$A;") == ("$A;", {"exitCode": 0, "signal": None})
    assert desk.run("echo $A", env=[{"name": "A", "value": "b"}])[0] == "b\n"
    assert desk.run("kill -9 $$")[1] == {"exitCode": None, "signal": "SIGKILL"}
    output, _ = desk.run("echo {} > .mcp.json")
    assert "[refused open " in output
    # Only what came from the agent by itself went on to the editor, as it was.
    assert [message.get("id") for message in desk.to_editor] == [0, 1]


def the_agent_is_told_that_there_is_a_terminal() -> None:
    params = Desk().to_agent[0]["params"]
    assert params["clientCapabilities"] == {
        "terminal": True,
        "fs": {"readTextFile": True, "writeTextFile": True},
    }


def what_makes_no_sense_ends_nothing() -> None:
    """Whatever either side sends in the place of objects and numbers, the other calls go on."""
    desk = Desk()
    wrong: list[Any] = [[1], "x", 5, None, {"sessionId": "s"}, {"sessionId": []}]
    denied = {"rawInput": {"command": "echo \0"}}
    calls = [{"sessionId": "s", "toolCall": call} for call in (*wrong, denied)]
    choices: list[Any] = [5, [1], [{}], [{"kind": "reject_once"}], [{"kind": "reject_once", "optionId": []}]]
    updates = [*wrong, *({"content": each} for each in ([1], [{"type": "terminal", "terminalId": []}]))]
    for method, params in (
        *(("session/request_permission", each) for each in (*wrong, *calls)),
        *(("session/request_permission", {**calls[-1], "options": each}) for each in choices),
        *(("session/update", each) for each in wrong),
        *(
            ("session/update", {"sessionId": session, "update": each})
            for each in updates
            for session in wrong
        ),
    ):
        desk.proxy.from_agent({"jsonrpc": "2.0", "id": 5, "method": method, "params": params})
    for method, params in (
        *((method, each) for method in ("initialize", "session/new", "session/load") for each in wrong),
        *(("initialize", {"protocolVersion": 1, "clientCapabilities": each}) for each in wrong),
    ):
        desk.proxy.from_editor({"jsonrpc": "2.0", "id": 6, "method": method, "params": params})
    for method, given in (
        ("fs/read_text_file", {"path": 5}),
        ("fs/write_text_file", {"path": "a", "content": {}}),
        ("terminal/create", {"command": {}}),
        ("terminal/create", {"command": "echo", "env": {"a": "b"}}),
        ("terminal/output", {"terminalId": []}),
    ):
        assert "error" in desk.ask(method, **given), (method, given)
    assert desk.run("echo hello", outputByteLimit="x")[0] == "hello\n"
    assert desk.run("echo hello", outputByteLimit=-5)[0] == ""


def what_is_missing_is_named() -> None:
    desk = Desk()
    for method, name, given in (
        ("fs/read_text_file", "path", {}),
        ("fs/write_text_file", "content", {"path": "a"}),
        ("terminal/create", "command", {"args": ["a"]}),
        ("terminal/create", "value", {"command": "true", "env": [{"name": "A"}]}),
    ):
        error = desk.ask(method, **given)["error"]
        assert error["code"] == INVALID and f"`{name}` is missing" in error["message"], error


def another_version_is_not_let_through() -> None:
    desk = Desk()
    first = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 2}}
    desk.proxy.from_editor(first)
    assert desk.to_agent[-1]["params"]["protocolVersion"] == 1
    desk.proxy.from_agent({"jsonrpc": "2.0", "id": 7, "result": {"protocolVersion": 2}})
    assert "speaks version 1" in desk.to_editor[-1]["error"]["message"]


def output_is_kept_from_its_end() -> None:
    desk = Desk()
    name = desk.ask("terminal/create", command="printf 'aäää'; sleep 1000", outputByteLimit=5)["result"][
        "terminalId"
    ]
    end = time.monotonic() + 30
    while (told := desk.ask("terminal/output", terminalId=name)["result"])["output"] != "ää":
        assert time.monotonic() < end, told
    assert told == {"output": "ää", "truncated": True}
    assert desk.ask("terminal/kill", terminalId=name)["result"] == {}
    assert desk.ask("terminal/wait_for_exit", terminalId=name)["result"]["signal"] == "SIGKILL"
    desk.ask("terminal/release", terminalId=name)
    assert "no such terminal" in desk.ask("terminal/output", terminalId=name)["error"]["message"]


def files_are_the_sessions_own_matter() -> None:
    desk = Desk({"filesystem": {"hide": ["secret"]}})
    here = os.getcwd()
    assert desk.ask("fs/write_text_file", path=f"{here}/a", content="one\ntwo\n")["result"] == {}
    assert desk.ask("fs/read_text_file", path=f"{here}/a", line=2, limit=1)["result"] == {"content": "two\n"}
    for path, step in {
        "/etc/passwd": "outside",
        f"{here}/none": "absent",
        f"{here}/secret": "hidden",
    }.items():
        error = desk.ask("fs/read_text_file", path=path)["error"]
        assert error["code"] == -32001 and error["data"]["next"], error
        assert error["data"]["step"] == step, error["data"]
    assert desk.ask("fs/write_text_file", path="/etc/x", content="")["error"]["data"]["kind"] == "refused"
    assert desk.ask("fs/delete", path="x")["error"]


def what_keeps_a_command_from_running_is_told_in_words() -> None:
    os.mkdir("gone")
    os.chdir("gone")
    desk = Desk()
    os.chdir("..")
    os.rmdir("gone")
    error = desk.ask("terminal/create", command="true")["error"]
    assert error["message"].startswith("the root ") and "does not exist" in error["message"], error


def a_question_goes_to_the_editors_person() -> None:
    desk = Desk({"commands": {"deny": ["git push"]}, "mode": "ask_every_time"})
    for desk.answer in ("no", "cancelled", "perhaps"):
        error = desk.ask("terminal/create", command="touch made")["error"]
        assert error["data"]["kind"] == "refused" and not os.path.exists("made")
    question = desk.to_editor[-1]["params"]
    assert (question["sessionId"], question["toolCall"]["title"]) == ("s", "`touch made`")
    assert {option["kind"] for option in question["options"]} >= {"allow_once", "reject_once"}
    desk.answer = "once"
    assert desk.run("touch made")[1]["exitCode"] == 0 and os.path.exists("made")
    error = desk.ask("terminal/create", command="git push")["error"]
    assert error["data"]["rule"] == "git push" and error["data"]["next"] in error["message"]


def agent_cannot_answer_for_the_person() -> None:
    desk = Desk({"mode": "ask_every_time"}, "no")
    answered = desk.ask("terminal/create", command="touch made")
    assert "error" in answered
    number = desk.to_editor[-1]["id"]
    before = len(desk.to_editor)
    forged = {"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": {}}
    desk.proxy.from_agent(forged)
    assert len(desk.to_editor) == before and "not yours" in desk.to_agent[-1]["error"]["message"]
    # Nor by an answer that nobody asked it for: it goes on to the editor, and no further.
    yes = {"outcome": {"outcome": "selected", "optionId": "once"}}
    desk.proxy.from_agent({"jsonrpc": "2.0", "id": number, "result": yes})
    assert not os.path.exists("made")


def what_is_denied_is_rejected_at_once_and_the_rest_is_the_persons() -> None:
    desk = Desk({"commands": {"deny": ["git push"]}})
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "kind": "reject_once"},
    ]
    call = {"toolCallId": "c", "rawInput": {"command": "make && git push"}}
    answer = desk.ask("session/request_permission", toolCall=call, options=options)
    assert answer["result"] == {"outcome": {"outcome": "selected", "optionId": "n"}}
    allowed = {"toolCallId": "c", "rawInput": {"command": "ls"}}
    params = {"sessionId": "s", "toolCall": allowed, "options": options}
    message = {"jsonrpc": "2.0", "id": "x", "method": "session/request_permission", "params": params}
    desk.proxy.from_agent(message)
    assert desk.to_editor[-1] == message


def a_terminal_is_shown_as_its_text() -> None:
    desk = Desk()
    name = desk.ask("terminal/create", command="echo shown")["result"]["terminalId"]
    desk.ask("terminal/wait_for_exit", terminalId=name)
    content = [{"type": "terminal", "terminalId": name}, {"type": "diff", "path": "/a"}]
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": content}
    params = {"sessionId": "s", "update": update, "_meta": {"kept": 1}}
    desk.proxy.from_agent({"jsonrpc": "2.0", "method": "session/update", "params": params})
    told = desk.to_editor[-1]["params"]
    assert told["_meta"] == {"kept": 1} and told["update"]["content"] == [
        {"type": "content", "content": {"type": "text", "text": "shown\n"}},
        {"type": "diff", "path": "/a"},
    ]


def a_question_that_nobody_waits_for_is_taken_back() -> None:
    desk = Desk({"network": {"access": "ask"}}, "")
    line = "bash -c 'exec 3<>/dev/tcp/a.test/80' & until test -e asked; do sleep 0.02; done; kill $!"
    output, end = desk.run(f"{line}; wait $!")
    assert end["exitCode"] == 128 + signal.SIGTERM, output
    wait_until(lambda: any(each.get("method") == "$/cancel_request" for each in desk.to_editor))
    taken = [each for each in desk.to_editor if each.get("method") == "$/cancel_request"]
    asked = next(each for each in desk.to_editor if each.get("method") == "session/request_permission")
    assert taken[0]["params"] == {"requestId": asked["id"]} and "id" not in taken[0]
    # Whatever the editor still says about it says nothing.
    late = {"outcome": {"outcome": "selected", "optionId": "once"}}
    desk.proxy.from_editor({"jsonrpc": "2.0", "id": asked["id"], "result": late})


def an_editor_that_cannot_ask_leaves_it_to_the_next() -> None:
    desk = Desk({"mode": "ask_every_time"}, "unknown method")
    data = desk.ask("terminal/create", command="touch made")["error"]["data"]
    assert data["answer"]["outcome"] == "nobody" and "no person could be asked" in data["next"]


def ids_that_are_one_number_are_one() -> None:
    """An agent that answers `1` as `1.0` is heard as an editor hears it; `true` is no number."""
    desk = Desk()
    for answers in ([(1.0, 2)], [("1", 2)], [(True, 1), (1, 2)]):
        desk.proxy.from_editor({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
        for number, version in answers:
            desk.proxy.from_agent({"id": number, "result": {"protocolVersion": version}})
        assert "error" in desk.to_editor[-1], desk.to_editor
    desk.proxy.from_editor({"id": 2, "method": "session/new", "params": {"cwd": os.getcwd()}})
    desk.proxy.from_agent({"id": 2.0, "result": {"sessionId": "one"}})
    desk.proxy.from_agent({"id": "made", "method": "terminal/none", "params": {"sessionId": "one"}})
    wait_until(lambda: any(each.get("id") == "made" for each in desk.to_agent))
    assert "no_session" not in str(desk.to_agent), desk.to_agent


def no_request_is_an_answer_as_well() -> None:
    desk = Desk()
    desk.proxy.from_editor({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    desk.proxy.from_agent({"id": 1, "method": "x", "result": {"protocolVersion": 2}})
    assert desk.to_editor[-1] == {"id": 1, "method": "x"}


def an_agent_that_ends_badly_is_told_of() -> None:
    words = [sys.executable, "-m", "pinfold", "acp", "--"]
    for code, how, expected in (
        ("exit 3", "with code 3", 3),
        ("kill -9 $$", "because of signal 9", 137),
        ("exit 0", "", 0),
    ):
        with subprocess.Popen(
            [*words, "sh", "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.wait(30) == expected
            assert process.stderr
            assert process.stderr.read() == (f"pinfold: the agent exited {how}\n" if how else "")


def reported(desk: Desk, call: str, **update: Any) -> None:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": call, "kind": "execute", **update}
    params = {"sessionId": "s", "update": update}
    desk.proxy.from_agent({"jsonrpc": "2.0", "method": "session/update", "params": params})


def an_agent_that_runs_things_by_itself_is_stopped() -> None:
    for told in ({"rawInput": {"command": ["npm", "test"]}}, {"rawInput": {"command": "npm test"}}, {}):
        desk = Desk()
        desk.proxy.from_editor({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {}})
        reported(desk, "c", sessionUpdate="tool_call", status="pending", title="npm test", **told)
        # One that it only shows is none of the editor's.
        reported(desk, "c", status="in_progress", content=[{"type": "terminal", "terminalId": "own"}])
        assert not desk.stopped
        reported(desk, "c", status="completed")
        (why,) = desk.stopped
        assert "ran `npm test` by itself" in why
        assert desk.to_editor[-1]["id"] == 7 and desk.to_editor[-1]["error"]["message"] == why
        passed = len(desk.to_editor), len(desk.to_agent)
        reported(desk, "d", sessionUpdate="tool_call", status="completed")
        desk.proxy.from_editor({"jsonrpc": "2.0", "method": "session/cancel", "params": {}})
        assert (len(desk.to_editor), len(desk.to_agent)) == passed
        desk.proxy.from_editor({"jsonrpc": "2.0", "id": 8, "method": "session/prompt", "params": {}})
        assert desk.to_editor[-1]["id"] == 8 and "error" in desk.to_editor[-1]


def an_agent_that_runs_nothing_by_itself_goes_on() -> None:
    desk = Desk({"commands": {"deny": ["git push"]}}, "no")
    reported(desk, "a", sessionUpdate="tool_call", status="pending", rawInput={"command": "true"})
    name = desk.ask("terminal/create", command="true")["result"]["terminalId"]
    desk.ask("terminal/wait_for_exit", terminalId=name)
    reported(desk, "a", status="completed")
    # A terminal may be made before the call is announced, and refused.
    assert "error" in desk.ask("terminal/create", command="git push")
    reported(desk, "b", sessionUpdate="tool_call", status="completed", rawInput={"command": "git push"})
    # It looks after an earlier command, fails, or does something else.
    reported(desk, "c", sessionUpdate="tool_call", status="completed", rawInput={"bash_id": "1"})
    reported(desk, "d", sessionUpdate="tool_call", status="failed", rawInput={"command": "true"})
    reported(desk, "e", sessionUpdate="tool_call", status="completed", kind="read")
    # A person has rejected it.
    options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
    call = {"toolCallId": "f", "kind": "execute", "rawInput": {"command": "true"}}
    for number, chosen in enumerate(("n", "y")):
        params = {"sessionId": "s", "toolCall": {**call, "toolCallId": chosen}, "options": options}
        asked = {"jsonrpc": "2.0", "id": f"p{number}", "method": "session/request_permission"}
        desk.proxy.from_agent({**asked, "params": params})
        outcome = {"outcome": {"outcome": "selected", "optionId": chosen}}
        desk.proxy.from_editor({"jsonrpc": "2.0", "id": f"p{number}", "result": outcome})
    reported(desk, "n", status="completed")
    assert not desk.stopped
    # A yes of the editor's person is none to run it outside of the sandbox.
    reported(desk, "y", status="completed")
    assert desk.stopped


OWN_RUNS = r"""
import json, sys, time
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    said = json.loads(line)
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "execute"}
    send(method="session/update", params={"sessionId": "s", "update": {**update, "status": "completed"}})
"""


def the_program_ends_with_an_agent_that_runs_things_by_itself() -> None:
    words = [sys.executable, "-m", "pinfold", "acp", "--", sys.executable, "-c", OWN_RUNS]
    given = {"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": {"sessionId": "s"}}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(json.encode(given) + b"\n")
        process.stdin.flush()
        assert process.wait(30) == 125
        heard = [json.decode(line) for line in process.stdout]
        assert heard[-1]["id"] == 5 and "ran `ls` by itself" in heard[-1]["error"]["message"]
        assert b"pinfold: the agent ran `ls` by itself" in process.stderr.read()


AGENT = r"""
import json, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    said = json.loads(line)
    method = said.get("method")
    if method == "initialize": send(id=said["id"], result={"protocolVersion": 1})
    elif method == "session/new": send(id=said["id"], result={"sessionId": "s"})
    elif method == "session/prompt":
        prompt = said["id"]
        send(id=100, method="terminal/create", params={"sessionId": "s", "command": sys.argv[1]})
    elif said.get("id") == 100 and "error" in said:
        send(id=prompt, result={"stopReason": "refusal", "_meta": said["error"]["data"]["kind"]})
    elif said.get("id") == 100:
        terminal = said["result"]["terminalId"]
        send(id=101, method="terminal/wait_for_exit", params={"sessionId": "s", "terminalId": terminal})
    elif said.get("id") == 101:
        send(id=102, method="terminal/output", params={"sessionId": "s", "terminalId": terminal})
    elif said.get("id") == 102:
        send(id=prompt, result={"stopReason": "end_turn", "_meta": said["result"]})
"""


def golden() -> None:
    """Prints what an editor says and hears of three agents; the test compares it with what is kept."""
    settings = os.path.expanduser("~/settings.toml")
    with open(settings, "w") as file:
        file.write('[commands]\ndeny = ["git push"]\nask = ["touch release"]\n[filesystem]\nask = false\n')
    for command in ("echo hello; echo '{}' > .mcp.json", "git push", "touch release"):
        _edited(settings, command)


def _edited(settings: str, command: str) -> None:
    words = [sys.executable, "-m", "pinfold", "acp", "--settings", settings, "--"]
    agent = [sys.executable, "-c", AGENT, command]
    process = subprocess.Popen([*words, *agent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout

    def say(**message: Any) -> None:
        assert process.stdin
        line = json.encode({"jsonrpc": "2.0", **message})
        print(">>>", line.decode())
        process.stdin.write(line + b"\n")
        process.stdin.flush()

    say(id=0, method="initialize", params={"protocolVersion": 1, "clientCapabilities": {}})
    _hear(process)
    say(id=1, method="session/new", params={"cwd": os.getcwd(), "mcpServers": []})
    _hear(process)
    say(id=2, method="session/prompt", params={"sessionId": "s", "prompt": []})
    while (heard := _hear(process)).get("id") != 2:
        say(id=heard["id"], result={"outcome": {"outcome": "selected", "optionId": "once"}})
    process.stdin.close()
    process.stdout.close()
    assert process.wait(30) == 0


def _hear(process: "subprocess.Popen[bytes]") -> Message:
    assert process.stdout
    line = process.stdout.readline()
    print("<<<", line.decode().rstrip())
    heard: Message = json.decode(line)
    return heard


EDITING: list[str] = probes_of(globals(), "golden", "reported")

if __name__ == "__main__":
    run(globals())
