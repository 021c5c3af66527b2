"""Which sessions are alive."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pinfold.state.sessions import live_sessions, register, unregister


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def files(environ: dict[str, str]) -> list[str]:
    return os.listdir(f"{environ['XDG_STATE_HOME']}/pinfold/sessions")


def test_a_session_lives_from_its_registration_to_its_end(environ: dict[str, str]) -> None:
    assert live_sessions(environ) == []
    handle = register("abc", ("/a", "/b"), environ)
    (session,) = live_sessions(environ)
    assert (session.id, session.pid, session.roots) == ("abc", os.getpid(), ("/a", "/b"))
    unregister(handle)
    unregister(handle)
    assert live_sessions(environ) == [] and files(environ) == []


def test_only_its_owner_reads_it(environ: dict[str, str]) -> None:
    handle = register("abc", (), environ)
    assert os.stat(handle).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(handle)).st_mode & 0o777 == 0o700


def change(handle: str, **values: object) -> None:
    with open(handle) as file:
        written = json.load(file)
    with open(handle, "w") as file:
        json.dump({**written, **values}, file)


@pytest.mark.parametrize("values", [{"began": "1"}, {"boot": "another"}, {"pid": 2**22 + 1}])
def test_a_session_whose_process_is_gone_is_forgotten(
    environ: dict[str, str], values: dict[str, object]
) -> None:
    """Its number may belong to another process by now, or the machine may have been started anew."""
    change(register("abc", (), environ), **values)
    assert live_sessions(environ) == [] and files(environ) == []


def test_a_process_that_nobody_awaited_is_gone(environ: dict[str, str]) -> None:
    child = subprocess.Popen(["sh", "-c", "read x"], stdin=subprocess.PIPE)
    with open(f"/proc/{child.pid}/stat") as file:
        began = file.read().rpartition(")")[2].split()[19]
    change(register("abc", (), environ), pid=child.pid, began=began)
    assert len(live_sessions(environ)) == 1
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert live_sessions(environ) == []
    child.communicate()


def test_what_is_not_ours_stays(environ: dict[str, str]) -> None:
    directory = os.path.dirname(register("abc", (), environ))
    for name, text in (("other.json", "{}"), ("half.json", '{"id'), ("notes.txt", "mine")):
        Path(directory, name).write_text(text)
    assert [session.id for session in live_sessions(environ)] == ["abc"]
    assert sorted(files(environ)) == ["abc.json", "half.json", "notes.txt", "other.json"]


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a/b", "a\0b"])
def test_a_name_stays_in_the_directory(environ: dict[str, str], name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a session"):
        register(name, (), environ)
