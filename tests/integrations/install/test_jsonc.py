"""Edits of JSON with comments: what is not ours stays as it was written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.integrations.install.jsonc import parse, with_member, with_value, without
from pinfold.model.errors import PolicyError

HOOK = {"x": [1, {"y": "z"}]}
TEXTS = [
    "",
    "{}",
    "{ }\n",
    "{\n}\n",
    "{\n  // nothing yet\n}\n",
    '{"a": 1}',
    '{"a": 1, "hooks": {"E": []}}',
    '{"a": 1, "hooks": {"E": [{"b": 2}]}}',
    '{\n  "a": 1\n}\n',
    '{\n\t"a": 1, // why\n\t"hooks": {\n\t\t"E": [\n\t\t\t{"b": "// no, comment"} // keep\n\t\t]\n\t}\n}',
    '{\r\n    "a": 1,\r\n    "hooks": {\r\n        "F": [1],\r\n    },\r\n}\r\n',
    '/* head */ {\n  "hooks": {\n    "E": [\n      1, /* one */\n    ],\n  }, // end\n}\n// tail',
]


@pytest.mark.parametrize("text", TEXTS)
def test_added_and_taken_out_again(text: str) -> None:
    before = parse(text).value
    changed = with_value(text, ("hooks", "E"), HOOK)
    value = parse(changed).value
    assert value["hooks"]["E"][-1] == HOOK
    taken = without(changed, ("hooks", "E", len(value["hooks"]["E"]) - 1))
    assert parse(taken).value == {
        **before,
        "hooks": {**before.get("hooks", {}), "E": value["hooks"]["E"][:-1]},
    }
    for line in text.splitlines():
        assert line.strip().rstrip(",}] ").replace(",", "") in changed.replace(",", "")
    assert ("\r\n" in changed) == ("\r\n" in text) and changed.replace("\r\n", "").count("\r") == 0


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_a_member(text: str) -> None:
    assert parse(with_member(text, "version", 1)).value == {**parse(text).value, "version": 1}
    assert with_member('{"version": 2}', "version", 1) == '{"version": 2}'


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{",
            "[",
            '{"a"}',
            '{"a":}',
            '{"a" 1}',
            '{"a": 1 "b": 2}',
            "{a: 1}",
            '{"a": nul}',
            '"',
            '{"a": 1} x',
        ),
        '{"a": 1, "a": 2}',
        '{"a": "\n"}',
        "[" * 1000,
        "/* ",
    ],
)
def test_what_is_not_json_is_said_so_and_where(text: str) -> None:
    with pytest.raises(PolicyError, match="is not JSON") as caught:
        parse(text, "f.json")
    assert caught.value.where.startswith("f.json:")


@pytest.mark.parametrize("text", ["[]", "1", '{"hooks": []}', '{"hooks": {"E": {}}}'])
def test_another_shape_is_left_alone(text: str) -> None:
    with pytest.raises(PolicyError, match="something else"):
        with_value(text, ("hooks", "E"), HOOK)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), values, max_size=4), st.sampled_from([None, 1, 4, "\t"]))
def test_any_json(value: dict[str, object], indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent)
    assert parse(text).value == value
    if "hooks" not in value:
        changed = with_value(text, ("hooks", "E"), HOOK)
        assert parse(changed).value == {**value, "hooks": {"E": [HOOK]}}
        taken = without(changed, ("hooks",))
        assert taken == text if value else parse(taken).value == {}
