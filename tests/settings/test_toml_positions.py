"""Every value that tomllib finds is located, and its spelling stands at that place."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.settings.toml_edit import quoted
from pinfold.settings.toml_positions import Path, locate

CASES = [
    # keys
    ("a = 1", ("a",), (1, 5, 1)),
    ("a.b.c = 1", ("a", "b", "c"), (1, 9, 1)),
    ("'a.b' = 1", ("a.b",), (1, 9, 1)),
    ('"a\\u0062" . c = 1', ("ab", "c"), (1, 17, 1)),
    # arrays
    ("a = [1, 22]", ("a", 1), (1, 9, 2)),
    ("a = [ # one, ]\n  1,\n  # two\n  22 # x\n ,\n]", ("a", 1), (4, 3, 2)),
    ("a = [[1], [2, [3]]]", ("a", 1, 1, 0), (1, 16, 1)),
    ("a = ['x]', \"#\"]", ("a", 1), (1, 12, 3)),
    # strings
    ('a = """\n"" x\\""" """\nb = 2', ("b",), (3, 5, 1)),
    ('a = """x"""""\nb = 2', ("b",), (2, 5, 1)),
    ("a = '''\n'' x''''\nb = 2", ("b",), (3, 5, 1)),
    ('a = """\r\nx\r\n"""\r\nb = 2\r\n', ("b",), (4, 5, 1)),
    ("a = \"\"\nb = ''", ("b",), (2, 5, 2)),
    # other scalars
    ("a = 1979-05-27 07:32:00 # x", ("a",), (1, 5, 19)),
    ("a = 1979-05-27 # x", ("a",), (1, 5, 10)),
    ("a = [inf, -nan]", ("a", 1), (1, 11, 4)),
    # tables
    ("[t]\na = 1", ("t", "a"), (2, 5, 1)),
    ("[ t . u ] # x\na = 1", ("t", "u", "a"), (2, 5, 1)),
    ("t = {a = 1, b.c = [2]}", ("t", "b", "c", 0), (1, 20, 1)),
    ("[[t]]\na = 1\n[[t]]\na = 2", ("t", 1, "a"), (4, 5, 1)),
    ("[[t]]\n[[t.u]]\na = 1\n[t.u.v]\nb = 3\n[[t]]\n[[t.u]]\na = 2", ("t", 0, "u", 0, "v", "b"), (5, 5, 1)),
    ("[[t]]\n[[t.u]]\na = 1\n[[t]]\n[[t.u]]\na = 2", ("t", 1, "u", 0, "a"), (6, 5, 1)),
]


@pytest.mark.parametrize(("text", "path", "place"), CASES)
def test_places(text: str, path: Path, place: tuple[int, int, int]) -> None:
    found = locate(text).values[path]
    assert (found.line, found.column, found.length) == place


def leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Every scalar of the data, and every empty container, with its path."""
    inner = list(value.items()) if isinstance(value, dict) else []
    inner = list(enumerate(value)) if isinstance(value, list) else inner
    if not inner:
        return [(path, value)] if not isinstance(value, dict) else []
    return [leaf for step, child in inner for leaf in leaves(child, (*path, step))]


NAMES = st.one_of(st.sampled_from(["a", "b", "c-d", "1", "_"]), st.text("ab.é \"'\\#=[]", max_size=4))
BLANKS = st.sampled_from(["", " ", "\t "])
BREAKS = st.sampled_from(["", " ", "\n", " # ]},\"'\n", "\r\n  "])
TEXTS = st.text("ab\"'\\#=[],{}é\n\t ", max_size=8)


@st.composite
def spelled_keys(draw: st.DrawFn) -> str:
    name = draw(NAMES)
    if name and all(c in "abcd1_-" for c in name) and draw(st.booleans()):
        return name
    return f"'{name}'" if "'" not in name and draw(st.booleans()) else quoted(name)


@st.composite
def spelled_texts(draw: st.DrawFn) -> str:
    text = draw(TEXTS)
    style = draw(st.integers(0, 3))
    if style == 0 and not set(text) & set("'\n"):
        return f"'{text}'"
    if style == 1 and "'''" not in text and not text.endswith("'"):
        return f"'''{text}'''"
    if style == 2:
        return '"""' + text.replace("\\", "\\\\").replace('"""', '""\\"') + '"""'
    return quoted(text)


SCALARS = st.one_of(
    st.sampled_from(
        ["true", "0x1F", "-1_000", "1e5", "nan", "1979-05-27 07:32:00Z", "07:32:00", "1979-05-27"]
    ),
    spelled_texts(),
)


@st.composite
def spelled_arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    parts = [draw(BREAKS) + draw(inner) + draw(BREAKS) for _ in range(draw(st.integers(0, 3)))]
    trailing: bool = draw(st.booleans())
    comma = "," + draw(BREAKS) if parts and trailing else ""
    return "[" + ",".join(parts) + (comma or draw(BREAKS)) + "]"


@st.composite
def spelled_tables(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    pairs = [
        f"{draw(spelled_keys())}{draw(BLANKS)}={draw(BLANKS)}{draw(inner)}"
        for _ in range(draw(st.integers(0, 2)))
    ]
    return "{" + ", ".join(pairs) + " }"


VALUES: st.SearchStrategy[str] = st.recursive(
    SCALARS, lambda inner: st.one_of(spelled_arrays(inner), spelled_tables(inner)), max_leaves=6
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 8))):
        key = draw(BLANKS).join(
            f"{draw(BLANKS)}.".join(draw(st.lists(spelled_keys(), min_size=1, max_size=3))).split("\0")
        )
        kind = draw(st.integers(0, 5))
        if kind == 0:
            lines.append(f"{draw(BLANKS)}[{draw(BLANKS)}{key}{draw(BLANKS)}] # [x]")
        elif kind == 1:
            lines.append(f"[[{key}]]")
        elif kind == 2:
            lines.append(draw(st.sampled_from(["", "# a = 1", "\t#[x]"])))
        else:
            lines.append(f"{draw(BLANKS)}{key}{draw(BLANKS)}={draw(BLANKS)}{draw(VALUES)}{draw(BLANKS)}# = x")
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


@given(documents())
def test_everything_is_located(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    places = locate(text)
    for path, value in leaves(data):
        place = places.values[path]
        spelled = text[place.start : place.end]
        reread = tomllib.loads(f"x = {spelled}")["x"]
        assert reread == value or (reread != reread and value != value)
        assert text.split("\n")[place.line - 1][place.column - 1 :].startswith(spelled.split("\n")[0])
    for path, place in places.keys.items():
        assert path[-1] in (0, 1, 2, 3, 4, 5, 6, 7) or text[place.start : place.end].strip()
