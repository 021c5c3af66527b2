"""What a pattern matches to bash, with whatever options, it matches to us too."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from pinfold.workspace.disk_facts import Disk
from pinfold.workspace.globs import widened

NAMES = (
    ".env",
    ".Env",
    "env",
    "a",
    "b.txt",
    "B.TXT",
    "[x]",
    "a-b",
    "^",
    "!",
    "]",
    "é",
    "0",
    "x*y",
    "x[!y]",
    "[^a]",
    "sub",
)
PIECES = (
    *(
        "a",
        "b",
        "e",
        "n",
        "v",
        "x",
        ".",
        "E",
        "t",
        "*",
        "?",
        "-",
        "^",
        "!",
        "]",
        "[",
        "é",
        "/",
        "**",
        "*/",
        "[*]",
    ),
    *(
        "[^x]",
        "[!x]",
        "[a-z]",
        "[A-Z]",
        "[e-n]",
        "[.]",
        "[]x]",
        "[^]]",
        "[!]x]",
        "[[]",
        "[a-]",
        "[-z]",
        "[x-a]",
    ),
    *(
        "[[:alpha:]]",
        "[[:lower:][:digit:]]",
        "[^[:digit:]]",
        "[[=e=]]",
        "[[.e.]]",
        "[[:punct:]]",
        "[%-~]",
        "[A-z]",
    ),
)
SCRIPT = r"""IFS=; shopt -s "$1"; shift
for p; do for f in $p; do [[ -e $f ]] && printf '%s\t%s\0' "$p" "$f"; done; done; :"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tree")
    for place in (made, made / "sub", made / "sub" / "deep"):
        place.mkdir(exist_ok=True)
        for name in NAMES[:-1]:
            (place / name).touch()
    return made


def patterns() -> list[str]:
    chosen = random.Random(7)
    return ["".join(chosen.choices(PIECES, k=chosen.randint(1, 5))).lstrip("/") or "*" for _ in range(1500)]


@pytest.mark.skipif(not shutil.which("bash"), reason="bash says what a pattern matches")
@pytest.mark.parametrize("option", ["globasciiranges", "dotglob", "nocaseglob", "globstar", "extglob"])
def test_nothing_that_bash_matches_is_missed(option: str, tree: Path) -> None:
    given = patterns()
    said = subprocess.run(
        ["bash", "-c", SCRIPT, "bash", option, *given], cwd=tree, capture_output=True, text=True, check=True
    )
    matches = [line.split("\t") for line in said.stdout.split("\0") if line]
    assert len(matches) > 1000
    disk = Disk()
    found = {pattern: disk.expand(f"{tree}/{pattern}") for pattern, _ in matches}
    missed = [
        (pattern, name)
        for pattern, name in matches
        if (mine := found[pattern]) is not None and disk.real(f"{tree}/{name}") not in mine
    ]
    assert not missed


@pytest.mark.parametrize(
    ("pattern", "wide"),
    [
        ("/a/B", "/a/B"),
        ("/a/*.py", "/a/*.[pP][yY]"),
        ("/a/**/x", "/a/**/x"),
        ("/[a-c]1*/.env", "/[a-cA-C]1*/.env"),
        ("/a[!b]?", "/[aA][!b]?"),
        ("/x[[:alpha:]]y", "/[xX]*[yY]"),
        ("/x[^a]b[c]y", "/[xX]*[yY]"),
        ("/x[y/z]", "/[xX]*/z]"),
        ("/[*]?", "/[*]?"),
        ("/@(a|b)", None),
    ],
)
def test_widened(pattern: str, wide: str | None) -> None:
    assert widened(pattern) == wide
