"""Edits change one list and leave every other byte alone."""
# ruff: noqa: E501

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pinfold.model.errors import PolicyError
from pinfold.settings.change import add_values, with_values
from pinfold.settings.toml_edit import add_entry, add_rule, remove_entry, remove_rules

ADDED = [
    # no file, no section, no key
    ("", '[commands]\nallow = ["new"]\n'),
    ("# mine\n", '# mine\n\n[commands]\nallow = ["new"]\n'),
    ("mode = 'x'", "mode = 'x'\n\n[commands]\nallow = [\"new\"]\n"),
    ("[commands]\n\n[network]\n", '[commands]\nallow = ["new"]\n\n[network]\n'),
    ("[commands]\ndeny = [\n 'a',\n] # x\n\n# next\n[network]", "[commands]\ndeny = [\n 'a',\n] # x\nallow = [\"new\"]\n\n# next\n[network]"),
    ("commands.deny = ['a'] # x\nmode = 'y'\n", "commands.deny = ['a'] # x\ncommands.allow = [\"new\"]\nmode = 'y'\n"),
    ("commands = {}\n", 'commands = {allow = ["new"]}\n'),
    ("commands = {deny = ['a']}\n", "commands = {allow = [\"new\"], deny = ['a']}\n"),
    # lists on one line
    ("[commands]\nallow = []", '[commands]\nallow = ["new"]'),
    ("[commands]\nallow = ['a'] # x", "[commands]\nallow = ['a', \"new\"] # x"),
    ("[commands]\nallow = ['a',]", "[commands]\nallow = ['a', \"new\",]"),
    # lists on many lines
    ("[commands]\nallow = [\n  'a',\n  'b'\n]\n", "[commands]\nallow = [\n  'a',\n  'b',\n  \"new\"\n]\n"),
    ("[commands]\nallow = [\n\t'a', # one\n\t'b', # two, ]\n]\n", "[commands]\nallow = [\n\t'a', # one\n\t'b', # two, ]\n\t\"new\",\n]\n"),
    ("[commands]\nallow = [\n  'a' # one, two\n]\n", "[commands]\nallow = [\n  'a',\n  \"new\" # one, two\n]\n"),
    ("[commands]\nallow = [\n  # none yet\n]\n", '[commands]\nallow = ["new"\n  # none yet\n]\n'),
    ("[commands]\r\nallow = [\r\n  'a',\r\n]\r\n", "[commands]\r\nallow = [\r\n  'a',\r\n  \"new\",\r\n]\r\n"),
    # there already
    ("[commands]\nallow = ['new']", "[commands]\nallow = ['new']"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), ADDED)
def test_add(before: str, after: str) -> None:
    assert add_entry(before, "commands", "allow", "new") == after
    assert add_entry(after, "commands", "allow", "new") == after


REMOVED = [
    ("[commands]\nallow = ['x']", "[commands]\nallow = []"),
    ("[commands]\nallow = ['x', 'a'] # c", "[commands]\nallow = ['a'] # c"),
    ("[commands]\nallow = ['a', 'x'] # c", "[commands]\nallow = ['a'] # c"),
    ("[commands]\nallow = ['a', 'x',] # c", "[commands]\nallow = ['a', ] # c"),
    ("[commands]\nallow = ['x', 'a', 'x']", "[commands]\nallow = ['a']"),
    (
        "[commands]\nallow = [\n  'a', # one\n  'x',\n  'b',\n]\n",
        "[commands]\nallow = [\n  'a', # one\n  'b',\n]\n",
    ),
    (
        "[commands]\nallow = [\n  'a', # one, two\n  'x'\n]\n",
        "[commands]\nallow = [\n  'a' # one, two\n\n]\n",
    ),
    ("[commands]\nallow = ['a']", "[commands]\nallow = ['a']"),
    ("", ""),
]


@pytest.mark.parametrize(("before", "after"), REMOVED)
def test_remove(before: str, after: str) -> None:
    assert remove_entry(before, "commands", "allow", "x") == after


TEXT = st.text("ab \"'\\#,]é\u200b\n", min_size=1, max_size=6)
SPACE = st.sampled_from(["", " ", "\n", "\n  ", " # a, ]\n\t"])


@st.composite
def files(draw: st.DrawFn) -> str:
    entries = draw(st.lists(st.sampled_from(["'a'", '"b c"', '"""d"""', "'x'", '"\\u0061"']), max_size=4))
    pieces = [draw(SPACE) + entry + draw(SPACE) for entry in entries]
    comma: bool = draw(st.booleans())
    body = ",".join(pieces) + ("," if pieces and comma else "") + draw(SPACE)
    name = draw(st.sampled_from(["[commands]\nallow", "commands.allow", "[commands]\n 'allow' "]))
    text = draw(st.sampled_from(["", "# head\n", "mode = 'x'\n"])) + f"{name} = [{body}]"
    text += draw(
        st.sampled_from(["", "\n", " # tail\n", "\n\n[network]\nallow = ['h']", "\n[[rule]]\ncommand='c'\n"])
    )
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@pytest.mark.slow
@settings(max_examples=500)
@given(files(), TEXT)
def test_edits_touch_one_list(text: str, entry: str) -> None:
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    before = data["commands"]["allow"]
    added = add_entry(text, "commands", "allow", entry)
    assert tomllib.loads(added)["commands"]["allow"] == (before if entry in before else [*before, entry])
    for wanted in ("x", entry):
        removed = remove_entry(added, "commands", "allow", wanted)
        left = [other for other in tomllib.loads(added)["commands"]["allow"] if other != wanted]
        assert tomllib.loads(removed)["commands"]["allow"] == left
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert all(line in added.splitlines() for line in comments)


def test_rules() -> None:
    text = "mode = 'x'\n"
    added = add_rule(text, "deny", "git push", 'no "force"')
    assert added == text + '\n[[rule]]\ndecision = "deny"\ncommand = "git push"\nreason = "no \\"force\\""\n'
    assert add_rule(added, "deny", "git push", 'no "force"') == added
    twice = add_rule(added, "ask", "rm", "")
    assert remove_rules(twice, "ask", "rm") == added + "\n"
    assert remove_rules(twice, "deny", "rm") == twice
    assert "git push" not in remove_rules(twice, "deny", "git push")


VALUES = [("filesystem.write", "~/a"), ("filesystem.write", "~/b"), ("filesystem.git_writes", "true")]


def test_several_values_are_added_at_once() -> None:
    before = "# mine\n[filesystem]\ngit_writes = false  # for now\nwrite = ['~/b']\n"
    after = "# mine\n[filesystem]\ngit_writes = true  # for now\nwrite = ['~/b', \"~/a\"]\n"
    assert with_values(before, VALUES) == after and with_values(after, VALUES) == after
    assert with_values("", VALUES) == '[filesystem]\nwrite = ["~/a", "~/b"]\ngit_writes = true\n'


def test_all_values_are_added_or_none(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    assert add_values(str(file), VALUES) and not add_values(str(file), VALUES)
    text = file.read_text()
    with pytest.raises(PolicyError):
        add_values(str(file), [("filesystem.write", "~/c"), ("network.access", '"sometimes"')])
    assert file.read_text() == text
