"""Configuration is read as git itself reads it, or not at all."""

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pinfold.model.git_files import parse_config

PARSED = [
    ('[core]\n\tpager = "a b"\n', [("core.pager", "a b")]),
    ('[Diff "Tool"] textconv = x\n', [("diff.Tool.textconv", "x")]),
    ("[alias]\n  x = one \\\n two\n# no = no\n", [("alias.x", "one  two")]),
    ("[a]\nbare\n", [("a.bare", "true")]),
    ("[a]\nbare\nb=1 ; c\n", [("a.bare", "true"), ("a.b", "1")]),
    # a comment does not go on; a value that ends with an escaped backslash does not either
    ("[a]\n# no \\\nb = 1\n", [("a.b", "1")]),
    ("[a]\nx = y\\\\\nb = 1\n", [("a.x", "y\\"), ("a.b", "1")]),
    ('[filter\t"x"]\nclean = y\n', [("filter.x.clean", "y")]),
    ('[diff "x\\\\"] textconv = y\n', [("diff.x\\.textconv", "y")]),
    ('[a] b = "x # y" # z\n', [("a.b", "x # y")]),
    # the old spelling of a subsection, several keys of one section, lines that end as on Windows
    ("[Remote.Origin]\nUrl = x\n", [("remote.origin.url", "x")]),
    ("[a]\r\nb = 1\r\n[a] c = 2", [("a.b", "1"), ("a.c", "2")]),
    ('[a "é\\"]"]\nb = é\\n"  "\\t\n', [('a.é"].b', "é\n  \t")]),
    ("[a]\nb = x\\", [("a.b", "x")]),
    ("", []),
]


def by_git(data: bytes) -> list[tuple[str, str]] | None:
    """What git makes of it, None if it refuses."""
    told = subprocess.run(["git", "config", "-f", "-", "--list", "-z"], input=data, capture_output=True)
    if told.returncode:
        return None
    entries = [entry.partition(b"\n") for entry in told.stdout.split(b"\0")[:-1]]
    return [(decoded(key), decoded(value) if mark else "true") for key, mark, value in entries]


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(("text", "found"), PARSED)
def test_parsed(text: str, found: list[tuple[str, str]]) -> None:
    assert list(parse_config(text.encode())) == found == by_git(text.encode())


REFUSED = [
    b"\xef\xbb\xbf[a]\nb = 1\n",
    b"[a\nb = 1\n",
    b"= x\n",
    b"a = 1\n",
    b"[]\na = 1\n",
    b"[a]\nb = 1\rc = 2\n",
    b"[a]\nb = x\0y\n",
    b'[a "x\0y"]\nb = 1\n',
    b'[a]\nb = "x\n',
    b"[a]\nb = \\x\n",
    b"[a]\nb c\n",
    b'[a "b" c]\nd = 1\n',
    b'[a "b\n"]\nc = 1\n',
    b"[a]\n\xff = 1\n",
    b"[a]\n" + b"#" * (1 << 20),
]


@pytest.mark.parametrize("data", REFUSED)
def test_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        list(parse_config(data))


PIECES = (
    *("[", "]", '"', "\\", "=", "#", ";", "\n", "\n", " ", "\t", "\r\n", ".", "-", "\\\n", '\\"', "\\\\"),
    *("[core]\n", '[remote "o"]\n', "[a.B]", "\nurl = ", "\nfsmonitor", "x", "A", "1", "é", "\\n", "!", "::"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=14).map(lambda pieces: "".join(pieces).encode())
whole = st.builds(lambda head, tail: head + tail, st.sampled_from([b"", b"[a]\nk", b'[a "b"]\nk = ']), texts)


@pytest.mark.slow
@given(whole | st.binary(max_size=40).map(lambda tail: b"[a]\nb = " + tail))
@settings(max_examples=600, deadline=None)
@example(b"[a]\nb = x\\")
@example(b"[a]\nb = x\\\n")
@example(b'[a]\nb = "x\\\n')
@example(b'[a]\nb = "" \t x\n')
def test_what_is_read_is_what_git_reads(data: bytes) -> None:
    try:
        found = list(parse_config(data))
    except ValueError:
        return
    assert found == by_git(data)
