"""Settings that follow their files while a session runs.

`current` costs a few `stat` calls. An edit counts from the next call on, the administrator's too. A file
that breaks keeps the last good settings in force, never none: a half-written file must not open
anything. The trouble is reported once, and again only when the files change.
"""

import os
from collections.abc import Callable
from typing import TypeAlias

from pinfold.model.errors import PolicyError
from pinfold.model.script import Shape
from pinfold.model.settings import Settings
from pinfold.settings.build import build
from pinfold.settings.defaults import default_layer
from pinfold.settings.sources import Sources, read_layers, watched

_Marks: TypeAlias = tuple[tuple[str, tuple[int, ...] | None], ...]


class Live:
    """The settings of a running session."""

    def __init__(
        self,
        sources: Sources,
        shape: Callable[[str], Shape],
        *,
        report: Callable[[PolicyError], None] | None = None,
    ) -> None:
        """Raises `PolicyError` if the settings cannot be read at the start: there is no last good one yet."""
        self._sources = sources
        self._shape = shape
        self._report = report
        self.trouble: PolicyError | None = None
        """Why the files as they are now are not in force; None while they are."""
        self._marks = self._look()
        self._settings = self._load()

    def current(self) -> Settings:
        marks = self._look()
        if marks != self._marks:
            # The marks are older than what is read now: a change during the reading is seen next time.
            self._marks = marks
            self._renew()
        return self._settings

    def _renew(self) -> None:
        try:
            self._settings = self._load()
            self.trouble = None
        except PolicyError as error:
            self.trouble = error
            if self._report is not None:
                self._report(error)

    def _load(self) -> Settings:
        return build([*read_layers(self._sources), default_layer()], self._shape)

    def _look(self) -> _Marks:
        try:
            paths = watched(self._sources)
        except PolicyError:  # the managed directory cannot be listed: `_load` will say so
            paths = (self._sources.managed, self._sources.managed_dir)
        return tuple((path, _mark(path)) for path in paths)


def _mark(path: str) -> tuple[int, ...] | None:
    """What changes when a file does. The change time is among it: unlike the others it cannot be set back."""
    try:
        facts = os.stat(path)
    except OSError as error:
        return None if isinstance(error, FileNotFoundError) else (error.errno or 0,)
    return (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev, facts.st_mode)
