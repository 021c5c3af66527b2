"""Tests that run what a model wrote: in a directory of its own, in the sandbox, without network.

Put the fixture into your conftest.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pinfold


@pytest.fixture
def sandboxed(tmp_path: Path) -> Iterator[pinfold.Session]:
    settings = {"network": {"access": "none"}, "limits": {"timeout": "30s"}}
    with pinfold.Session([str(tmp_path)], settings=settings) as session:
        yield session


def test_what_the_model_wrote(sandboxed: pinfold.Session) -> None:
    sandboxed.files.write("answer.py", "print(6 * 7)\n")
    result = sandboxed.run("python3 answer.py")
    assert (result.exit_code, result.stdout) == (0, "42\n")


def test_it_cannot_leave(sandboxed: pinfold.Session, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    sandboxed.run(["touch", str(outside)])  # with a private /tmp, this succeeds inside the sandbox
    assert not outside.exists()
