"""The ignore files of a workspace: where they are, and what they say. By the same walk, its `.env` files.

They lie in any directory, and a decision must not wait for a search through all of them: that takes
milliseconds, a decision fractions of one. So a caller with a thread to spare searches again and again
(`look_around`), and a decision searches by itself only if no caller does. A new file is seen with the next
search; one in a root, or a change of a known one, is seen at once.

A command may close a directory (chmod 000) during a search, and open it before the pen is planned. So the
mapping found here hides a directory as a whole if it could not be searched, even if it can be by then.
"""

import os
import sys
from _thread import allocate_lock
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.env_files import PACKAGES, is_env_file
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.policy import IgnoreMapping
from pinfold.model.symlinks import real_directory
from pinfold.settings.files import is_for_everybody, is_own, mark, read_text
from pinfold.settings.sources import upwards
from pinfold.workspace.dir_cache import MOST_TEXT, Mark, is_closed, listing, mark_of

SECONDS = 2.0
SHARE = 50
"""A large tree is looked through less often: never more than a fiftieth of the time."""
LATE = 2
"""A decision waits for the next `look_around` this many times as long as the last one took to come: the
watcher has other things to do on each round, and a decision just before it would search twice."""
PASSED_OVER = frozenset({".git", "node_modules", ".venv", "__pycache__", ".tox"})
"""Directories that hold thousands of others and no ignore files of the user's own."""
UNSEEN = PASSED_OVER | PACKAGES
OF_KERNEL = frozenset({"proc", "sys"})
"""The kernel's own, where no user can put an ignore file, and which are without end."""
MOST_DIRECTORIES = 2_000_000
"""Not less than what a survey walks (`tree_walk.MOST_ENTRIES`): commands can make directories, so that an
ignore file lies beyond any smaller number."""
MOST_CLOSED = 1_000
"""Directories that are hidden since they cannot be searched: each name of the workspace is matched against
them. Only a command makes that many."""
TOO_LONG = "remove some: to know what the ignore files in them hide, each has to be held in memory"


class _Directory(Struct, frozen=True):
    """What a directory held."""

    mark: Mark | None
    """None: it is to be listed again."""
    has_any: bool
    """Whether there are ignore files in it."""
    below: tuple[str, ...] = ()
    """Names of directories in it."""
    is_closed: bool = False
    """Whether it is ours and could not be listed."""
    env_files: tuple[str, ...] = ()
    """Names of `.env` files in it."""
    links: tuple[str, ...] = ()
    """Names of links in it."""


class _Look(Struct, frozen=True):
    """What was seen at one time. Replaced as a whole, so that it is read without a lock."""

    names: tuple[str, ...] = ()
    finds_env_files: bool = False
    directories: dict[str, _Directory] = {}
    behind: dict[str, _Directory] = {}
    """Those that are passed over but for a link to them, by the paths that lead over it."""
    files: dict[str, tuple[int, ...] | None] = {}
    """The ignore files, and those that would be in a root, with their marks."""
    mapping: IgnoreMapping = {}
    notices: tuple[str, ...] = ()
    env_files: frozenset[str] = frozenset()
    """The `.env` files that there are, by their paths."""
    at: float = float("-inf")
    """When it was seen."""
    until: float = float("-inf")
    """When a decision searches again by itself."""

    @property
    def asked(self) -> tuple[tuple[str, ...], bool]:
        return self.names, self.finds_env_files

    def is_fresh(self, asked: tuple[tuple[str, ...], bool]) -> bool:
        return (
            monotonic() <= self.until
            and asked == self.asked
            and all(mark(path) == known for path, known in self.files.items())
        )


class IgnoreFiles:
    """May be used from any thread."""

    def __init__(self, roots: tuple[str, ...], home: str = "") -> None:
        self._roots = roots
        self._above = tuple(dict.fromkeys(each for root in roots for each in [*upwards(root, home)][1:]))
        """Directories above the roots, without the home: their ignore files also hide files from a session in
        a part of the tree."""
        self._last = _Look()
        self._lock = allocate_lock()
        """Held during a walk, so that an earlier walk cannot replace the result of a later one."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What was not looked at."""
        return self._last.notices

    def mapping(self, names: tuple[str, ...], env_files: bool = False) -> IgnoreMapping:
        """Directory -> patterns, for the ignore files of these names. `env_files`: those are wanted."""
        asked = names, env_files
        look = self._last
        if not look.is_fresh(asked):
            with self._lock:
                look = self._last
                if not look.is_fresh(asked):
                    look = self._last = self._walk(*asked)
        return look.mapping

    @property
    def env_files(self) -> frozenset[str]:
        """The `.env` files that were there at the last look."""
        return self._last.env_files

    def look_around(self, names: tuple[str, ...], env_files: bool = False) -> None:
        """Searches the trees now, for the decisions of the next seconds. Those decisions report its
        errors."""
        with self._lock:
            last = self._last
            if not names and not env_files:
                return
            try:
                look = self._walk(names, env_files)
            except PolicyError:
                self._last = replace(last, until=float("-inf"))
                return
            late = look.at + LATE * (look.at - last.at) if any(last.asked) else look.until
            self._last = replace(look, until=max(look.until, late))

    def _walk(self, names: tuple[str, ...], env_files: bool) -> _Look:
        """Preconditions: the lock is held."""
        started = monotonic()
        last = self._last
        known = last.directories if names == last.names else {}
        walked: dict[str, _Directory] = {}
        cut = [
            root
            for root in self._roots
            if (names or env_files) and not _is_walked(root, frozenset(names), known, walked)
        ]
        passed = last.behind if names == last.names else {}
        behind = _behind_links(walked, self._roots, frozenset(names), passed) if env_files else {}
        found = dict.fromkeys((*(path for path, each in walked.items() if each.has_any), *self._roots))
        paths = {directory: [os.path.join(directory, name) for name in names] for directory in found}
        paths |= {at: own for at in self._above if at not in paths and (own := _own_files(at, names))}
        files = {path: mark(path) for group in paths.values() for path in group}
        mapping = _mapping(paths, self._closed({**walked, **behind}))
        ended = monotonic()
        return _Look(
            names,
            env_files,
            walked,
            behind,
            files,
            # An equal value stays the same object, so that caches that compare by identity stay valid.
            last.mapping if mapping == last.mapping else mapping,
            tuple(
                f"{root}: ignore files were looked for in {MOST_DIRECTORIES:,} directories only"
                for root in cut
            ),
            frozenset(
                f"{path}/{name}"
                for path, each in (*walked.items(), *behind.items())
                for name in each.env_files
                if PACKAGES.isdisjoint(path.split("/"))
            ).union(_env_files_above(self._above) if env_files else ()),
            ended,
            ended + max(SECONDS, SHARE * (ended - started)),
        )

    def _closed(self, walked: dict[str, _Directory]) -> list[str]:
        """Directories that may hold ignore files which the walk could not see."""
        closed = [path for path, each in walked.items() if each.is_closed]
        for root in set(self._roots).intersection(closed):
            raise PolicyError("cannot be listed", where=visible(root), help=f"chmod u+rx {visible(root)}")
        if len(closed) > MOST_CLOSED:
            raise PolicyError(
                f"more than {MOST_CLOSED:,} directories cannot be listed",
                where=visible(closed[0]),
                help="make them readable or remove them: they may contain ignore files",
            )
        return closed


def _env_files_above(directories: tuple[str, ...]) -> Iterator[str]:
    """`.env` files directly in one of these directories: a session in a part of a tree is in its project,
    too."""
    for directory in directories:
        with suppress(OSError), os.scandir(directory) as entries:
            if is_for_everybody(directory):
                continue  # no project lies there
            found = [entry for entry in entries if is_env_file(entry.name)]
            yield from (entry.path for entry in found if not entry.is_dir(follow_symlinks=False))


def _own_files(directory: str, names: tuple[str, ...]) -> list[str]:
    """Those of a directory around a root that this user or root has put there."""
    return [path for name in names if is_own(path := os.path.join(directory, name))]


def _is_walked(
    root: str, names: frozenset[str], known: dict[str, _Directory], walked: dict[str, _Directory]
) -> bool:
    """Adds the directories of a tree, level by level; False if there are too many."""
    waiting = [(root, "")]
    text = 0
    for above, name in islice(waiting, MOST_DIRECTORIES):  # it grows as it is walked
        path = os.path.join(above, name) if name else above
        if path not in walked and (directory := _seen(path, names, known.get(path))):
            walked[path] = directory
            waiting += [(path, each) for each in directory.below]
            text += sys.getsizeof(path)
            if text > MOST_TEXT:
                raise PolicyError("too many long paths", where=visible(root), help=TOO_LONG)
    return len(waiting) <= MOST_DIRECTORIES


def _behind_links(
    walked: dict[str, _Directory],
    roots: tuple[str, ...],
    names: frozenset[str],
    known: dict[str, _Directory],
) -> dict[str, _Directory]:
    """Directories that are passed over, and that a link from elsewhere leads to.

    A command may have made the link in the place of a directory where the host is to put a file."""
    waiting = [f"{path}/{name}" for path, each in walked.items() for name in each.links]
    found: dict[str, _Directory] = {}
    passed: set[str] = set()
    text = 0
    while waiting:
        path = waiting.pop()
        real = real_directory(path)
        if real in passed or not _is_passed_over(real, roots):
            continue
        passed.add(real)
        if directory := _seen(real, names, known.get(path)):
            found[path] = directory
            waiting += [f"{path}/{name}" for name in (*directory.below, *directory.links)]
        text += sys.getsizeof(path)
        if text > MOST_TEXT:
            raise PolicyError("too many directories behind links", where=visible(roots[0]), help=TOO_LONG)
    return found


def _is_passed_over(real: str, roots: tuple[str, ...]) -> bool:
    """Whether it lies in a root, and in something there that is not looked through or counts as packages."""
    return any(
        real.startswith(f"{root}/") and not UNSEEN.isdisjoint(real[len(root) :].split("/")) for root in roots
    )


def _seen(path: str, names: frozenset[str], known: _Directory | None) -> _Directory | None:
    """None if there is nothing that commands could list either."""
    try:
        return known if known and known.mark == mark_of(path) else _listed(path, names)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _Directory(None, has_any=False, is_closed=True) if is_closed(path) else None


def _listed(path: str, names: frozenset[str]) -> _Directory:
    has_any, below = False, []
    env_files: list[str] = []
    links: list[str] = []
    with listing(path) as (lasting, entries):
        for entry in entries:
            if entry.name in names:
                has_any = True
            elif entry.name in PASSED_OVER or (path == "/" and entry.name in OF_KERNEL):
                continue
            elif entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
                if len(below) > MOST_DIRECTORIES:  # there are too many of them anyway
                    break
            else:
                if is_env_file(entry.name):
                    env_files.append(entry.name)
                if entry.is_symlink():
                    links.append(entry.name)
    return _Directory(lasting, has_any, tuple(below), env_files=tuple(env_files), links=tuple(links))


def _mapping(paths: dict[str, list[str]], closed: list[str]) -> IgnoreMapping:
    texts = {
        # Empty where there is none; bounded, and never waiting for a fifo.
        directory: [(os.path.basename(path), read_text(path) or "") for path in group]
        for directory, group in paths.items()
    }
    if not closed and not any(text for group in texts.values() for _, text in group):
        return {}
    from pinfold.policy.ignore import MOST_PATTERNS, mapping_of, naming, united

    mapping = mapping_of(texts)
    if sum(map(len, mapping.values())) > MOST_PATTERNS:
        sizes = {
            os.path.join(directory, name): len(text)
            for directory, group in texts.items()
            for name, text in group
        }
        longest = max(sizes, key=sizes.__getitem__)
        message = f"more than {MOST_PATTERNS:,} patterns in the ignore files of a project"
        hint = "ignore directories, not each file in them"
        raise PolicyError(message, where=visible(longest), help=hint)
    return united(mapping, naming(closed))
