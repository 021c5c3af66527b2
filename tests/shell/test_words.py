"""Quoting, braces, tildes and patterns: a table, and bash itself asked about random words."""

import os
import random
import shutil
import subprocess

import pytest

from pinfold.model.script import Computed, Defaulted, Glob, Home, Part, Text, Variable, Word
from pinfold.shell import Parser, parse
from pinfold.shell.quotes import undo_ansi_c, undo_double


def words_of(text: str) -> tuple[Word, ...]:
    script = parse(f"echo {text}")
    assert not script.problem, script.problem
    return script.commands[-1].words[1:]


LITERAL = [
    # plain and quoted
    ("a", ["a"]),
    ("'a b'", ["a b"]),
    ("r''m", ["rm"]),
    ("\\rm", ["rm"]),
    ('"a\\"b\\$c\\`d\\\\e\\f"', ['a"b$c`d\\e\\f']),
    ("a\\\nb", ["ab"]),
    ('"a\\\nb"', ["ab"]),
    ("''", [""]),
    ('""', [""]),
    ('-e"x"ec', ["-exec"]),
    # $'...'
    ("$'\\x72\\x6d'", ["rm"]),
    ("$'\\162m'", ["rm"]),
    ("$'\\u00e9\\U0001F600'", ["é😀"]),
    ("$'\\xc3\\xa9'", ["é"]),
    ("$'a\\'b\\\"c\\\\'", ["a'b\"c\\"]),
    ("$'\\cA\\e\\n'", ["\x01\x1b\n"]),
    ("$'a\\0b'c", ["ac"]),
    ("$'\\q'", ["\\q"]),
    ('$"hi"', ["hi"]),
    # braces
    ("{rm,-rf,v}", ["rm", "-rf", "v"]),
    ("a{b,c}d", ["abd", "acd"]),
    ("{a,{b,c}}", ["a", "b", "c"]),
    ("{{a,b}}", ["{a}", "{b}"]),
    ("{a}", ["{a}"]),
    ("{}", ["{}"]),
    ("{a,b", ["{a,b"]),
    ("{1..3}", ["1", "2", "3"]),
    ("{01..3}", ["01", "02", "03"]),
    ("{3..1..2}", ["3", "1"]),
    ("{a..c}", ["a", "b", "c"]),
    ("-{i,n}", ["-i", "-n"]),
    ("{,a}", ["a"]),
    ("''{,a}", ["", "a"]),
    ("'{a,b}'", ["{a,b}"]),
    ("\\{a,b}", ["{a,b}"]),
    # blanks that are none
    ("a\u00a0b", ["a\u00a0b"]),
]


@pytest.mark.parametrize(("text", "expected"), LITERAL)
def test_literal(text: str, expected: list[str]) -> None:
    assert [word.literal for word in words_of(text)] == expected


PARTS: list[tuple[str, list[tuple[Part, ...]]]] = [
    # variables
    ("$HOME/x", [(Variable("HOME", False), Text("/x"))]),
    ('"${HOME}"', [(Variable("HOME", True),)]),
    ("$1", [(Computed("shell parameter", False),)]),
    ('"$@"', [(Computed("shell parameter", False),)]),
    ('"${x:-a}"', [(Defaulted("parameter expansion", True, name="x", default="a"),)]),
    ("${x:-$y}", [(Computed("parameter expansion", False),)]),
    ("$(a)", [(Computed("command substitution", False),)]),
    ('"`a`"', [(Computed("command substitution", True),)]),
    ("<(a)", [(Computed("process substitution", False),)]),
    # tilde
    ("~", [(Home(),)]),
    ("~/x", [(Home(), Text("/x"))]),
    ("~bob/x", [(Home("bob"), Text("/x"))]),
    ("a~", [(Text("a~"),)]),
    ("'~'", [(Text("~"),)]),
    ("~+/x", [(Computed("directory stack", True), Text("/x"))]),
    ("k=~/x:~/y", [(Text("k="), Home(), Text("/x:"), Home(), Text("/y"))]),
    ("--k=~/x", [(Text("--k=~/x"),)]),
    ("{~,x}/y", [(Home(), Text("/y")), (Text("x/y"),)]),
    # patterns
    ("*.ts", [(Glob("*"), Text(".ts"))]),
    ("r[m]", [(Text("r"), Glob("[m]"))]),
    ("'*'\\?", [(Text("*?"),)]),
    ("[a", [(Text("[a"),)]),
    ("@(a|b)", [(Glob("@(a|b)"),)]),
    ("{1..9999}", [(Computed("brace expansion", False),)]),
]


@pytest.mark.parametrize(("text", "expected"), PARTS)
def test_parts(text: str, expected: list[tuple[Part, ...]]) -> None:
    assert [word.parts for word in words_of(text)] == expected


def test_a_variable_that_the_line_sets_is_computed() -> None:
    script = parse("echo $x; eval 'x=1'")
    assert script.commands[0].words[1].parts == (Computed("variable set in this line", False),)


def test_ifs_splits_until_it_is_assigned() -> None:
    assert [w.literal for w in parse("rm${IFS}-rf$IFS'v'").commands[0].words] == ["rm", "-rf", "v"]
    assert parse("IFS=,; rm${IFS}-rf").commands[1].words[0].literal is None


def test_undoing_odd_escapes_is_refused_not_guessed() -> None:
    assert undo_ansi_c("\\x{41}") is None
    assert undo_ansi_c("\\xff") is None
    assert undo_ansi_c("\\ud800") is None
    assert undo_double("a\\") == "a\\"


PIECES = [
    "a", "b c", "rm", "-", "1", "é", "'", '"', "\\", "\\\\", "\\'", '\\"', "''", '""', "'x y'", '"x y"',
    "$'", "\\x41", "\\101", "\\n", "\\u263a", "\\cA", "\\e", "'\\''", '"\\$x"', '"\\q"', "\\\n", "{", "}", ",",  # noqa: E501
    "{a,b}", "{1..3}", "{x..z..2}", "{02..4}", "..", "{}", "{,}", "$", "#", "!", "~", "=", ":", "/", "[", "]",
    "*", "?", "%", "^", "@", "+", "\t", "{-2..2}", "{2..-2..3}", "\\{", '"{"', "\\,", "$'\\''", '$"t"', "`", "\\`",  # noqa: E501
]  # fmt: skip
BASH = shutil.which("bash") or "/bin/bash"
DRIVER = """
while IFS= read -r -d '' word; do
  ( eval "printf '%s\\0' $word" ) 2>/dev/null && printf 'OK\\0' || printf 'NO\\0'
  printf '\\n\\n\\0'
done
"""


def ask_bash(words: list[str], folder: str) -> list[list[str] | None]:
    """What bash makes of each word, or None where it refuses it."""
    found = subprocess.run(
        [BASH, "--norc", "--noprofile", "-c", DRIVER],
        input="".join(word + "\0" for word in words).encode(),
        capture_output=True,
        cwd=folder,
        env={"LC_ALL": "C.UTF-8", "HOME": "/home/x", "PATH": "/nowhere"},
        timeout=60,
        check=True,
    )
    answers: list[list[str] | None] = []
    for answer in found.stdout.decode(errors="surrogateescape").split("\n\n\0")[:-1]:
        *values, verdict = answer.split("\0")[:-1]
        answers.append(values if verdict == "OK" else None)
    return answers


@pytest.mark.slow
def test_bash_agrees_about_words(tmp_path: os.PathLike[str]) -> None:
    chance = random.Random(20261115)
    words = ["".join(chance.choices(PIECES, k=chance.randint(1, 6))) for _ in range(1500)]
    words = [word for word in words if "`" not in word.replace("\\`", "")]
    answers = ask_bash(words, str(tmp_path))
    compared = 0
    with Parser(warm=True) as parser:
        for word, answer in zip(words, answers, strict=True):
            script = parse(f"printf '%s\\0' {word}", parser=parser)
            if answer is None or script.problem or len(script.commands) != 1:
                continue
            read = script.commands[0].words[2:]
            if all(w.literal is not None for w in read):
                compared += 1
                ours = [w.literal for w in read] or [""]
                assert ours == answer, (word, ours, answer)
    assert compared > 500
