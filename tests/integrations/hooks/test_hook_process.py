"""The service behind hooks: the same answers, and none of them needed."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import pinfold
from pinfold.integrations.hooks import start
from pinfold.integrations.hooks.hook_process import ask_service
from pinfold.isolated import COMMAND, ENTRY, isolated_python, own_command
from pinfold.service import local_socket
from tests.patience import wait_until

PROGRAM = [sys.executable, "-I", "-S", start.__file__]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux who the other side is")


@pytest.fixture
def served(environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """An environment with a service in it."""
    given = {**environ, local_socket.SWITCH: ""}
    with subprocess.Popen(own_command("serve", "--agents"), env=given, stdin=subprocess.DEVNULL) as service:
        try:
            wait_until(Path(local_socket.socket_path(given)).exists)
            yield given
        finally:
            service.kill()


def payload(home: Path, line: str = "npm test", tool: str = "Bash") -> bytes:
    return json.dumps(
        {
            "hook_event_name": "PreToolUse",
            "cwd": str(home / "project"),
            "tool_name": tool,
            "tool_input": {"command": line},
        }
    ).encode()


def hook(data: bytes, environ: dict[str, str], agent: str = "claude-code") -> tuple[int, bytes, bytes]:
    run = subprocess.run([*PROGRAM, agent], input=data, env=environ, capture_output=True, timeout=60)
    return run.returncode, run.stdout, run.stderr


def test_the_service_has_the_variables_that_a_hook_has(
    home: Path, environ: dict[str, str], served: dict[str, str]
) -> None:
    """A file that `BASH_ENV` names is protected, whoever answers."""
    path = home / "project/started"
    given = {"hook_event_name": "PreToolUse", "cwd": str(home / "project"), "tool_name": "Write"}
    data = json.dumps({**given, "tool_input": {"file_path": str(path), "content": "x"}}).encode()
    variables = {"BASH_ENV": str(path)}
    assert b"BASH_ENV" in hook(data, {**environ, **variables})[1]
    told = ask_service("claude-code", data, {**served, **variables}, local_socket)
    assert told is not None and b"BASH_ENV" in told[1]


def test_the_answers_are_the_same(home: Path, environ: dict[str, str], served: dict[str, str]) -> None:
    for data in (
        payload(home),
        payload(home, "git push"),
        payload(home, "x", "TodoWrite"),
        b"{",
        payload(home, "\udcff é" * 3),
        payload(home, "a" * 300_000),
    ):
        alone = hook(data, environ)
        assert ask_service("claude-code", data, served, local_socket) == alone
        assert hook(data, served) == alone


@pytest.mark.parametrize("is_many", [False, True])
def test_one_deadline_holds_for_all_of_a_call(is_many: bool, home: Path, environ: dict[str, str]) -> None:
    """However many files a patch names: agents go on without an answer that comes too late."""
    settings = home / ".config/pinfold/settings.toml"
    settings.write_text(f'[limits]\nanswer = "{"5ms" if is_many else "60s"}"\n')
    names = [f"a{number}/b.txt" for number in range(490 if is_many else 3)]
    patch = "\n".join(["*** Begin Patch", *(f"*** Add File: {name}\n+x" for name in names), "*** End Patch"])
    given = json.loads(payload(home, tool="apply_patch")) | {"tool_input": {"command": patch}}
    _, out, _ = hook(json.dumps(given).encode(), environ)
    assert (b"took longer" in out) == is_many
    assert (b'"deny"' in out) == is_many


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ", "/proc/self/cwd/a", "/proc/self/root/etc/hostname", "/proc/thread-self/cwd/a",
        "/proc/1/root/etc/hostname", "//proc/./self/cwd/a", "/proc/x/../self/cwd/a", "me/a",
        "/dev/fd/0", "/dev/stdin",
    ],
)  # fmt: skip
def test_file_tools_never_follow_proc(
    tool: str, path: str, home: Path, environ: dict[str, str], served: dict[str, str]
) -> None:
    (home / "project/me").symlink_to("/proc/self/cwd")
    asked = json.loads(payload(home, tool=tool)) | {"tool_input": {"file_path": path}}
    for where in (environ, served):
        assert b'"deny"' in hook(json.dumps(asked).encode(), where)[1]
    asked["tool_input"] = {"file_path": "/proc/cpuinfo"}
    assert b'"deny"' not in hook(json.dumps(asked).encode(), environ)[1]


def test_settings_that_change_count_at_once(home: Path, served: dict[str, str]) -> None:
    assert b'"allow"' in hook(payload(home, "make"), served)[1]
    (home / ".config/pinfold/settings.toml").write_text('[commands]\ndeny = ["make"]\n')
    assert b'"deny"' in hook(payload(home, "make"), served)[1]


def test_a_name_that_is_too_long_leaves_nothing_open(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    before = os.listdir("/proc/self/fd")
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as asking:
        local_socket.call_with(listening.bind, str(deep / "s"))
        listening.listen()
        local_socket.call_with(asking.connect, str(deep / "s"))
    assert os.listdir("/proc/self/fd") == before


def test_many_at_once(home: Path, served: dict[str, str]) -> None:
    data, said = payload(home), list[object]()
    threads = [
        threading.Thread(target=lambda: said.append(ask_service("claude-code", data, served, local_socket)))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(said) == 20 and len(set(map(str, said))) == 1 and said[0] is not None


@pytest.mark.parametrize(
    "there", ["nothing", "a file", "a dead socket", "somebody who says nothing", "nonsense"]
)
def test_a_service_that_is_none_is_done_without(there: str, home: Path, environ: dict[str, str]) -> None:
    given = {**environ, local_socket.SWITCH: ""}
    path = Path(local_socket.socket_path(given))
    path.parent.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        if there == "a file":
            path.write_text("x")
        elif there != "nothing":
            local_socket.call_with(listening.bind, str(path))
        if there in ("somebody who says nothing", "nonsense"):
            listening.listen()
            said = b"" if there == "somebody who says nothing" else b"\xff" * 12
            threading.Thread(target=lambda: _once(listening, said), daemon=True).start()
        assert ask_service("claude-code", payload(home), given, local_socket) is None


def _once(listening: socket.socket, said: bytes) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(1 << 20)
        connection.sendall(said)


def test_one_is_left_behind_and_ends(home: Path, environ: dict[str, str]) -> None:
    given = {**environ, local_socket.SWITCH: ""}
    path = Path(local_socket.socket_path(given))
    assert hook(payload(home), given)[0] == 0
    wait_until(path.exists)
    with socket.socket(socket.AF_UNIX) as asking:
        local_socket.call_with(asking.connect, str(path))
        pid = int.from_bytes(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    assert (
        oct(path.parent.stat().st_mode & 0o777) == oct(path.parent.parent.stat().st_mode & 0o777) == "0o700"
    )
    assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)} == {"/dev/null"}
    os.kill(pid, 15)


def test_an_upgrade_counts_at_once(home: Path, environ: dict[str, str], tmp_path: Path) -> None:
    ours = Path(pinfold.__file__).parent
    copied = tmp_path / "src/pinfold"
    shutil.copytree(ours, copied, ignore=shutil.ignore_patterns("__pycache__"))
    own = types.ModuleType("pinfold.service.local_socket")
    own.__file__ = str(copied / "service/local_socket.py")
    exec(compile(Path(own.__file__).read_text(), own.__file__, "exec"), vars(own))
    given = {**environ, local_socket.SWITCH: ""}
    path = own.socket_path(given)
    places = [str(copied.parent), str(Path(msgspec.__file__).parent.parent)]
    words = isolated_python("-c", COMMAND.format(places, ENTRY), "serve", "--agents")
    with subprocess.Popen(words, env=given, stdin=subprocess.DEVNULL) as service:
        try:
            wait_until(Path(path).exists)
            assert ask_service("claude-code", payload(home), given, own)
            judging = copied / "integrations/hooks/judge_call.py"
            judging.with_suffix(".new").write_text(judging.read_text())
            judging.with_suffix(".new").rename(judging)
            assert ask_service("claude-code", payload(home), given, own) is None
            assert service.wait(60) == 0 and not Path(path).exists()
        finally:
            service.kill()


def test_it_is_not_asked_where_it_may_not_be(environ: dict[str, str]) -> None:
    assert local_socket.is_wanted({**environ, local_socket.SWITCH: ""})
    assert not local_socket.is_wanted({**environ, local_socket.SWITCH: "0"})
    assert not local_socket.is_wanted({**environ, local_socket.SWITCH: "", "PINFOLD_PEN": "1"})
    for home in ("", "rel", "~"):  # the socket would be in the workspace
        assert not local_socket.is_wanted({**environ, local_socket.SWITCH: "", "HOME": home})
    assert not local_socket.is_wanted({local_socket.SWITCH: ""})


def test_another_home_has_another_service(environ: dict[str, str]) -> None:
    paths = {
        os.path.basename(local_socket.socket_path({**environ, **other}))
        for other in ({}, {"HOME": "/elsewhere"}, {"XDG_CONFIG_HOME": "/c"})
    }
    assert len(paths) == 3
