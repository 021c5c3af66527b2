"""Rules, in the form in which they are compared."""

import pytest

from pinfold.shell.rule_text import shape


@pytest.mark.parametrize(
    ("text", "program", "words", "flags", "operands"),
    [
        # a program, and whatever follows
        ("npm", "npm", "npm", "", ""),
        ("npm:*", "npm", "npm", "", ""),
        ("npm *", "npm", "npm", "", ""),
        ("npm run test", "npm", "npm run test", "", "run test"),
        ("npm run test:*", "npm", "npm run test", "", "run test"),
        ("npm run test:unit", "npm", "npm run test:unit", "", "run test:unit"),
        # options in their canonical spelling; the weightless ones count only alone
        ("rm -rf", "rm", "rm -rf", "-r", ""),
        ("rm -fr", "rm", "rm -fr", "-r", ""),
        ("rm --recursive", "rm", "rm --recursive", "-r", ""),
        ("rm -f", "rm", "rm -f", "-f", ""),
        ("sed -n", "sed", "sed -n", "-n", ""),
        # subcommands
        ("git push", "git", "git push", "", "push"),
        ("git push --force", "git", "git push --force", "-f", "push"),
        ("git -C x push", "git", "git -C x push", "-C", "push"),
        # paths and versions
        ("/usr/bin/git push", "git", "/usr/bin/git push", "", "push"),
        ("python3 -m venv", "python", "python3 -m venv", "-m", ""),
        # without a chart, a cluster asks for its letters
        ("foo -rf x", "foo", "foo -rf x", "-r -f", "x"),
        ("foo --bar", "foo", "foo --bar", "--bar", ""),
        # wrappers are programs too
        ("sudo rm", "sudo", "sudo rm", "", "rm"),
    ],
)
def test_shapes(text: str, program: str, words: str, flags: str, operands: str) -> None:
    found = shape(text)
    assert found.program == program
    assert " ".join(found.words) == words
    assert " ".join(found.flags) == flags
    assert " ".join(found.operands) == operands


def test_quotes() -> None:
    assert shape("npm run 'a b'").words == ("npm", "run", "a b")
    assert shape('npm run "a | b"').words == ("npm", "run", "a | b")
    assert shape(r"npm run a\ b").words == ("npm", "run", "a b")
    assert shape("grep '*'").words == ("grep", "*")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("*", "pattern"),
        ("npm run*", "write `npm`"),
        (":*", "program"),
        ("-rf", "program"),
        ("A=1 npm", "program"),
        ("ls | wc", "`|` is shell syntax"),
        ("ls && rm", "`&` is shell syntax"),
        ("ls; rm", "`;` is shell syntax"),
        ("ls > x", "`>` is shell syntax"),
        ("ls < x", "`<` is shell syntax"),
        ("ls $X", "`$` is shell syntax"),
        ("ls `x`", "is shell syntax"),
        ("ls\nrm", "`\\n` is shell syntax"),
        ("ls 'x", "quotation"),
    ],
)
def test_no_rules(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        shape(text)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)
