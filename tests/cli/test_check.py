"""`pinfold check` and `explain`, started as a person or a program would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.cli import VERBS
from pinfold.model.escape_text import first_invisible

PINFOLD = str(Path(sys.executable).with_name("pinfold"))


def run(tmp_path: Path, *arguments: str | bytes, settings: str = "") -> subprocess.CompletedProcess[bytes]:
    (tmp_path / "settings.toml").write_text(settings)
    (tmp_path / "home").mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "NO_COLOR": ""}
    for name in ("XDG_CONFIG_HOME", "PINFOLD_MODE", "PINFOLD_POLICY", "PINFOLD_NETWORK"):
        environment.pop(name, None)
    return subprocess.run(
        [PINFOLD, arguments[0], "--settings", str(tmp_path / "settings.toml"), *arguments[1:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )


RULES = '[commands]\nallow = ["make"]\ndeny = ["git push"]\n[mcp]\nallow = ["github:*"]\n'

ANSWERS: list[tuple[list[str], int, str]] = [
    (["make"], 0, "allow"),
    (["rm -rf /"], 10, "ask"),
    (["git push"], 11, "deny"),
    (["--path", "notes.txt"], 0, "allow"),
    (["--path", "notes.txt", "--write"], 0, "allow"),
    (["--path", ".env", "--write"], 10, "ask"),
    (["--path", "~/.ssh/id_rsa"], 11, "deny"),
    (["--path", "/etc/passwd", "--write"], 10, "ask"),
    (["--path", ".git/hooks/post-commit", "--write"], 10, "ask"),
    (["--path", ".pinfold/settings.toml", "--write"], 11, "deny"),
    (["--host", "example.com:443"], 10, "ask"),
    (["--host", "[::1]:80"], 11, "deny"),
    (["--mcp", "github:search"], 0, "allow"),
    (["--mcp", "other:search"], 10, "ask"),
    (["--browser", "click"], 0, "allow"),
    (["make", "--mode", "ask_every_time"], 10, "ask"),
    (["make", "--dangerously-disable-sandbox"], 10, "ask"),
    (["make", "--sandbox-policy", '{"networkAccess": true}'], 10, "ask"),
    (["make", "--sandbox-policy", '{"type": "WORKSPACE_READONLY"}'], 0, "allow"),
    (["--", "ls", "-la", "a; rm -rf /"], 0, "allow"),
    (["--", "git", "push"], 11, "deny"),
    (["--path", ".", "--delete"], 10, "ask"),
    (["--policy", "read-only", "--path", "x", "--write"], 11, "deny"),
    (["--network", "none", "--host", "example.com:443"], 11, "deny"),
]


@pytest.mark.parametrize(("arguments", "code", "word"), ANSWERS)
def test_answer(tmp_path: Path, arguments: list[str], code: int, word: str) -> None:
    answer = run(tmp_path, "check", *arguments, settings=RULES)
    assert (answer.returncode, answer.stderr) == (code, b"")
    assert answer.stdout.decode().startswith(f"{word}: ")


def test_what_may_be_deleted_is_told_as_such(tmp_path: Path) -> None:
    answer = run(tmp_path, "check", "--path", "notes.txt", "--delete")
    assert answer.stdout.decode() == f"allow: {tmp_path}/notes.txt may be deleted\n"


BAD_INPUT: list[tuple[list[str], str]] = [
    ([], "give exactly one of"),
    (["ls", "--path", "x"], "give exactly one of"),
    (["--host", "example.com"], "is not HOST:PORT"),
    (["--host", "example.com:99999999"], "is not HOST:PORT"),
    (["--host", "example.com:65536"], "is not HOST:PORT"),
    (["--mcp", "foo"], "is not SERVER:TOOL"),
    (["ls", "--write"], "--write and --delete need --path"),
    (["ls", "--timeout", "-3"], "argument --timeout: `-3` is not a number of seconds above 0"),
    (["ls", "--timeout", "soon"], "argument --timeout: `soon` is not a number of seconds above 0"),
    (["ls", "--sandbox-policy", "{"], "policy"),
    (["ls", "--sandbox-policy", '{"type": "SOMETHING"}'], "SOMETHING"),
    (["ls", "--cwd", "/nonexistent"], "is not a directory"),
    (["ls", "--no-such-flag"], "unrecognized arguments"),
    (["ls", "--cwd", "/x" * 3000], "the path has 6,000 bytes, and the system takes at most 4,095"),
    # what an unset variable leaves names nothing, and not something else instead
    (["--host", ""], "argument --host: must not be empty"),
    (["--path", ""], "argument --path: must not be empty"),
    (["ls", "--cwd", ""], "argument --cwd: must not be empty"),
    (["ls", "--settings", ""], "argument --settings: must not be empty"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_INPUT)
def test_bad_input_is_one_clear_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    answer = run(tmp_path, "check", *arguments)
    assert answer.returncode == 2
    assert message in answer.stderr.decode()
    assert "Traceback" not in answer.stderr.decode()


BAD_SETTINGS = [
    ("[sandbox]\nauto_alow = true\n", "did you mean `auto_allow`"),
    ("mode = 1\n", "mode"),
    ("mode = \n", "settings.toml:1"),
    ("[commands]\nallow = ['ls | sh']\n", "settings.toml:2"),
    ("[commands]\nsafe = ['ls']\n", "safe"),
]


@pytest.mark.parametrize(("text", "message"), BAD_SETTINGS)
def test_bad_settings_decide_nothing(tmp_path: Path, text: str, message: str) -> None:
    answer = run(tmp_path, "check", "ls", settings=text)
    assert (answer.returncode, answer.stdout) == (2, b"")
    assert message in answer.stderr.decode()
    assert "^" in answer.stderr.decode()


def test_an_unreadable_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / ".pinfold").mkdir()
    (tmp_path / ".pinfold/settings.toml").mkdir()
    answer = run(tmp_path, "check", "ls")
    assert answer.returncode == 2
    assert b"directory" in answer.stderr
    assert b"Traceback" not in answer.stderr


def test_json_has_the_shape_that_is_promised(tmp_path: Path) -> None:
    answer = run(tmp_path, "check", "--json", "make && git push", settings=RULES)
    told = json.loads(answer.stdout)
    assert set(told) == {
        "decision", "level", "sandboxed", "reasons", "commands", "candidates", "policy", "widening",
        "foreseen", "notices",
    }  # fmt: skip
    assert (told["decision"], told["level"]) == ("deny", 10)
    (reason,) = told["reasons"]
    assert (reason["step"], reason["rule"], reason["span"]) == ("denied", "git push", [8, 16])
    assert reason["where"].endswith("settings.toml:3")
    assert [command["argv"] for command in told["commands"]] == [["make"], ["git", "push"]]
    assert told["policy"]["type"] == "WORKSPACE_READWRITE"


def test_what_the_line_will_want_is_told(tmp_path: Path) -> None:
    line = "git init && pip install requests; curl https://a.example/x"
    named = (
        "git writes; connect to pypi.org:443; connect to files.pythonhosted.org:443; connect to a.example:443"
    )
    told = run(tmp_path, "check", line).stdout.decode()
    assert told.rstrip().endswith(f"; it will want: {named}"), told
    told = " ".join(run(tmp_path, "explain", line).stdout.decode().split())
    assert f"It will want: {named}." in told, told
    told = json.loads(run(tmp_path, "check", "--json", line).stdout)["foreseen"]
    assert told[0] == {"field": "block_git_writes", "value": "false"} and len(told) == 4, told
    assert "want" not in run(tmp_path, "check", "make").stdout.decode()


HOSTILE = [
    "a" * 10_001,
    "x" * 200_000 if os.sysconf("SC_ARG_MAX") > 400_000 else "x" * 20_000,
    "(" * 500 + "ls" + ")" * 500,
    '"$(' * 500 + "ls" + ')"' * 500,
    "{ " * 500 + "ls; " + "}; " * 500,
    " && ".join(["ls"] * 60),
    "echo $((" + "(" * 500 + "1" + ")" * 500 + "))",
    "\x1b[2J\u202e\u200b ls",
    "if " * 300,
    "<<A <<B <<C",
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_get_an_answer(tmp_path: Path, line: str) -> None:
    if len(line) > 100_000:
        line = line[:100_000]  # one argument may have 128 KiB
    for verb in ("check", "explain"):
        answer = run(tmp_path, verb, line)
        assert answer.returncode in (0, 10, 11)
        assert b"Traceback" not in answer.stderr
        assert b"\x1b" not in answer.stdout
        assert "\u202e" not in answer.stdout.decode()


def test_nothing_invisible_reaches_a_terminal_in_json_or_complaints(tmp_path: Path) -> None:
    hostile = "echo '\x7f\x9b31m\u202e\u200b\U000e0041\u2028' 'é 漢'"
    answer = run(tmp_path, "check", "--json", hostile).stdout.decode()
    assert first_invisible(answer.replace("\n", "")) == "" and "é 漢" in answer
    assert json.loads(answer)["commands"][0]["argv"][1] == hostile.split("'")[1]
    nowhere = str(tmp_path / "\x1b]0;x\x07\u202e" / "socket")
    complaint = run(tmp_path, "serve", "--socket", nowhere).stderr.decode()
    assert first_invisible(complaint.replace("\n", "")) == "" and r"\x1b]0;x\x07\u202e" in complaint


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    for verb in ("check", "explain"):
        for flags in ([], ["--json"]):
            answer = run(tmp_path, verb, b"ls \xff\xfe", *flags, settings='[commands]\ndeny = ["rm"]\n')
            assert answer.returncode == 10
            assert b"Traceback" not in answer.stderr


def test_a_line_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("")
    answer = subprocess.run(
        [PINFOLD, "check", "--settings", str(tmp_path / "s.toml"), "-"],
        input=b"ls\nsudo x\n\0",
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 11
    assert b"NUL" in answer.stdout


def test_an_answer_that_cannot_be_told_is_no_allow(tmp_path: Path) -> None:
    for redirection in (">&-", "> /dev/full", "| true"):
        line = f"set -o pipefail; {PINFOLD} check --json --settings /dev/null ls {redirection}"
        answer = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, check=False)
        assert answer.returncode in ((0, 125) if "true" in redirection else (125,))
        assert b"Traceback" not in answer.stderr
        assert answer.stderr.count(b"cannot write the answer") == ("true" not in redirection)


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    line = f"mkdir gone; cd gone; rmdir ../gone; {PINFOLD} check ls"
    answer = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    assert answer.returncode == 2
    assert b"the working directory no longer exists" in answer.stderr


def test_standard_input_that_is_closed(tmp_path: Path) -> None:
    answer = subprocess.run(
        ["bash", "-c", f"{PINFOLD} check - <&-"], cwd=tmp_path, capture_output=True, check=False
    )
    assert answer.returncode == 2
    assert b"standard input is closed" in answer.stderr


def test_standard_error_that_is_closed(tmp_path: Path) -> None:
    line = (
        f"{PINFOLD} check ls 2>&-; {PINFOLD} check ls <&- 2>&-; {PINFOLD} run -c 'echo hi; echo no >&2' 2>&-"
    )
    answer = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    allowed = b"allow: covered by `ls`\n"
    assert (answer.returncode, answer.stdout) == (0, allowed + allowed + b"hi\n")


def test_a_hook_whose_input_is_closed_blocks_and_says_why(tmp_path: Path) -> None:
    line = f"exec {PINFOLD} hook claude-code <&-"
    answer = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    assert (answer.returncode, answer.stdout) == (2, b"")
    assert b"standard input or output cannot be used" in answer.stderr


def test_errors_are_json_where_answers_are(tmp_path: Path) -> None:
    answer = run(tmp_path, "check", "--json", "ls", settings="[sandbox]\nauto_alow = true\n")
    assert answer.returncode == 2
    assert "auto_alow" in json.loads(answer.stdout)["error"]["message"]


def test_explain_draws_and_names(tmp_path: Path) -> None:
    told = run(tmp_path, "explain", "make &&\ngit push", settings=RULES).stdout.decode()
    assert told.splitlines()[0] == "deny"
    assert told.count("  git push\n  ^^^^^^^^\n") == 2, "once in the whole, once with the reason"
    assert told.count("make &&") == 1
    words = run(tmp_path, "explain", "--", "git", "push", "two words", settings=RULES).stdout.decode()
    assert "  git push 'two words'\n  ^^^^^^^^^^^^^^^^^^^^\n" in words
    assert "matches the deny rule `git push`" in told
    assert "settings.toml:3" in told
    assert "to change it" in told


def test_explain_says_what_is_asked_while_the_command_runs(tmp_path: Path) -> None:
    def later(settings: str, line: str = "make && curl h.example") -> str:
        told = run(tmp_path, "explain", line, settings=settings).stdout.decode()
        return " ".join(told.partition("While it runs, ")[2].split())

    asked = "pinfold asks you before it "
    hosts, git = "connects to a host that is not in `network.allow`", "writes to `.git`"
    outside = "writes outside the project."
    assert later("") == f"{asked}{hosts}, {git} or {outside}"
    assert later('network.access = "none"\nfilesystem.git_writes = true\n') == f"{asked}{outside}"
    assert later("filesystem.ask = false\n") == f"{asked}{hosts}."
    assert later('filesystem.ask = false\nnetwork.access = "rules"\n') == ""
    assert later(RULES, "git push") == "", "it does not run"


def test_explain_offers_candidates(tmp_path: Path) -> None:
    told = run(tmp_path, "explain", "mytool x", settings="[sandbox]\nenabled = false\n").stdout.decode()
    assert "pinfold rules add allow mytool" in told


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    assert b"\x1b" not in run(tmp_path, "explain", "git push", settings=RULES).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "usage: pinfold VERB"),
        (["--help"], 0, "usage: pinfold VERB"),
        (["--version"], 0, "pinfold 0."),
        (["chek"], 2, "did you mean `check`?"),
        (["zzz"], 2, "the verbs are: run, learn, check"),
        (["check", "--help"], 0, "usage: pinfold check"),
        (["check", "--nope", "ls"], 2, "pinfold: unrecognized arguments: --nope"),
        (["check", "--network", "nope", "ls"], 2, "help: see `pinfold check --help`"),
        (["explain"], 2, "help: see `pinfold explain --help`"),
        (["rules", "add", "deyn", "ls"], 2, "help: see `pinfold rules add --help`"),
        (["rules", "add", "deny", "git", "push"], 2, "help: see `pinfold rules add --help`"),
    ],
)
def test_the_verbs(arguments: list[str], code: int, text: str) -> None:
    answer = subprocess.run([PINFOLD, *arguments], capture_output=True, text=True, check=False)
    assert answer.returncode == code
    assert text in answer.stdout + answer.stderr


def test_wrong_arguments_are_told_in_json_too() -> None:
    answer = subprocess.run(
        [PINFOLD, "check", "--json", "--nope", "ls"], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (2, "")
    assert "--nope" in json.loads(answer.stdout)["error"]["message"]


@pytest.mark.parametrize("columns", [60, 80])
def test_help_fits_the_terminal(columns: int) -> None:
    environ = {**os.environ, "COLUMNS": str(columns)}
    for verb in (
        [],
        *([name] for name in VERBS),
        ["rules", "add"],
        ["approvals", "revoke"],
        ["journal", "list"],
    ):
        command = [PINFOLD, *verb, "--help"]
        told = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
        assert max(map(len, told.splitlines())) <= columns, told


def test_an_interrupt_while_a_verb_is_loaded_is_no_traceback() -> None:
    early = (
        "import sys, pinfold.cli as cli\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "cli.main = interrupted\n"
        "sys.argv = ['pinfold', 'status']\n"
        "cli.entry()"
    )
    answer = subprocess.run([sys.executable, "-c", early], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (130, "")
