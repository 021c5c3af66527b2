"""The invariant of `model.script`, asked of bash itself.

Random scripts run in an empty directory with a PATH of harmless stubs that log how they were called. Every
call must be among the commands that `parse` lists, or `parse` must have said that something unknown runs.
"""

import os
import random

import pytest
from tests.shell.grammar import Grammar
from tests.shell.oracle import STUBS, explains, is_open, make_stubs, run

from pinfold.shell import Parser, parse

pytestmark = pytest.mark.slow

SCRIPTS = 250
EXPANDED = 400


class Writer:
    """Writes random scripts of a grammar that covers what people and attackers write."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def quoted(self, text: str) -> str:
        kind = self.chance.randrange(4)
        if kind == 0:
            return "'" + text.replace("'", "'\\''") + "'"
        if kind == 1:
            return '"' + "".join("\\" + c if c in '$`"\\' else c for c in text) + '"'
        if kind == 2:
            return "$'" + "".join(self.ansi(c) for c in text) + "'"
        return (
            "".join("\\" + c if not c.isalnum() and c != "\n" else c for c in text)
            if "\n" not in text
            else ("'" + text.replace("'", "'\\''") + "'")
        )

    def ansi(self, c: str) -> str:
        if c in "'\\":
            return "\\" + c
        return f"\\x{ord(c):02x}" if c.isascii() and self.chance.random() < 0.3 else c

    def name(self) -> str:
        name = self.chance.choice(STUBS)
        kind = self.chance.randrange(8)
        if kind == 0:
            return self.quoted(name)
        if kind == 1:
            return "\\" + name
        if kind == 2:
            return name[0] + "''" + name[1:]
        return name

    def word(self, depth: int) -> str:
        kind = self.chance.randrange(16)
        self.count += 1
        if kind < 5:
            return f"{self.pick('a', 'b', '-x', '--k=v', './f')}{self.count}"
        if kind < 8:
            return self.quoted(
                self.pick("a b", "it's", 'say "x"', "$x", "*", "a\\b", "{a,b}", "# no", "; q z")
            )
        if kind == 8:
            return self.pick(
                "{a,b}", "x{1..3}", "{p,{q,r}}z", "{a}", "'{'a,b}", "{a,b}{c,d}", "{,x}", "a{b,c"
            )
        if kind == 9:
            return self.pick(
                "$v", '"$v"', "${v}", "${v:-d}", '"${v:+e}"', "$HOME", "~/x", "$((1+2))", "*.none"
            )
        if kind == 10 and depth:
            return f'"$({self.line(depth - 1)})"'
        if kind == 11 and depth:
            return f"$({self.line(depth - 1)})"
        if kind == 12 and depth:
            return f"`{self.simple(0)}`"
        if kind == 13 and depth:
            return f"${{v:-$({self.line(depth - 1)})}}"
        if kind == 14 and depth:
            return f"<({self.line(depth - 1)})"
        return self.pick("a\\\nb", '"a\\\nb"', "é", "a#b", "=", "a=b", "[x]", "x?", "%s", "'a'\"b\"c")

    def simple(self, depth: int) -> str:
        words = [self.name(), *(self.word(depth) for _ in range(self.chance.randrange(4)))]
        if self.chance.random() < 0.15:
            words.insert(0, self.pick("A=1", "A='x y'", "A=$(p sub)", "A= "))
        if self.chance.random() < 0.15:
            words.insert(self.chance.randrange(len(words) + 1) or 1, self.pick(
                ">o1", "2>&1", ">>o2", "</dev/null", "&>o3", ">|o4", "2>/dev/null", "<<<x", "<<<\"$(q h)\""))  # fmt: skip  # noqa: E501
        return " ".join(words)

    def wrapped(self, depth: int) -> str:
        inner = self.simple(depth)
        kind = self.chance.randrange(13)
        if kind < 6:
            wrapper = self.pick(
                "env", "env A=1", "timeout 5", "nice", "nice -n 3", "command", "nohup", "stdbuf -o0",
                "env -u X timeout 9", "time", "!", "command --", "env -i", "timeout -s KILL 5", "command -p",
            )  # fmt: skip
            if wrapper in ("time", "!"):
                return f"{wrapper} {inner}"
            return f"{wrapper} {self.chance.choice(STUBS)} {self.word(depth)}"
        script = self.line(max(depth - 1, 0))
        if kind < 8:
            return f"{self.pick('bash', 'sh', 'bash -e', 'env bash')} -c {self.quoted(self.posix(depth))}"
        if kind < 10:
            return f"{self.pick('eval', 'builtin eval', 'command eval', 'eval --')} {self.quoted(script)}"
        if kind == 10:
            return f"printf '%s\\n' 'a b' | xargs {self.pick('', '-n1 ', '-I{} ')}{self.chance.choice(STUBS)} {{}}"  # noqa: E501
        if kind == 11:
            return f"(trap {self.quoted(script)} EXIT; {self.simple(0)})"
        return f"(exec {self.chance.choice(STUBS)} {self.word(depth)})"

    def posix(self, depth: int) -> str:
        return (
            f"{self.chance.choice(STUBS)} {self.word(0)}; {self.chance.choice(STUBS)} z{self.count}"
            if depth
            else "q"
        )

    def compound(self, depth: int) -> str:
        a, b = self.line(depth - 1), self.line(depth - 1)
        self.count += 1
        n = self.count
        return self.pick(
            f"if {a}; then {b}; else {self.simple(0)}; fi",
            f"for v in a b; do {a}; done",
            f"for ((i=0; i<2; i++)); do {a}; done",
            f"while {a}; do {b}; break; done",
            f"until {a}; do {b}; break; done",
            f"case x in y) {a};; x|z) {b};; esac",
            f"case x in x) {a};& y) {b};; esac",
            f"{{ {a}; }}",
            f"({a})",
            f"( {a}; {b} ) >o5",
            f"f{n}() {{ {a}; }}; f{n}",
            f"function g{n} {{ {a}; }}; {b}; g{n} x",
            f"ls() {{ command q in-ls; }}; ls y; unset -f ls; {a}",
            f"{a} && {b}",
            f"{a} || {b}",
            f"{a} | {b}",
            f"{a} |& {b}",
            f"{{ {a}; }} & wait",
            f"! {{ {a}; }}",
            f"[[ -n $({a}) ]] && {b}",
            f"v=$({a}); {b}",
            f"v=({self.word(0)} $({a}))",
            f"x=q; p $x; {a}",
            f"cat() {{ :; }}; cat <<E\n$({a}) `q y`\nE\n{b}",
            f"bash <<'E'\n{self.posix(1)}\nE\n{b}",
            f"p <<-'E'\n\t$(r no)\n\tE\n{b}",
            f"sh -s <<< {self.quoted(self.posix(1))}; {b}",
            f"coproc {{ {a}; }}; wait; {b}",
            f"shopt -s expand_aliases\nalias al{n}={self.quoted(f'q al{n}')}\nal{n} z\n{a}",
            f"export V='x y'; p $V; {a}",
            f'declare w=$({a}); p "$w"',
            f"cd . && {a}; {b}",
            f"((1+1)) && {a}",
            f"p {{fd}}>o6; {a}",
            f"# q no\n{a} # r no\n{b}",
            f'set -- a b; p "$@" $#; {a}',
        )

    def line(self, depth: int) -> str:
        kind = self.chance.randrange(10)
        if depth and kind < 5:
            return self.compound(depth)
        if depth and kind < 7:
            return self.wrapped(depth)
        return self.simple(depth)

    def script(self) -> str:
        return self.pick("; ", "\n").join(self.line(2) for _ in range(self.chance.randint(1, 3)))


@pytest.fixture
def arena(tmp_path: os.PathLike[str]) -> str:
    root = str(tmp_path)
    make_stubs(root)
    return root


@pytest.mark.parametrize("seed", range(SCRIPTS // 50))
def test_every_started_program_is_listed(seed: int, arena: str) -> None:
    closed = 0
    with Parser(warm=True) as parser:
        for number in range(50):
            text = Writer(seed * 1000 + number).script()
            script = parse(text, parser=parser)
            if is_open(script):
                continue
            closed += 1
            for argv in run(text, arena):
                assert explains(script, argv), f"{argv} is not listed for:\n{text}"
    assert closed >= 15


TOKENS = [
    "p", "q a", "r", "ls x", "p b ", " ", " ", " ", "; ", ";", "\n", "\n", "&", "&&", "||", "|", "(", ")", "{ ",  # noqa: E501
    "; }", "$(", ")", "`", "`", '"', '"', "'", "'", "\\", "\\\n", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "\n\tE\n",  # noqa: E501
    "$'", '$"', "((", "))", "$((", "[[ ", "]]", "#", " #", "=", "v=", "<(", "! ", "time ", "coproc ", "g() ", "g",  # noqa: E501
    "if ", "then ", "fi\n", "case x in x) ", ";;esac\n", "for i in a; do ", "done\n", "{a,b}", "${v:-", "}", "$v",  # noqa: E501
    "*", "~", "\t", "eval ", "'q e'", "bash -c ", "2>&1 ", ">o ", "<<<", "a[", "]", "@(", "!(", "\\'", '\\"', "$",  # noqa: E501
    "shopt -s extglob\n", "declare ", "x=(", "trap 'q t' EXIT\n", "alias g=p\n", "shopt -s expand_aliases\n",
]  # fmt: skip
"""Pieces that make nonsense more often than not: where bash and shfmt part ways, if they do."""


def test_nonsense_hides_nothing(arena: str) -> None:
    with Parser(warm=True) as parser:
        for seed in range(1500):
            chance = random.Random(seed)
            text = "".join(chance.choices(TOKENS, k=chance.randint(3, 14)))
            script = parse(text, parser=parser)
            if is_open(script):
                continue
            for argv in run(text, arena):
                assert explains(script, argv), f"{argv} is not listed for:\n{text}"


def test_nothing_expands_unseen(arena: str) -> None:
    """`python -m tests.shell.fuzz` goes on with it for as long as one likes."""
    closed = 0
    with Parser(warm=True) as parser:
        for seed in range(EXPANDED):
            text = Grammar(seed).script()
            script = parse(text, parser=parser)
            if is_open(script):
                continue
            closed += 1
            for argv in run(text, arena):
                assert explains(script, argv), f"{argv} is not listed for:\n{text}"
    assert closed >= EXPANDED // 8
