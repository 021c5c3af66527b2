"""The index of rules leaves out none that speaks of a command."""

import random

import pytest

from pinfold import shell
from pinfold.model.script import Command
from pinfold.model.settings import Rule
from pinfold.model.text_positions import Origin
from pinfold.policy import rules
from pinfold.policy.rule_operands import RuleMatch
from pinfold.policy.rules import RuleIndex, restrictive_match
from pinfold.shell.rule_text import shape
from tests.shell.grammar import Grammar

NAMES = (
    "git push", "git", "npm publish", "rm -rf", "sh", "bash -c", "[ x", "./tool run", "/usr/bin/make",
    "a,b x", "kubectl delete", "pip install", "python -m pip", "docker", "p", "q 1", "r",
    "my-tool.sh deploy", "x@y go", "'a b' c", "env", "time", "eval", "chmod 777",
)  # fmt: skip
RULES = tuple(Rule(text, shape(text), Origin("user")) for text in NAMES)
PIECES = (
    "echo 'x: git push' | x", "printf '@git push\n-rm -rf x' | python3", "x <<< '+git: push'",
    "echo 'git push' > Makefile; make",
    "nodejs x", "npm it", "docker container run x",
    "git push", "git", "/bin/git push", "x git push", "x 'git push'", "x '[\"git\", \"push\"]'",
    "x \"/opt/git push\"", "X='git push' x", "env X='a;git push' tar", "python3 -c 'git push'",
    "echo 'git push' | x", "x <<< 'git push'", "npm publish", "\"$X\" push", "$X git push", "~/git push",
    "./tool run", "tool run", "make", "/usr/bin/make x", "[ x = y ]", "x '(git push)'", "x `git push`",
    "x {git,push}", "x 'a,b x'", "a,b x", "x git\\ push", "python -m pip install x", "timeout 5 docker ps",
    "x@y go", "x 'x@y go'", "x 'a b' c", "'a b' c", "xargs p", "find . -exec q 1 ;",
    "bash -c 'r; my-tool.sh deploy'", "x !git push", "x a=git push", "perl -e 'system(\"git\", \"push\")'",
    "x -c 'exec(shell git push)'", "sudo chmod 0777 x", "ssh h git push", "parallel git push ::: x",
    "python \"$(which pip)\" install x",
)  # fmt: skip


def commands() -> list[Command]:
    chance = random.Random(1)
    lines = [" ; ".join(chance.choices(PIECES, k=chance.randint(1, 3))) for _ in range(300)]
    lines += [*PIECES, *(Grammar(seed).script() for seed in range(300))]
    return [command for line in lines for command in shell.parse(line).commands]


def test_no_rule_that_matches_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_COMPARED_ONE_BY_ONE", 0)
    index = RuleIndex(RULES)
    matched = 0
    for command in commands():
        speaking = [rule for rule in RULES if restrictive_match(rule.shape, command) is not RuleMatch.NO]
        candidates = index.candidates(command)
        assert [rule for rule in candidates if rule in speaking] == speaking, command.text
        matched += len(speaking)
    assert matched > 300


def test_others_are_left_out() -> None:
    many = tuple(Rule(f"p{n} x", shape(f"p{n} x"), Origin("user")) for n in range(1000))
    (command,) = shell.parse("p7 x").commands
    assert [rule.text for rule in RuleIndex(many).candidates(command)] == ["p7 x"]
