"""What a program that uses us imports late is not what a command has put in its way.

A program that is not isolated has its own directory first on `sys.path`, often the project. We, and the
standard library for us, import some modules only when they are wanted: by then a command may have made a
`sqlite3.py` there. So from a directory that commands write, the names of those modules count only if they
were there when the session was opened. All other names are the program's own affair.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from types import ModuleType

from pinfold.policy.paths import is_covered

# fmt: off
OURS = frozenset([
    "pinfold", "msgspec", "h11", "idna", "rich", "re2", "_re2", "mcp", "anyio", "google",
    # and what those import if it is there
    "typing_extensions", "pygments", "markdown_it", "mdurl", "attr", "IPython", "ipywidgets", "sniffio",
])
# fmt: on


class Guard:
    """A finder for `sys.meta_path`."""

    def __init__(self) -> None:
        self._roots: set[str] = set()
        self._known: dict[str, frozenset[str]] = {}
        """By directory: the modules that were there."""

    def add(self, roots: Iterable[str]) -> None:
        """Commands write in these from now on."""
        self._roots.update(map(os.path.realpath, roots))
        for entry in {_place(each) for each in sys.path} - set(self._known):
            if is_covered(entry, self._roots):
                self._known[entry] = _modules_in(entry)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or not (name in OURS or name in sys.stdlib_module_names):
            return None
        entries = [each for each in sys.path if not self._is_new(_place(each), name)]
        if len(entries) == len(sys.path):
            return None  # as without us
        found = PathFinder.find_spec(name, entries, target)
        for finder in sys.meta_path if found is None else ():
            if finder is not self and finder is not PathFinder:
                found = found or finder.find_spec(name, None, target)
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found

    def _is_new(self, entry: str, name: str) -> bool:
        return is_covered(entry, self._roots) and name not in self._known.get(entry, ())


_guard = Guard()


def guard_imports(roots: Iterable[str]) -> None:
    """From now on in this process."""
    _guard.add(roots)
    if _guard not in sys.meta_path:
        at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
        sys.meta_path.insert(at, _guard)


def _place(entry: object) -> str:
    return os.path.realpath(entry or ".") if isinstance(entry, str) else ""


def _modules_in(directory: str) -> frozenset[str]:
    """The names in it that were modules. A `secrets.env`, or a directory `queue` that is no package, is none:
    what a command makes beside it, or in it, would be."""
    try:
        names = {name.partition(".")[0] for name in os.listdir(directory)}
    except OSError:
        return frozenset()
    names &= OURS | sys.stdlib_module_names
    finder = FileFinder(directory, (ExtensionFileLoader, EXTENSION_SUFFIXES),
                        (SourceFileLoader, [*SOURCE_SUFFIXES, *BYTECODE_SUFFIXES]))  # fmt: skip
    found = ((name, finder.find_spec(name)) for name in names)
    return frozenset(name for name, spec in found if spec and spec.loader)
