"""The lock by which wardens keep each other still."""

import errno
import os
from pathlib import Path

import pytest

from pinfold.sandbox.linux import moving
from pinfold.sandbox.linux.moving import Moving


def test_wardens_hold_it_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If some could hold it together, a few that make names without a pause would keep it for good."""
    monkeypatch.setattr(moving, "PATIENCE", 0.0)
    one, other = (Moving(os.open(tmp_path, os.O_RDONLY), [], lambda: None) for _ in range(2))
    one.hold()
    with pytest.raises(OSError) as refused:
        other.hold()
    assert refused.value.errno == errno.EBUSY
    one.release()
    other.hold()
    os.close(one.descriptor)
    os.close(other.descriptor)
