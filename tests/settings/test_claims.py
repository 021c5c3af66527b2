"""The two claims about layers, for random contents of every layer."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.settings.loaded import shape

from pinfold.settings.build import build, effective
from pinfold.settings.defaults import default_layer
from pinfold.settings.keys import BY_NAME, TABLE, Direction, Key, ValueKind, WrittenBy
from pinfold.settings.merge import merge
from pinfold.settings.parse_layer import SettingsLayer, read_layer
from pinfold.settings.toml import Document

pytestmark = pytest.mark.slow

ENTRIES: dict[ValueKind, list[Any]] = {
    ValueKind.RULES: ["git push", "rm", "npm test"],
    ValueKind.TEXTS: ["one", "two"],
    ValueKind.PATHS: ["/a", "/b", "~/c"],
    ValueKind.HOSTS: ["a.example", "*.b.example"],
    ValueKind.NAMES: ["CI", "AWS_*"],
    ValueKind.PORTS: [80, 3000],
    ValueKind.HOOKS: ["/bin/check", ["/bin/check", "-x"]],
}
SCALARS: dict[ValueKind, list[Any]] = {
    ValueKind.BOOL: [True, False],
    ValueKind.DURATION: ["1s", "10m", "2h"],
    ValueKind.SIZE: ["1MB", "1GiB", ""],
    ValueKind.PATH: ["", "/a", "~/b"],
    ValueKind.PROXY: ["none", "environment", "http://proxy.example:3128"],
    ValueKind.URL: ["https://hook.example/pinfold", "http://127.0.0.1:8080/"],
    ValueKind.COUNT: [1, 512, 9999, ""],
}


def values_of(key: Key) -> st.SearchStrategy[Any]:
    if key.kind is ValueKind.WORD:
        return st.sampled_from(key.words)
    if key.kind is ValueKind.TEXT_TABLE:
        return st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(["1", "2"]))
    if key.kind is ValueKind.LIST_TABLE:
        return st.dictionaries(st.sampled_from(["npm", "git"]), st.sampled_from([["/a"], ["/b"]]))
    if key.is_scalar:
        values = SCALARS[key.kind]
        return st.sampled_from([v for v in values if v != "" or key.name.startswith("limits.")])
    return st.lists(st.sampled_from(ENTRIES[key.kind]), max_size=2)


@st.composite
def layers(draw: st.DrawFn, name: str) -> SettingsLayer:
    data: dict[str, Any] = {}
    keys = [key for key in TABLE if key.written_by is not WrittenBy.MANAGED or name == "managed"]
    for key in draw(st.lists(st.sampled_from(keys), max_size=12, unique_by=lambda key: key.name)):
        section, _, last = key.name.rpartition(".")
        (data.setdefault(section, {}) if section else data)[last] = draw(values_of(key))
    if draw(st.booleans()):
        decision = draw(st.sampled_from(["allow", "ask", "deny"]))
        data["rule"] = [{"decision": decision, "command": "make install"}]
    return read_layer(Document(name, "", "", data))


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {(name, frozen(inner)) for name, inner in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def is_no_wider(key: Key, value: Any, other: Any) -> bool:
    """Whether `value` lets nothing through that `other` does not."""
    if key.is_scalar:
        return key.rank(value) <= key.rank(other)
    mine, theirs = set(frozen(value)), set(frozen(other))
    return mine <= theirs if key.narrows is Direction.GRANT else mine >= theirs


def in_force(*found: SettingsLayer) -> dict[str, Any]:
    return effective(build([*found, default_layer()], shape))


TRUSTED = (layers("managed"), layers("managed"), layers("command line"), layers("user"))


@settings(max_examples=150, deadline=None)
@given(st.tuples(*TRUSTED, layers("project-local"), layers("project"), layers("project")))
def test_project_cannot_widen(drawn: tuple[SettingsLayer, ...]) -> None:
    """With project files nothing is wider, in any key, than without them."""
    trusted, projects = drawn[:4], drawn[4:]
    before = in_force(*trusted)
    after = in_force(*trusted, *projects)
    for key in TABLE:
        assert is_no_wider(key, after[key.name], before[key.name]), key.name


@settings(max_examples=150, deadline=None)
@given(st.tuples(*TRUSTED, layers("project-local"), layers("project")))
def test_administrator_only_narrows(drawn: tuple[SettingsLayer, ...]) -> None:
    """What a managed file sets is never wider for what the layers below say."""
    managed, below = drawn[:2], drawn[2:]
    said = {name for layer in managed for name in (*layer.scalars, *layer.lists)}
    alone = in_force(*managed)
    together = in_force(*managed, *below)
    for name in said:
        assert is_no_wider(BY_NAME[name], together[name], alone[name]), name
    # And the administrator's own cap does not depend on anybody else.
    assert build([*managed, default_layer()], shape).cap == build([*drawn, default_layer()], shape).cap


@given(layers("managed"), layers("managed"), layers("user"))
def test_the_order_of_managed_files_does_not_matter(
    one: SettingsLayer, two: SettingsLayer, user: SettingsLayer
) -> None:
    first, second = in_force(one, two, user), in_force(two, one, user)
    for key in TABLE:
        if key.is_scalar:
            assert first[key.name] == second[key.name]
        elif key.kind not in (ValueKind.TEXT_TABLE, ValueKind.LIST_TABLE):
            assert set(frozen(first[key.name])) == set(frozen(second[key.name]))


@given(st.tuples(*TRUSTED, layers("project")))
def test_whatever_is_not_believed_is_told(drawn: tuple[SettingsLayer, ...]) -> None:
    """A value of a project that is not in force has a notice that names its key."""
    merged = merge([*drawn, default_layer()])
    for name, entry in drawn[-1].scalars.items():
        key = BY_NAME[name]
        if (
            key.rank(entry.value) > key.rank(merged.scalars[name].value)
            and key.written_by is WrittenBy.ANYONE
        ):
            assert any(f"`{name} = " in notice for notice in merged.notices)
    for name, entries in drawn[-1].lists.items():
        kept = [entry.value for entry in merged.lists[name]]
        if BY_NAME[name].is_scalar or all(entry.value in kept for entry in entries):
            continue
        assert any(f"`{name}`" in notice for notice in merged.notices)
