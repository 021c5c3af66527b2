"""Whether a rule speaks of a command: restrictive rules reach far, permissive ones do not."""

import pytest

from pinfold import shell
from pinfold.policy.rule_operands import RuleMatch
from pinfold.policy.rules import names, restrictive_match
from pinfold.shell.rule_text import shape

YES, MAYBE, NO = RuleMatch.YES, RuleMatch.MAYBE, RuleMatch.NO

RESTRICTIVE = [
    ("rm -rf", "rm -rf x", YES),
    ("rm -rf", "rm -fr x", YES),
    ("rm -rf", "rm x -r -f", YES),
    ("rm -rf", "rm --recursive x", YES),
    ("rm -rf", "/bin/rm -R x", YES),
    ("rm -rf", "rm x", NO),
    ("rm -rf", 'rm "$X"', MAYBE),
    ("rm -rf", "rm ./$X", NO),
    ("rm -rf", "rmdir -rf x", NO),
    ("git push", "git push", YES),
    ("git push", "git -C x push origin", YES),
    ("git push", "git log push", NO),
    ("git push", "gitpush", NO),
    ("git yolo", "git yolo", YES),
    ("git push", "git yolo", MAYBE),
    ("sometool run", "sometool -v run", YES),
    ("sometool run", "sometool -o x run", YES),
    ("sometool run", "sometool stop run", NO),
    ("sometool run", 'sometool "$X"', MAYBE),
    ("npm:*", "npm ci", YES),
    ("npm:*", "npmx ci", NO),
]


@pytest.mark.parametrize(("rule", "line", "match"), RESTRICTIVE)
def test_restrictive(rule: str, line: str, match: RuleMatch) -> None:
    assert restrictive_match(shape(rule), shell.parse(line).commands[0]) is match


PERMISSIVE = [
    ("npm", "npm ci", True),
    ("npm", "npm", True),
    ("npm:*", "npm ci", True),
    ("npm", "npmx", False),
    ("npm run test", "npm run test --watch", True),
    ("npm run test", "npm run tests", False),
    ("npm run test", "npm --silent run test", False),
    ("ls", "/usr/bin/ls", True),
    ("ls", "./ls", False),
    ("ls", "/tmp/ls", False),
    ("./gradlew test", "./gradlew test", True),
    ("ls", "$X", False),
    ("git status", 'git "$X"', False),
]


@pytest.mark.parametrize(("rule", "line", "named"), PERMISSIVE)
def test_permissive(rule: str, line: str, named: bool) -> None:
    assert names(shape(rule), shell.parse(line).commands[0]) is named
