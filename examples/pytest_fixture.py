"""Tests that run what a model wrote: in a directory of its own, inside the fence, without network.

Put the fixture into your conftest.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pinfold


@pytest.fixture
def fenced(tmp_path: Path) -> Iterator[pinfold.Session]:
    settings = {"network": {"access": "none"}, "limits": {"timeout": "30s"}}
    with pinfold.Session([str(tmp_path)], settings=settings) as session:
        yield session


def test_what_the_model_wrote(fenced: pinfold.Session) -> None:
    fenced.files.write("answer.py", "print(6 * 7)\n")
    result = fenced.run("python3 answer.py")
    assert (result.exit_code, result.stdout) == (0, "42\n")


def test_it_cannot_leave(fenced: pinfold.Session, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    fenced.run(["touch", str(outside)])  # where /tmp is the fence's own, it may well succeed
    assert not outside.exists()
