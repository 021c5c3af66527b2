"""Settings that follow their files while a session runs.

`current` costs a few `stat` calls. An edit counts from the next call on, the administrator's too. Of a file
that breaks the last good contents stay in force, never none: a half-written file must not open anything.
The other files count as they are now, so a broken user file cannot hold off the administrator's new rules.
Each error is reported once.
"""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from pinfold.model.errors import PolicyError
from pinfold.model.script import Shape
from pinfold.model.settings import Settings
from pinfold.settings.build import build, require_sound
from pinfold.settings.defaults import default_layer
from pinfold.settings.files import mark
from pinfold.settings.parse_layer import SettingsLayer
from pinfold.settings.sources import LayerSource, Sources, list_sources, managed_files, watched

_Marks: TypeAlias = tuple[tuple[str, tuple[int, ...] | None], ...]


MOST_RULES = 1 << 17
"""Rules whose shapes are kept: more than a settings file has room for, or each would be made repeatedly."""


class LiveSettings:
    """The settings of a running session."""

    def __init__(
        self,
        sources: Sources,
        shape: Callable[[str], Shape],
        check_host: Callable[[str, str], None] | None = None,
        *,
        report: Callable[[PolicyError], None] | None = None,
    ) -> None:
        """Raises `PolicyError` if the settings cannot be read at the start: there is no last good one yet."""
        self._sources = sources
        self._watched: dict[str, list[str]] = {}
        """By their directories: most of those are not there, and nothing in them is."""
        for path in watched(sources):
            self._watched.setdefault(os.path.dirname(path) or ".", []).append(path)
        self._shape = lru_cache(MOST_RULES)(shape)
        self._check_host = check_host
        self._report = report
        self._troubles: list[PolicyError] = []
        self._listed: list[LayerSource] = []
        self._good: dict[str, SettingsLayer] = {}
        """The last good contents of each file, kept though it may be gone: it may come back broken."""
        self._marks: _Marks = ()
        self._marks = self._look()
        self._settings = self._renewed()
        if self._troubles:
            raise self._troubles[0]

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why some files are not in force as they are now: one line each."""
        return tuple(map(str, self._troubles))

    @property
    def files(self) -> tuple[str, ...]:
        """Every path that settings are read from, or would be if it were there."""
        return tuple(path for path, _ in self._marks)

    def current(self) -> Settings:
        marks = self._look()
        if marks != self._marks:
            self._renew(marks)
        return self._settings

    def _renew(self, marks: _Marks) -> None:
        told = self.troubles
        self._settings = self._renewed()
        # The marks are older than what was read: a change during the reading is seen next time.
        self._marks = marks
        for trouble in self._troubles:
            if self._report is not None and str(trouble) not in told:
                self._report(trouble)

    def _renewed(self) -> Settings:
        self._troubles = []
        try:
            self._listed = list_sources(self._sources)
        except PolicyError as error:
            self._troubles.append(error)
        layers = [layer for source in self._listed for layer in [self._read(source)] if layer is not None]
        return build([*layers, default_layer()], self._shape, self._check_host, self._sources.held)

    def _read(self, source: LayerSource) -> SettingsLayer | None:
        try:
            layer = source.read()
            if layer is not None:
                require_sound(layer, self._shape, self._check_host)
                self._good[source.name] = layer
        except PolicyError as error:
            self._troubles.append(error)
            return self._good.get(source.name)
        return layer

    def _look(self) -> _Marks:
        marks: dict[str, tuple[int, ...] | None] = {}
        for directory, paths in self._watched.items():
            is_there = mark(directory) is not None
            for path in paths:
                marks[path] = mark(path) if is_there else None
        if marks.get(self._sources.managed_dir) is not None:
            marks.update((path, mark(path)) for path in self._managed())
        return tuple(marks.items())

    def _managed(self) -> tuple[str, ...]:
        try:
            return managed_files(self._sources)
        except PolicyError:  # the managed directory cannot be listed: `_renewed` will say so
            return self.files
