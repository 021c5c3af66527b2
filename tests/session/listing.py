"""Which directories are listed."""

import os
from collections.abc import Iterator

import pytest


def note_listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that are from now on. Preconditions: they are listed by descriptors."""
    found: list[str] = []
    scandir = os.scandir

    def noting(directory: int) -> Iterator[os.DirEntry[str]]:
        found.append(os.readlink(f"/proc/self/fd/{directory}"))
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", noting)
    return found
