"""`pinfold learn`, by a person at a real terminal, and where there is none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal_user import Person, Screen

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
needs_screen = pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux here to look with")
MINE = "# mine\n[filesystem]\nhide = []  # nothing yet\n"
LINE = "mkdir ~/new; echo 1 > ~/new/a; echo 1 > ~/new/b; echo end"
ACCEPT = "write this to your settings?"


def learned(screen: Screen) -> str:
    """A run in which everything is answered with yes, up to the question whether to keep it."""
    screen.run("learn", "-c", LINE)
    screen.wait_for("make the directory ~/new")
    screen.wait_for("Allow this write? [")
    screen.press("y")
    screen.wait_for("write ~/new/a")
    screen.wait_until(lambda text: text.count("Allow this write? [") == 1 and "no in" in text)
    # One key at a time: what comes in one piece was pasted, and is no answer.
    screen.press("w")
    screen.wait_for("apply to what is in ~/new")
    screen.press("w")
    screen.wait_for("any command may change what is in ~/new")
    screen.press("s")
    return screen.wait_for(ACCEPT)


@needs_screen
def test_each_yes_is_proposed_and_accepted_with_one_word(screen: Screen) -> None:
    path = screen.settings(MINE)
    told = learned(screen)
    assert "end" in told and '+write = ["~/new"]' in told and "no proposal" not in told
    assert path.read_text() == MINE
    screen.press("y", "Enter")
    screen.wait_for("changed ~/.config/pinfold/settings.toml")
    screen.wait_for("exit:0")
    assert path.read_text() == f'{MINE}write = ["~/new"]\n'
    # From then on there is no question, and nothing left to learn.
    screen.run("learn", "-c", LINE.replace("mkdir", "mkdir -p"))
    told = screen.wait_for("exit:0")
    assert (
        "your settings already allow everything that the command tried" in told
        and "Allow this write?" not in told
    )


@needs_screen
@pytest.mark.parametrize("keys", [("n", "Enter"), ("Enter",), ("C-d",), ("Y", "e", "a", "h", "Enter")])
def test_anything_else_is_no(screen: Screen, keys: tuple[str, ...]) -> None:
    path = screen.settings(MINE)
    screen.run("learn", "--network", "none", "-c", "mkdir ~/new")
    screen.wait_for("Allow this write? [")
    screen.press("y")
    screen.wait_for(ACCEPT)
    screen.press(*keys)
    screen.wait_for("nothing was changed")
    screen.wait_for("exit:0")
    assert path.read_text() == MINE


@needs_screen
def test_each_can_be_chosen_by_itself_and_what_was_typed_before_is_no_answer(screen: Screen) -> None:
    path = screen.settings(MINE)
    screen.run(
        "learn",
        "-c",
        "mkdir ~/one; mkdir ~/two; rmdir ~/one; echo typing; until test -e typed; do sleep 0.2; done",
        NO_COLOR="1",
    )
    for action, key in (("make the directory ~/one", "y"), ("make the directory ~/two", "y"),
                      ("delete the directory ~/one", "n")):  # fmt: skip
        screen.wait_for(action)
        screen.wait_until(lambda text: "Allow this write? [" in text.rstrip().rpartition("\n")[2])
        screen.press(key)
    screen.wait_for("\ntyping")
    screen.press("y", "Enter", "y", "Enter")
    (screen.work / "typed").touch()
    told = screen.wait_for(ACCEPT)
    assert "rmdir ~/one" in told and "you said no" in told
    screen.press("e", "Enter")
    screen.wait_for("filesystem.write: ~/one?")
    screen.press("n", "Enter")
    screen.wait_for("filesystem.write: ~/two?")
    screen.press("y", "Enter")
    screen.wait_for("changed ~/.config")
    assert path.read_text() == f'{MINE}write = ["~/two"]\n'


# Without a terminal


def learn(person: Person, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*person.program, "learn", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
        **person.given,
    )


def settings_of(person: Person) -> Path:
    return person.where / "home/.config/pinfold/settings.toml"


def test_without_a_terminal_it_is_told_and_nothing_is_changed(person: Person) -> None:
    done = learn(person, "--", "mkdir", str(person.where / "home/new"))
    assert done.returncode == 1 and "Read-only" in done.stderr
    assert "+++ ~/.config/pinfold/settings.toml" in done.stderr and '+write = ["~/new"]' in done.stderr
    assert (
        "nothing is changed; to accept this, run it at a terminal" in done.stderr
        and "learn again" in done.stderr
    )
    assert not settings_of(person).exists() and not (person.where / "home/new").exists()


def test_what_is_not_proposed_is_told_alone_where_nothing_is(person: Person) -> None:
    done = learn(person, "-c", "echo x > /etc/pinfold-was-here")
    assert (
        "pinfold: the command tried this, which no proposal allows:\n  open /etc/pinfold-was-here"
        in done.stderr
    )
    assert "+++" not in done.stderr and not os.path.exists("/etc/pinfold-was-here")


def test_it_is_not_said_to_be_enough_where_something_is_not_proposed(person: Person) -> None:
    done = learn(person, "-c", "mkdir ~/new; echo x > /etc/pinfold-was-here")
    assert (
        '+write = ["~/new"]' in done.stderr
        and "the command also tried this, which no proposal allows" in done.stderr
    )
    assert "would have allowed everything except the items listed below:" in done.stderr
    assert "would have allowed everything:" not in done.stderr


def test_as_json_it_is_one_object(person: Person) -> None:
    done = learn(person, "--json", "-c", "echo out; mkdir ~/new; cat ~/.ssh/id; exit 3")
    answer = json.loads(done.stdout)
    assert done.returncode == answer["exitCode"] == 3 and answer["stdout"] == "out\n"
    told = answer["learned"]
    assert told["entries"] == [{"key": "filesystem.write", "value": "~/new"}]
    assert told["file"] == str(settings_of(person)) and told["diff"].startswith("--- /dev/null")
    assert told["makes"] == [str(person.where / "home/new")] and told["notProposed"] == []
    assert not settings_of(person).exists()


def test_a_command_that_is_denied_is_not_run(person: Person) -> None:
    done = learn(person, "-c", "touch made; rm -rf ~")
    assert done.returncode == 126 and "not run" in done.stderr and not (person.work / "made").exists()
    assert "may delete your home" in done.stderr


def test_outside_of_the_fence_there_is_nothing_to_learn(person: Person) -> None:
    arguments = ("--policy", "danger-full-access", "--mode", "run_everything", "--", "ls", "/")
    done = learn(person, *arguments)
    is_superuser = person.given["user"] is None and not os.geteuid()
    assert done.returncode == (126 if is_superuser else 0), done
    assert "did not run in the sandbox" in done.stderr and "already allow" not in done.stderr


def test_what_names_no_command_is_refused(person: Person) -> None:
    for words in ((), ("-c", "true", "--", "true")):
        done = learn(person, *words)
        assert done.returncode == 2 and "for example: pinfold learn -c 'make test'" in done.stderr
