"""A person at a real terminal, 80 columns wide: what stands on the screen, and what each key does."""

import re
import shutil
import sys
import time
from collections.abc import Callable

import pytest

from pinfold.cli.question_view import QuestionView
from pinfold.model.permission import Capability
from tests.approval.questions import question
from tests.cli.terminal_user import Screen
from tests.patience import wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux here to look at a screen with"),
]
ASKING = 'mode = "ask_every_time"\n'
CURL = "curl -sS -m 20 http://nowhere.invalid/; echo after"
GIVEN_UP = "& until test -e enough; do sleep 0.1; done; kill $!; wait $! 2>/dev/null"


# A command


@pytest.mark.parametrize(
    ("key", "code", "said"),
    [
        ("y", 0, "Run it? once"),
        ("a", 0, "Run it? always"),
        ("n", 126, "said no"),
        ("Enter", 126, "said no"),
        ("C-d", 126, "said no"),
        ("C-c", 130, "^C"),
    ],
)
def test_a_command_is_asked_about(screen: Screen, key: str, code: int, said: str) -> None:
    screen.settings(ASKING)
    screen.run("run", "--", "touch", "made")
    before = screen.wait_for("Run it? [y a n e]")
    assert "touch made" in before and "every command needs a person's approval" in before
    screen.press(key)
    assert said in screen.wait_for(f"exit:{code}")
    assert (screen.work / "made").exists() is (code == 0)
    screen.run("run", "--", "touch", "made", shell="{}; stty -a; echo exit:$?")
    again = screen.wait_until(lambda text: "Run it?" in text or "exit:" in text)
    assert ("Run it?" in again) is (key != "a")
    if key == "a":
        assert " echo" in again and " icanon" in again and "-isig" not in again


def test_when_time_is_up_it_is_no(screen: Screen) -> None:
    screen.settings(ASKING + '[approvals]\nwait = "5s"\n')
    screen.run("run", "--", "touch", "made", shell="{}; echo exit:$?; stty -a")
    after = screen.wait_for("exit:126")
    assert "gave no answer within 5 seconds" in after and after.count("Run it?") == 1
    wait_until(lambda: "exit:126" in screen.written())
    left = [int(seconds) for seconds in re.findall(r"no in (\d+) s", screen.written())]
    assert left == sorted(set(left), reverse=True) and left[0] <= 5 and len(left) > 2, "it counts down"
    assert " echo" in screen.wait_for(" icanon") and not (screen.work / "made").exists()


def test_keys_that_answer_are_not_the_commands_input(screen: Screen) -> None:
    """Where its output goes elsewhere, it reads what is typed as well."""
    line = f"{CURL}; read -r x; echo got:$x:"
    screen.run("run", "-c", line, shell="({}) 2>&1 | cat; echo exit:$?")
    screen.wait_for("Allow this connection? [")
    for key in "qqqqn":  # the first are no answer, and nobody else's
        screen.press(key)
    screen.wait_for("after")
    screen.press("w")
    screen.press("Enter")
    assert "got:w:" in screen.wait_for("exit:0")


def test_a_rule_is_edited_and_added(screen: Screen) -> None:
    path = screen.settings("# mine\n[sandbox]\nauto_allow = false\n")
    screen.run("run", "--", "touch", "made", "too")
    screen.wait_for("Run it? [y a r n e]")
    screen.press("r")
    screen.wait_for("add to commands.allow: touch")
    screen.press("Space", "|", "Enter")
    screen.wait_for("that is no rule")
    screen.press("C-u", "t", "o", "u", "x", "BSpace", "c", "h", "Space", "m", "a", "d", "e", "Enter")
    screen.wait_for("exit:0")
    assert path.read_text() == '# mine\n[sandbox]\nauto_allow = false\n\n[commands]\nallow = ["touch made"]\n'
    screen.run("run", "--", "touch", "made", "more")
    assert "Run it?" not in screen.wait_for("exit:0")


def test_what_is_wrong_with_a_rule_is_folded_between_words(screen: Screen) -> None:
    screen.run("run", "-c", CURL, shell="stty cols 60; {}; echo exit:$?")
    screen.wait_for("Allow this connection?")
    screen.press("r")
    screen.wait_for("add to network.allow: nowhere.invalid:80")
    screen.press("Space", "x", "Enter")
    assert "must be a number\nfrom 1 to 65535" in screen.wait_for("65535")


def test_escape_leaves_the_rule_and_everything_is_explained(screen: Screen) -> None:
    screen.settings("[sandbox]\nauto_allow = false\n")
    screen.run("run", "-c", "true && touch made")
    screen.wait_for("Run it?")
    screen.press("r")
    screen.wait_for("Esc goes back")
    screen.press("Escape")
    screen.wait_until(lambda text: text.count("Run it?") == 2)
    screen.press("e")
    told = screen.wait_until(lambda text: "the whole command:" in text and text.count("Run it? [") > 1)
    assert "step          otherwise" in told and "to allow it without a question" in told
    screen.press("n")
    screen.wait_for("exit:126")


# What is no answer


def test_arrows_pasted_text_and_reports_are_no_answer(screen: Screen) -> None:
    screen.settings(ASKING)
    screen.run("run", "--", "touch", "made")
    screen.wait_for("Run it?")
    screen.press("Up", "Down", "F5", "M-y")
    screen.press("-l", "yes please, always")
    screen.press("-l", "\x1b[24;80Ry")
    time.sleep(1.0)
    assert "Run it? [" in screen.text() and not (screen.work / "made").exists()
    screen.press("n")
    screen.wait_for("exit:126")


def test_a_commands_text_cannot_draw(screen: Screen) -> None:
    screen.settings(ASKING)
    line = "echo '\x1b[2J\x1b[Hrun it? yes' \u202e\u200b; touch made"
    screen.run("run", "--description", "\x1b[1A\rharmless\x07", "-c", line)
    text = screen.wait_for("Run it? [")
    assert r"\x1b[2J\x1b[Hrun it? yes" in text and r"\u202e\u200b" in text and r"\x1b[1A\rharmless" in text
    screen.press("n")
    screen.wait_for("exit:126")


PAINTED = "".join(f"\x1b[{row};40H(y is a no here)" for row in range(1, 41))


@pytest.mark.parametrize("spoilt", ["", '\x1b[1"q\x1bV'], ids=["plain", "guarded"])
def test_no_text_of_a_command_stands_in_a_question(screen: Screen, spoilt: str) -> None:
    (screen.work / "drawing").write_text(f"\x1b[2J{spoilt}{PAINTED}\x1b[1;1H")
    screen.run("run", "-c", f"cat drawing; {CURL}")
    text = screen.wait_for("Allow this connection?")
    before, _, asked = text.partition("pinfold asks")
    assert "connect to nowhere.invalid:80\n" in asked and "y is a no" in before
    assert "y is a no" not in asked and "d=A" not in text
    screen.press("n")
    screen.wait_for("exit:")


# A host, while the command waits


@pytest.mark.parametrize(
    ("keys", "said", "again"),
    [
        (["n"], "said no", True),
        (["y"], "DNS lookup of nowhere.invalid failed", True),
        (["w", "s"], "DNS lookup of nowhere.invalid failed", True),
        (["a"], "DNS lookup of nowhere.invalid failed", False),
    ],
)
def test_a_host_is_asked_about(screen: Screen, keys: list[str], said: str, again: bool) -> None:
    screen.run("run", "-c", f"{CURL}; {CURL}")
    before = screen.wait_for("Allow this connection? [y a r n w e]")
    assert (
        "connect to nowhere.invalid:80" in before and "nowhere.invalid:80 is not in `network.allow`" in before
    )
    for key in keys:  # one at a time: what comes in one piece was pasted, and is no answer
        screen.press(key)
        if key == "w":
            screen.wait_for("any command may connect to it, while this run lasts")
    after = screen.wait_for("exit:0")
    assert said in after and after.count("Allow this connection?") == 1, "it was asked for twice"
    screen.run("run", "-c", f"{CURL}; {CURL}")
    later = screen.wait_until(lambda text: "Allow this connection?" in text or "exit:" in text)
    assert ("Allow this connection?" in later) is again


def test_a_wider_answer_is_for_any_command(screen: Screen) -> None:
    screen.run("run", "-c", CURL)
    screen.wait_for("Allow this connection?")
    screen.press("w")
    assert "w  narrower" in screen.wait_for("any command may connect to it, in later sessions too")
    screen.press("a")
    screen.wait_for("exit:0")
    screen.run("run", "-c", f"true; {CURL}")
    assert "Allow this connection?" not in screen.wait_for("exit:0")
    screen.run("approvals", "list")
    listed = screen.wait_for("exit:0")
    assert "any command may connect" in listed and "in force" in listed
    screen.run("approvals", "revoke", "--all")
    screen.wait_for("1 revoked")
    screen.run("run", "-c", f"true; {CURL}")
    screen.wait_for("Allow this connection?")


def test_time_is_up_for_a_host_too(screen: Screen) -> None:
    screen.settings('[approvals]\nwait = "4s"\n')
    screen.run("run", "-c", f"{CURL}; read word; echo got:$word")
    screen.wait_for("Allow this connection?")
    screen.wait_until(lambda text: "; the person at the terminal gave" in text.replace("\n", ""))
    screen.press("-l", "hello")
    screen.press("Enter")
    screen.wait_for("got:hello")
    screen.wait_for("exit:0")


def test_a_question_goes_when_nobody_waits_for_it(screen: Screen) -> None:
    screen.run("run", "-c", f"curl -sS http://nowhere.invalid/ {GIVEN_UP}; read word; echo got:$word")
    screen.wait_for("Allow this connection? [")
    (screen.work / "enough").touch()
    screen.wait_for("it is not wanted any more")
    screen.press("-l", "hello")
    screen.press("Enter")
    screen.wait_for("got:hello")
    screen.wait_for("exit:0")


def test_a_question_goes_with_its_command(screen: Screen) -> None:
    screen.run("run", "--timeout", "10", "-c", CURL, shell="{}; echo exit:$?; stty -a")
    screen.wait_for("Allow this connection?")
    assert "Traceback" not in screen.wait_for("exit:124")
    assert " echo" in screen.wait_for(" icanon")


# A write, while the command waits


def test_a_write_is_asked_about_until_nobody_waits_for_it(screen: Screen) -> None:
    line = f"touch ~/new {GIVEN_UP}; read word; echo got:$word; touch ~/new; echo $?"
    screen.run("run", "-c", line)
    screen.wait_for("Allow this write? [")
    (screen.work / "enough").touch()
    screen.wait_for("it is not wanted any more")
    screen.press("-l", "hello")
    screen.press("Enter")
    # Nobody has answered: whoever wants the same later is asked about.
    screen.wait_until(lambda text: text.count("Allow this write? [") == 2)
    screen.press("y")
    # What was written right before the question may have had to wait for its end.
    assert "got:hello" in screen.wait_for("exit:0") and (screen.home / "new").exists()


def test_a_writes_question_goes_with_its_command(screen: Screen) -> None:
    screen.run("run", "--timeout", "20", "-c", "touch ~/new", shell="{}; echo exit:$?; stty -a")
    screen.wait_for("Allow this write? [")
    after = screen.wait_for("exit:124")
    assert "Traceback" not in after and "warden" not in after
    assert " echo" in screen.wait_for(" icanon") and not (screen.home / "new").exists()


@pytest.mark.parametrize("shell", ["{}; echo exit:$?", "{} < /dev/null; echo exit:$?"])
def test_what_cannot_wait_is_asked_about_afterwards(screen: Screen, shell: str) -> None:
    for path in (screen.home / "out", screen.home / "out/d"):
        path.mkdir()
        screen.give(path)
    line = "echo begun; mv ~/out/d ~/out/e && read word && echo got:$word"
    screen.run("run", "-c", line, shell=shell)
    told = " ".join(screen.wait_for("Run it? [y n e]").split())
    assert "run this with more than your own policy gives" in told and "runs it again" in told
    assert "Read-only file system" in told and "home/out" in told
    screen.press("y")
    screen.wait_until(lambda text: text.count("begun\n") == 2)
    if "null" not in shell:
        screen.press("-l", "hello")
        screen.press("Enter")
        screen.wait_for("got:hello")
    screen.wait_for("exit:")
    assert (screen.home / "out/e").is_dir()
    screen.run("run", "-c", line.replace("/d", "/e", 1).replace("out/e &&", "out/f &&"), shell=shell)
    screen.wait_for("Run it? [y n e]")
    screen.press("n")
    after = screen.wait_for("exit:1")
    assert after.count("begun\n") == 1 and not (screen.home / "out/f").exists()


def _is_asked(about: str) -> Callable[[str], bool]:
    return lambda text: about in text and "Allow this write? [" in text


def test_a_mode_is_asked_about_in_words_and_ctrl_c_is_told_as_it_was(screen: Screen) -> None:
    kept = screen.home / "kept"
    kept.write_text("")
    kept.chmod(0o644)
    screen.give(kept)
    screen.run("run", "-c", "chmod 755 ~/kept; chmod 644 ~/kept; chmod 777 ~/kept")
    told = " ".join(screen.wait_for("Allow this write? [").split())
    assert "from 644 to 755: everybody may run it" in told
    screen.press("y")
    told = " ".join(screen.wait_until(_is_asked("from 755 to 644")).split())
    assert "from 755 to 644: everybody may no longer run it" in told
    screen.press("y")
    screen.wait_until(_is_asked("from 644 to 777"))
    screen.press("C-c")
    after = screen.wait_for("exit:")  # 130, unless it heard the no before it saw the signal
    # Who died before the no came was refused nothing.
    told = after.replace("\\n", "").partition("pinfold: ")[2]
    assert (not told or told.startswith(f"refused chmod {kept}: ")) and "warden" not in after
    assert kept.stat().st_mode & 0o777 == 0o644


def test_ctrl_c_at_a_question_interrupts_the_command(screen: Screen) -> None:
    screen.run("run", "-c", f"trap 'echo caught; exit 9' INT; {CURL}; sleep 30")
    screen.wait_for("Allow this connection?")
    screen.press("C-c")
    assert "caught" in screen.wait_for("exit:9")


def test_ctrl_c_ends_a_command_without_a_terminal(screen: Screen) -> None:
    screen.run("run", "-c", f"{CURL}; sleep 30", shell="{} < /dev/null; echo exit:$?; stty -a")
    screen.wait_for("Allow this connection?")
    screen.press("C-c")
    screen.wait_for("exit:130")
    assert " echo" in screen.wait_for(" icanon")


def test_ctrl_c_leaves_the_loop_that_the_command_stands_in(screen: Screen) -> None:
    """As it would without us: what died of SIGINT ends a shell's loop, what ends with 130 does not."""
    loop = """bash -c 'set -m; for each in 1 2 3; do "$@"; done; echo left:$?' - {}; echo exit:$?"""
    screen.run("run", "-c", "echo begun; sleep 30", shell=loop)
    screen.wait_for("begun")
    screen.press("C-c")
    after = screen.wait_for("exit:130")
    assert after.count("begun") == 1 and "left" not in after
    # A command that says so by itself has heard nothing from the terminal.
    screen.run("run", "-c", "echo begun; exit 130", shell=loop)
    assert screen.wait_for("left:130").count("begun") == 3


def test_what_is_told_begins_a_line_of_its_own(screen: Screen) -> None:
    screen.run("run", "--network", "none", "-c", "curl -sS nowhere.invalid; printf open; exit 3")
    told = screen.wait_for("exit:3").splitlines()
    assert any(line.startswith("pinfold: refused") for line in told) and "open" in told
    screen.run("run", "-c", "printf open")
    assert "openexit:0" in screen.wait_for("exit:0")


def test_what_is_told_after_a_command_is_in_an_encoding_that_has_no_controls(screen: Screen) -> None:
    screen.run("run", "-c", r"printf '\033%%@ended'; exit 3")
    screen.wait_for("exit:3")
    wait_until(lambda: "exit:3" in screen.written().partition("ended")[2])
    assert "\x1b%G" in screen.written().partition("ended")[2]
    screen.run("run", "-c", "printf ended; exit 3")
    screen.wait_for("exit:3")
    wait_until(lambda: "exit:3" in screen.written().partition("ended")[2])
    assert "\x1b%G" not in screen.written().partition("ended")[2]


def test_output_waits_while_a_question_stands(screen: Screen) -> None:
    """What the command left of the terminal (a title begun, invisible text, one line that scrolls) is mended
    for it."""
    noise = "(while sleep 0.05; do echo noise; echo >> made; done) &"
    spoilt = r"printf '\033[8m\033[3;3r\033(0\033[6n\033]0;title'"
    screen.run("run", "-c", f"{spoilt}; {noise} {CURL}; kill %1; echo ended")
    stood = screen.wait_for("Allow this connection? [")
    for line in ("connect to nowhere.invalid:80", "y  once", "this run of the command", "pinfold asks"):
        assert line in stood
    made = screen.work / "made"
    before = made.stat().st_size
    wait_until(lambda: made.stat().st_size > before + 10)
    now = screen.text()
    assert now.count("noise") == stood.count("noise")
    assert re.sub(r"in \d+ s", "", now) == re.sub(r"in \d+ s", "", stood)
    screen.press("n")
    assert "noise" in screen.wait_for("exit:0")


HOSTILE = """
import fcntl, glob, os, subprocess, sys, termios
for path in ["/dev/tty", "/dev/console", *glob.glob("/dev/pts/*"), *glob.glob("/proc/*/fd/*"), "/dev/stdin"]:
    try:
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        continue
    for key in b"ya\\n":
        try:
            fcntl.ioctl(terminal, termios.TIOCSTI, bytes([key]))
        except OSError:
            pass
home = os.path.expanduser("~")
for path in (".local/state/pinfold/approvals.json", ".config/pinfold/settings.toml"):
    for do in (lambda p: open(p, "w"), os.unlink, lambda p: os.rename(p, p + "x")):
        try:
            do(os.path.join(home, path))
        except OSError:
            pass
for line in ("approvals revoke --all", "rules add allow curl", "exclude add curl", "settings show"):
    subprocess.run([sys.executable, "-c", "from pinfold.cli import entry; entry()", *line.split()],
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
print("tried", "everything")
"""


def test_agent_cannot_approve_itself(screen: Screen) -> None:
    """Nothing that a fenced command can do answers a question, changes what is remembered, or lifts it."""
    path = screen.settings('[network]\naccess = "ask"\n')
    (screen.work / "hostile.py").write_text(HOSTILE)
    curl = CURL.replace("-m 20", "-m 100")  # it waits until everything was tried
    first = "python3 hostile.py; until test -e seen; do sleep 0.1; done"
    again = "until test -e asked; do sleep 0.1; done; python3 hostile.py; touch tried"
    screen.run("run", "-c", f"{first}; ({again}) & {curl}; wait")
    screen.wait_for("tried everything", 60)
    (screen.work / "seen").touch()
    screen.wait_for("Allow this connection? [", 60)
    (screen.work / "asked").touch()
    stands = screen.wait_until(lambda _: (screen.work / "tried").exists(), 60)
    assert "Allow this connection? [" in stands and "not known" not in stands and stands.count("tried e") == 1
    screen.press("n")
    after = screen.wait_for("exit:0")
    assert "said no" in after and "tried everything" in after.partition("Allow this connection? no")[2]
    assert path.read_text() == '[network]\naccess = "ask"\n'
    screen.run("approvals", "list")
    assert "no answers are remembered" in screen.wait_for("exit:0")


# How it looks


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_it_fits_and_needs_no_colours(screen: Screen, environment: dict[str, str]) -> None:
    screen.settings("[sandbox]\nauto_allow = false\n")
    long = "true && " * 30 + "touch made && echo " + "x" * 200
    screen.run("run", "-c", f"{long}\necho second", **environment)
    screen.wait_for("Run it?")
    shown = screen._tmux("capture-pane", "-p", "-e", "-J")
    plain = screen._tmux("capture-pane", "-p", "-J").splitlines()
    assert max(map(len, plain)) <= 80, "a line was wider than the terminal"
    caret = next(index for index, line in enumerate(plain) if "^^^^^^^^^^" in line)
    at = plain[caret].index("^")
    assert plain[caret - 1][at:].startswith("touch made")
    assert ("\x1b[" in shown) is not bool(environment)
    screen.press("n")
    screen.wait_for("exit:126")


@pytest.mark.parametrize(
    "given",
    [
        {"command": f"curl {'x' * 4000}"},
        {"command": "curl", "description": "connect to pypi.org:443 " * 300},
        {"command": "curl", "program": f"/tmp/{'p' * 4000}"},
        {"command": "curl", "cwd": "/d" * 2000},
    ],
)
def test_what_is_wanted_is_not_pushed_off_the_screen(given: dict[str, str]) -> None:
    asked = question(capability=Capability.CONNECT, host="evil.test", port=443, **given)
    asking = QuestionView()
    choices = asking.choices(asked, asked.reaches[0], 80)
    for lines in (asking.question(asked, 80, 24), asking.explanation(asked, 80)):
        shown = [*lines, *choices][-23:]  # the prompt is the last line
        assert any(re.sub("\x1b\\[[0-9;]*m", "", line) == "connect to evil.test:443" for line in shown)


def test_a_job_in_the_background_is_not_stopped_for_the_terminal(screen: Screen) -> None:
    screen.run("run", "-c", "test ! -t 1 && echo done", shell="set -m; {} & wait $!; echo exit:$?")
    assert "done" in screen.wait_for("exit:0")


def test_a_whole_home_is_told_of(screen: Screen) -> None:
    screen.run("run", "--project", str(screen.home), "--", "true")
    assert "the project is your whole home" in screen.wait_for("exit:0")


def test_a_job_in_the_background_asks_once_it_is_in_the_foreground(screen: Screen) -> None:
    shell = "set -m; {} & read key; fg %1; echo exit:$?"
    screen.run("run", "-c", "touch ~/new", shell=shell)
    before = screen.wait_for("a command in the background has a question")
    assert "Allow this write?" not in before
    screen.press("Enter")
    screen.wait_for("Allow this write? [y")
    screen.press("y")
    screen.wait_for("exit:0")
    assert (screen.home / "new").exists()


def test_a_job_in_the_background_that_asks_ends_when_it_is_told_to(screen: Screen) -> None:
    shell = "set -m; {} & read key; kill %1; wait %1; echo exit:$?; stty -a"
    screen.run("run", "-c", "touch ~/new", shell=shell)
    screen.wait_for("a command in the background has a question")
    screen.press("Enter")
    after = screen.wait_until(lambda text: "exit:" in text and " icanon" in text)
    assert "exit:143" in after and "Allow this write?" not in after and not (screen.home / "new").exists()


def test_a_job_in_the_background_goes_on_while_something_is_typed(screen: Screen) -> None:
    line = "cat; echo begun; until test -e enough; do sleep 0.1; done; echo done"
    screen.run("run", "-c", line, shell="set -m; {} & read key; touch enough; wait %1; echo exit:$?")
    screen.wait_for("begun")
    screen.press("x", "Enter")
    assert "done" in screen.wait_for("exit:0")
