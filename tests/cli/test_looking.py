"""`pinfold doctor`, `selftest`, `status` and `prompt`, as programs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinfold.cli.output import make_console
from pinfold.diagnose.doctor import ELSEWHERE, _processes, _state
from pinfold.sandbox.linux import limits
from pinfold.state.sessions import register

TOP = Path(__file__).parent.parent.parent


def pinfold(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **environment}
    return subprocess.run(
        [sys.executable, "-m", "pinfold", *arguments],
        cwd=home,
        env=given,
        capture_output=True,
        text=True,
        timeout=90,
    )


def answer(*arguments: str, home: Path, **environment: str) -> Any:
    return json.loads(pinfold(*arguments, "--json", home=home, **environment).stdout)


# doctor


def test_doctor_exits_by_what_it_says(tmp_path: Path) -> None:
    run = pinfold("doctor", "--json", home=tmp_path)
    said = json.loads(run.stdout)
    assert run.returncode == (0 if said["well"] else 1)
    names = {layer["name"] for layer in said["layers"]}
    assert {
        *("user namespace", "mount namespace", "pid namespace", "net namespace", "ipc namespace"),
        *("uts namespace", "cgroup namespace", "fresh /proc", "Landlock", "seccomp", "notification"),
        *("wait killable", "Yama ptrace scope", "cgroup delegation", "shell parser", "git", "settings"),
        "state directory",
    } <= names
    assert {layer["state"] for layer in said["layers"]} <= {"enforced", "partly", "not", "ready"}
    assert said["enforcement"]["level"] == "full" or not said["well"]


def test_doctor_fits_eighty_columns_without_colour(tmp_path: Path) -> None:
    text = pinfold("doctor", home=tmp_path, COLUMNS="80").stdout
    assert "\x1b" not in text
    table, _, _ = text.partition("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    assert all(line == line.rstrip() for line in text.splitlines())


def row(said: Any, name: str) -> Any:
    return next(layer for layer in said["layers"] if layer["name"] == name)


def test_doctor_names_settings_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / ".config/pinfold/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text("mod = 1\n")
    run = pinfold("doctor", "--json", home=tmp_path)
    settings = row(json.loads(run.stdout), "settings")
    assert run.returncode == 1
    assert (settings["state"], settings["fix"]) == ("not", "pinfold settings validate")
    assert "settings.toml" in settings["detail"]


def test_doctor_names_a_state_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    said = answer("doctor", home=tmp_path, XDG_STATE_HOME=str(tmp_path / "state"))
    assert row(said, "state directory")["state"] == "not"
    assert not said["well"]
    assert answer("doctor", home=tmp_path) and not (tmp_path / ".local").exists()


def test_doctor_tells_how_a_state_directory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    home, there = str(tmp_path), str(tmp_path / "a b")
    os.mkdir(there)
    assert _state(there, home).fix == f"chmod u+rwx '{there}'"
    monkeypatch.setattr(os, "getuid", lambda: os.stat(there).st_uid + 1)
    assert _state(there, home).fix == f"sudo chown $(id -u) '{there}'"


@pytest.mark.parametrize("home", ["/", "/nonexistent", "/etc", "/proc"])
def test_doctor_never_gives_the_system_away(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert _state(f"{home.rstrip('/')}/.local/state/pinfold", home).fix == ELSEWHERE


def test_doctor_knows_a_home_that_is_mounted_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    read_only = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    assert _state(str(tmp_path / "x"), str(tmp_path)).fix == ELSEWHERE


@pytest.mark.parametrize(("held", "state"), [(749, "ready"), (750, "not")])
def test_doctor_knows_who_leaves_no_processes(held: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "process_count", lambda: (held, 750))
    (standing,) = _processes()
    assert standing.state == state and bool(standing.fix) == (state == "not")


def test_doctor_knows_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(f_blocks=9, f_bavail=0, f_bfree=0)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    standing = _state(str(tmp_path / "x"), str(tmp_path))
    assert (standing.state, standing.detail) == ("not", f"there is no room left in {tmp_path}")


def test_doctor_judges_the_policy_in_force(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[sandbox]\npolicy = "read-only"\n[limits]\nmemory = "1GB"\n')
    said = answer("doctor", "--settings", str(file), home=tmp_path)
    assert [gap["layer"] for gap in said["enforcement"]["missing"]] == ["memory"]


# selftest


def test_selftest_tells_every_attack(tmp_path: Path) -> None:
    run = pinfold("selftest", "--json", home=tmp_path)
    if answer("doctor", home=tmp_path)["enforcement"]["level"] == "none":
        pytest.skip("this machine has no fence to attack")
    said = json.loads(run.stdout)
    assert run.returncode == (0 if said["held"] else 1)
    assert sum(said["counts"].values()) == len(said["attacks"]) >= 100
    assert {"name", "tries", "claim", "outcome", "detail", "needs_root"} == set(said["attacks"][0])


def test_selftest_without_a_place_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("")
    run = pinfold("selftest", home=tmp_path)
    assert run.returncode == 125
    assert run.stderr.startswith(
        f"pinfold: the self-test cannot make its directory: {tmp_path}/.cache/pinfold: "
    )
    assert "XDG_CACHE_HOME" in run.stderr
    assert run.stderr.count("\n") == 1


def test_who_stops_reading_is_given_no_verdict() -> None:
    """`pinfold selftest | head` is no attack that got through."""
    reading, writing = os.pipe()
    os.close(reading)
    console = make_console()
    console.file = open(writing, "w", buffering=1)  # noqa: SIM115  (closing it fails as well)
    with pytest.raises(BrokenPipeError):
        console.print("held")
    with pytest.raises(BrokenPipeError):
        console.file.close()


def test_every_claim_of_an_attack_is_one_of_ours() -> None:
    from pinfold.sandbox.attacks.attack import BOUNDARY
    from pinfold.sandbox.attacks.runner import ATTACKS

    claims = re.findall(r"^\| `(\w+)` \|", TOP.joinpath("SECURITY.md").read_text(), re.MULTILINE)
    assert {attack.claim for attack in ATTACKS.values()} <= {BOUNDARY, *claims}


# status


def test_status_says_where_each_value_is_written(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[network]\naccess = "none"\n')
    said = answer("status", "--settings", str(file), home=tmp_path)
    access = said["settings"]["network.access"]
    assert (access["value"], access["layer"], access["file"], access["line"]) == (
        "none",
        "user",
        str(file),
        2,
    )
    assert said["enforcement"]["level"] in ("none", "partial", "full")
    assert said["sessions"] == []
    assert said["policy"]["networkAccess"] is False
    assert "own.toml:2" in pinfold("status", "--settings", str(file), home=tmp_path).stdout


@pytest.mark.parametrize(
    ("access", "hosts"),
    [
        ("ask", " except hosts that you allow when asked"),
        ("rules", " except hosts in `network.allow`"),
        ("none", ""),
    ],
)
def test_status_says_which_hosts_are_reached_at_the_level(tmp_path: Path, access: str, hosts: str) -> None:
    said = pinfold("status", "--network", access, home=tmp_path).stdout
    assert f"level        10 (workspace-write, no network{hosts})\n" in said


def test_a_grant_of_what_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    file = tmp_path / "own.toml"
    file.write_text(f'[filesystem]\nwrite = ["{tmp_path}/there", "{tmp_path}/gone", "inside"]\n')
    given = ("--settings", str(file), "--cwd", str(work))
    told = f"{tmp_path}/gone in `filesystem.write` has no effect: the path does not exist; create it first"
    assert answer("status", *given, home=tmp_path)["notices"] == [told]
    assert f"note: {told}\n" in pinfold("status", *given, home=tmp_path).stdout
    prompt = pinfold("prompt", *given, home=tmp_path).stdout
    assert f"`{tmp_path}/there`" in prompt and f"{tmp_path}/gone" not in prompt


@pytest.mark.parametrize("words", [["check", "ls"], ["explain", "ls"], ["status"], ["prompt"]])
def test_the_whole_machine_is_not_looked_through(words: list[str], tmp_path: Path) -> None:
    run = pinfold(*words, "--cwd", "/", home=tmp_path)
    assert run.returncode == 125 and run.stdout == ""
    assert run.stderr == (
        "pinfold: the root of the file system cannot be writable in the sandbox; work in a directory\n"
    )


def test_status_lists_the_living(tmp_path: Path) -> None:
    register("abc", ("/some/project",), {"HOME": str(tmp_path)})
    (session,) = answer("status", home=tmp_path)["sessions"]
    assert (session["id"], session["pid"], session["roots"]) == ("abc", os.getpid(), ["/some/project"])
    text = pinfold("status", home=tmp_path).stdout
    assert f"session abc  process {os.getpid()}" in text and "/some/project" in text


def test_a_project_whose_name_is_not_utf8_is_told_as_json_too(tmp_path: Path) -> None:
    work = tmp_path / os.fsdecode(b"bad\xff")
    work.mkdir()
    assert answer("status", "--cwd", str(work), home=tmp_path)["roots"] == [f"{tmp_path}/bad\ufffd"]
    assert answer("check", "--cwd", str(work), "ls", home=tmp_path)["decision"] == "allow"
    assert "bad" in answer("prompt", "--cwd", str(work), home=tmp_path)["prompt"]


def test_status_without_a_fence_says_so(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[sandbox]\nenabled = false\n")
    said = answer("status", "--settings", str(file), home=tmp_path)
    assert said["enforcement"]["level"] == "none"
    assert "`sandbox.enabled` is false" in pinfold("status", "--settings", str(file), home=tmp_path).stdout


# prompt


def test_prompt_follows_the_policy(tmp_path: Path) -> None:
    assert f"You may write in: `{tmp_path}`" in pinfold("prompt", home=tmp_path).stdout
    read_only = answer("prompt", "--policy", "read-only", home=tmp_path)
    assert "but not write in it" in read_only["prompt"]
    assert read_only["policy"]["type"] == "WORKSPACE_READONLY"
    off = pinfold("prompt", "--policy", "danger-full-access", home=tmp_path)
    assert (off.returncode, off.stdout) == (0, "")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("", "Pinfold asks the person about each."),
        ('access = "none"', "There is no network."),
        (
            'access = "rules"\nallow = ["a.test"]',
            "You can reach these hosts: `a.test`. You can reach no other.",
        ),
        ('access = "all"\ndeny = ["a.test"]', "The network is open, except for `a.test`."),
        (
            'allow = ["localhost:5432"]',
            "On 127.0.0.1, these ports lead to servers outside the sandbox: `5432`.",
        ),
        ("publish = [3000]", "The person can reach these ports of yours on 127.0.0.1: `3000`."),
    ],
)
def test_prompt_tells_of_the_network(settings: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(f"[network]\n{settings}\n")
    assert told in pinfold("prompt", "--settings", f"{tmp_path}/settings.toml", home=tmp_path).stdout


@pytest.mark.parametrize("verb", ["doctor", "status", "prompt"])
def test_a_directory_that_is_none_is_bad_input(verb: str, tmp_path: Path) -> None:
    run = pinfold(verb, "--cwd", "/nowhere", home=tmp_path)
    assert run.returncode == 2
    assert "/nowhere" in run.stderr


@pytest.mark.parametrize("verb", ["status", "prompt"])
def test_tables_are_drawn_without_rich_where_none_is_drawn(verb: str, tmp_path: Path) -> None:
    code = "import sys; from pinfold.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code, verb], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "rich" not in run.stdout.splitlines()[-1].split()


def test_the_prompt_names_commands_that_do_change_restrictions(tmp_path: Path) -> None:
    """Each is there, and those that need no sandbox change what the next prompt or check says."""
    text = pinfold("prompt", home=tmp_path).stdout
    named = set(re.findall(r"`pinfold ([a-z ]+)`", text))
    assert named == {"status", "learn", "rules add", "exclude add", "settings show"}, named
    for verb in named:
        assert pinfold(*verb.split(), "--help", home=tmp_path).returncode == 0, verb
    settings = tmp_path / ".config/pinfold/settings.toml"
    assert pinfold("rules", "add", "deny", "make x", home=tmp_path).returncode == 0
    assert pinfold("check", "make x", home=tmp_path).returncode == 11
    assert pinfold("exclude", "add", "make y", home=tmp_path).returncode == 0
    assert "these commands run outside the sandbox: `'make y'`" in pinfold("prompt", home=tmp_path).stdout
    assert (
        str(settings) in pinfold("settings", "show", home=tmp_path, COLUMNS="200").stdout or settings.exists()
    )
