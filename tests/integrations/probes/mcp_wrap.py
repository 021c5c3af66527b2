"""What holds of `pinfold mcp wrap`: each function runs in a child, in a project of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters, stdio_client

from pinfold.audit.history import actions
from pinfold.state.directory import journal_file
from pinfold.state.sessions import live_sessions
from tests.patience import wait_until
from tests.probe_module import PYTHON, probes_of, run
from tests.web.page_world import Tab, page

SERVER = '''
"""A stdio MCP server with one tool, which writes a file and says what it sees."""

import json, os, sys

TOOL = {"name": "write", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}}
print("the server begins", file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    params = asked.get("params", {})
    match asked["method"]:
        case "initialize":
            told = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "writer", "version": "1"},
            }
        case "tools/list":
            told = {"tools": [TOOL]}
        case "tools/call":
            try:
                with open(params["arguments"]["path"], "w") as file:
                    file.write("x")
                told = {"content": [{"type": "text", "text": os.environ.get("API_TOKEN", "no token")}]}
            except OSError as error:
                told = {"content": [{"type": "text", "text": error.strerror}], "isError": True}
        case _:
            continue
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
'''


def wrap(*words: str) -> list[str]:
    """The command, with options and a server behind `--`."""
    return [sys.executable, "-m", "pinfold", "mcp", "wrap", *words]


def popen(*words: str, **given: Any) -> "subprocess.Popen[bytes]":
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(wrap(*words), bufsize=0, **{**pipes, **given})


def server(*options: str) -> list[str]:
    Path("server.py").write_text(SERVER)
    return [*options, "--", PYTHON, "server.py"]


async def calls(words: list[str], paths: list[str], **variables: str) -> list[tuple[bool, str]]:
    """What the tool said about each path, as the SDK's client has it; the server's log is in `log`."""
    parameters = StdioServerParameters(
        command=sys.executable, args=wrap(*words)[1:], env={**os.environ, **variables}
    )
    told = []
    with open("log", "w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["write"]
            for path in paths:
                result = await client.call_tool("write", {"path": path})
                (content,) = result.content
                assert isinstance(content, types.TextContent)
                told.append((bool(result.is_error), content.text))
    return told


def an_official_client_works_with_a_wrapped_server() -> None:
    told = asyncio.run(calls(server(), ["made", ".mcp.json", "/usr/made"]))
    assert told == [
        (False, "no token"),
        (True, "Read-only file system"),
        (True, "Read-only file system"),
    ]
    assert os.path.exists("made") and not os.path.exists(".mcp.json")
    log = Path("log").read_text()
    assert log.startswith("the server begins\n")
    assert "pinfold: denied, because no `pinfold web` page is open to ask: write .mcp.json\n" in log
    (run,) = [each for each in actions(journal_file(os.environ)) if each.entry.kind == "run"]
    assert run.end and run.end["exit_code"] == 0
    assert {each["path"] for each in run.end["violations"]} == {f"{os.getcwd()}/.mcp.json", "/usr/made"}
    assert live_sessions() == []


def each_server_has_a_policy_of_its_own() -> None:
    outside = Path.home() / "outside"
    outside.mkdir()
    file = str(outside / "made")
    assert asyncio.run(calls(server("--policy", "read-only"), ["made"]))[0][0]
    assert asyncio.run(calls(server(), [file]))[0][0]
    assert asyncio.run(calls(server("--write", str(outside)), [file])) == [(False, "no token")]
    assert asyncio.run(calls(server(), ["made"], API_TOKEN="secret"))[0] == (False, "no token")
    assert asyncio.run(calls(server("--env", "API_TOKEN"), ["made"], API_TOKEN="secret")) == [
        (False, "secret")
    ]


def bytes_pass_unchanged() -> None:
    data = os.urandom(3_000_000)
    done = subprocess.run(wrap("--", "cat"), input=data, capture_output=True, timeout=80)
    assert done.stdout == data and done.returncode == 0, done.stderr


def bytes_pass_at_once() -> None:
    with popen("--", "cat") as started:
        assert started.stdin and started.stdout
        for byte in (b"a", b"\n", b"\x00"):
            started.stdin.write(byte)
            assert started.stdout.read(1) == byte
        started.stdin.close()
        assert started.stdout.read() == b"" and started.wait() == 0


def a_client_may_close_the_log() -> None:
    with popen("--", "bash", "-c", "read -r _; echo log >&2; echo out; cat") as started:
        assert started.stdin and started.stdout and started.stderr
        started.stderr.close()
        started.stdin.write(b"\n")
        assert started.stdout.read(4) == b"out\n"
        started.stdin.write(b"more")
        assert started.stdout.read(4) == b"more"
        started.stdin.close()
        assert started.wait() == 0


def a_denied_write_is_told_while_the_server_runs() -> None:
    with popen("--", "bash", "-c", "echo {} > .mcp.json; echo on; cat") as started:
        assert started.stdin and started.stdout and started.stderr
        said = b""
        while b"write .mcp.json\n" not in said:
            said += started.stderr.read(1)
        assert started.stdout.read(3) == b"on\n"
        started.stdin.close()
        assert started.stdout.read() == b""
        assert b"pinfold: refused open" in started.stderr.read()


def nothing_is_left_of_a_server_whose_client_dies() -> None:
    """The server here ignores signals and the end of its input."""
    line = "trap '' TERM HUP INT PIPE; echo $$ > began; while :; do sleep 1; done"
    code = "import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1); p.wait()"
    words = [sys.executable, "-c", code, *wrap("--", "bash", "-c", line)]
    with subprocess.Popen(words) as client:
        wait_until(lambda: os.path.exists("began") and live_sessions())
        client.kill()
    wait_until(lambda: not live_sessions())
    with suppress(subprocess.CalledProcessError):
        found = subprocess.check_output(
            ["pgrep", "-u", str(os.geteuid()), "-f", "echo .* > began"], text=True
        )
        raise AssertionError(found)


def a_signal_ends_the_server() -> None:
    line = "trap '' TERM; touch began; while :; do sleep 1; done"
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(FileNotFoundError):
            os.unlink("began")
        with popen("--", "bash", "-c", line) as started:
            wait_until(lambda: os.path.exists("began"))
            started.send_signal(number)
            assert started.wait(60) == 128 + number
        assert live_sessions() == []


def the_exit_code_is_the_servers() -> None:
    Path("settings.toml").write_text('[commands]\ndeny = ["true"]\n[limits]\ntimeout = "1s"\n')
    for words, code in [
        (["--", "sh", "-c", "exit 7"], 7),
        (["--", "no-such-server"], 127),
        (["--settings", "settings.toml", "--", "true"], 126),
        (["--timeout", "0.2", "--", "sleep", "1000"], 124),
        (["--settings", "settings.toml", "--", "sleep", "1000"], 124),
        ([], 2),
    ]:
        done = subprocess.run(wrap(*words), capture_output=True, text=True, timeout=80)
        assert done.returncode == code and not done.stdout, (words, done)
        assert code == 7 or done.stderr, words


def a_question_comes_up_on_the_page() -> None:
    with page(Path.home()) as (opened, _):
        tab = Tab(opened)
        with popen("--", "bash", "-c", "echo {} > .mcp.json; echo on") as started:
            (asked,) = tab.questions()
            assert tab.answer(asked["id"], "once")[0] == 200
            assert started.stdout and started.stderr and started.stdout.read() == b"on\n"
            assert (
                b"pinfold: answer this on the page of `pinfold web`: write .mcp.json\n"
                in started.stderr.read()
            )
    assert json.loads(Path(".mcp.json").read_text()) == {}


def a_server_that_starts_in_the_home_may_not_write_all_of_it() -> None:
    home = Path.home()
    line = f"touch {home}/made; cd {home}/.local/share/pinfold-mcp/* && touch made; pwd"
    for place in (home, Path("/")):
        with popen("--", "bash", "-c", line, cwd=place, env={**os.environ, "HOME": str(home)}) as started:
            assert started.stdout and started.stderr
            own = Path(started.stdout.read().decode().strip())
            assert b"its project is " in started.stderr.read()
        assert own.parent == home / ".local/share/pinfold-mcp" and (own / "made").exists()
        assert not (home / "made").exists()
        (own / "made").unlink()
    with popen("--project", str(home), "--", "touch", f"{home}/made") as started:
        assert started.wait() == 0 and (home / "made").exists()


def what_a_launcher_fetches_is_kept_for_its_server_alone() -> None:
    """A program called npx: it gets a cache that is there at the next start, and that no other server has."""
    npx = Path("npx")
    npx.write_text(
        '#!/bin/sh\necho "$npm_config_cache"; mkdir -p "$npm_config_cache"; ls "$npm_config_cache"; '
        'touch "$npm_config_cache/kept"\n'
    )
    npx.chmod(0o755)
    found = [
        subprocess.run(
            wrap("--", "./npx", "-y", name), capture_output=True, text=True, timeout=80
        ).stdout.split()
        for name in ("@x/one", "@x/one", "@x/two")
    ]
    one, again, two = found
    assert len(one) == 1 and again == [*one, "kept"] and len(two) == 1 and one != two
    assert one[0].startswith(f"{Path.home()}/.cache/pinfold/mcp/one-")


SCENES = probes_of(globals(), "wrap", "popen", "server", "calls")

if __name__ == "__main__":
    run(globals())
