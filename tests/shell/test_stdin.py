"""What commands read, as far as the line says it."""

import pytest

from pinfold.model.script import Command
from pinfold.shell.parse import parse
from pinfold.shell.stdin import given_texts, is_made_by_a_command

TEXTS = [
    ("echo a b | x", ["a b\n"]),
    ("echo -n a | x", ["a"]),
    ("echo -e 'a\\nb' | x", ["a\nb\n"]),
    ("printf 'a\\tb%%\\n' | x", ["a\tb%\n"]),
    ("printf '%s\\n' a b | x", ["a\nb\n"]),
    ("printf 'a%s\\n' | x", ["a\n"]),
    ("cat <<E | x\na\nE", ["a\n"]),
    ("echo a | env x", ["a\n"]),
    ("echo a | { y; x; }", ["a\n"]),
    ("{ x; } <<< a", ["a"]),
    ("(x) <<< a", ["a"]),
    ("while x; do y; done <<< a", ["a"]),
    ("echo a | sh -c x", ["a\n"]),
    ("echo a | eval x", ["a\n"]),
    ("x <<< a 3<<< b", ["a"]),
    ("echo a | x 3<<< b", ["a\n"]),
    ("cat -n f | x", []),
    ('cat "$f" | x', []),
    ("echo a | x <<< b", ["b"]),
    ("echo a | { x <<< b; }", ["b"]),
    ("cat f | x", []),
    ("echo a | y; x", []),
    ("{ y; } <<< a; x", []),
    ("x < f", []),
]


def command(text: str) -> Command:
    return next(c for c in parse(text).commands if c.words and c.words[0].literal == "x")


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_texts_that_stand_in_the_line(text: str, expected: list[str]) -> None:
    fed = command(text).inputs
    assert [word.literal for word in given_texts(fed)] == expected
    assert not any(map(is_made_by_a_command, fed))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "y | x",
            "echo -E a | x",
            "echo -e 'a\\x41' | x",
            "echo $(y) | x",
            "printf '\\x21' | x",
            "printf %d 1 | x",
            "echo a | y | x",
        ),
        *("cat | x", "cat - | x", "cat <(y) | x", "cat /dev/fd/3 | x", "(echo a) | x", "A=b echo a | x"),
        *(
            "echo a > f | x",
            "cat() { echo a; }; cat f | x",
            "x < <(y)",
            "x <<< a 3< <(y) <&3",
            "x < /dev/fd/3",
        ),
        *("exec <<< a; x", "echo b | { { exec <<< a; }; x; }", "echo b | { : && exec <<< a; x; }"),
        *("echo b | { exec <<< a & x; }", "echo b | { : $(exec <<< a); x; }", "exec <<< a; echo b | { x; }"),
        *("f() { exec <<< a; }; echo b | { f; x; }", "echo b | { eval 'exec <<< a'; x; }"),
        *("echo b | { command exec <<< a; x; }", "echo b | { while x; do exec <<< a; done; }"),
        *("echo b | x 0>&3", "echo b | x 00<&3", "x < //dev/stdin", "x < /dev/./fd/3"),
        *("cat 3<<E | x\na\nE", "cat -u | x", "cat $f | x", "cat //dev/stdin | x", "echo 'a\\E' | x"),
        *("printf -- a | x", "printf -v a b | x"),
        *("f() { x; }; f <<< a", "coproc x", "echo a > >(x)", "v=a; x <<< $v", "x <<< `y`"),
    ],
)
def test_what_is_made_while_the_line_runs(text: str) -> None:
    assert any(map(is_made_by_a_command, command(text).inputs))
