"""Which directories are listed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from pinfold.workspace.dir_cache import Mark, listing


def note_listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that are from now on. Preconditions: they are listed by descriptors."""
    found: list[str] = []
    scandir = os.scandir

    def noting(directory: int) -> Iterator[os.DirEntry[str]]:
        found.append(os.readlink(f"/proc/self/fd/{directory}"))
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", noting)
    return found


def note_entries(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[str]:
    """Names that are taken from now on by what a module lists."""
    found: list[str] = []

    def noted(entries: "Iterator[os.DirEntry[str]]") -> "Iterator[os.DirEntry[str]]":
        for entry in entries:
            found.append(entry.name)
            yield entry

    @contextmanager
    def noting(directory: str) -> "Iterator[tuple[Mark | None, Iterator[os.DirEntry[str]]]]":
        with listing(directory) as (mark, entries):
            yield mark, noted(entries)

    monkeypatch.setattr(module, "listing", noting)
    return found
