"""One walk down a tree for what is protected and hidden in it, that remembers what it saw.

Facts that shape it:
- A directory that has not changed is not listed again (`dir_cache`).
- A command may close a directory (chmod 000) and open it again after the walk, and may have put anything into
  it before. So the walk reports a directory that it cannot list, unless it belongs to another user: then it
  stays closed in the pen as well.

The walk never follows links; the caller resolves them, but for what is hidden by a path that leads over one
(`linked_dirs`). Beyond `MOST_ENTRIES` names, `MOST_FOUND` finds or `MOST_TEXT` of paths, the walk raises: any
name that it did not look at could be a secret, and hiding all the rest would break a workspace without a
message.
"""

import os
import sys
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.git_repositories import REMAINS, is_git_by_name, is_repository, lacks_only_head
from pinfold.model.protected_names import (
    GIT,
    Children,
    Match,
    NameMatcher,
    components,
    folded,
    key_in,
    split_git_path,
)
from pinfold.policy.hidden_paths import HiddenNames, HiddenTree
from pinfold.workspace.dir_cache import MOST_TEXT, Mark, is_closed, listing, mark_of
from pinfold.workspace.linked_dirs import LinkedDirs

MOST_ENTRIES = 2_000_000
MOST_FOUND = 20_000
CONTENT_OF_GIT = frozenset(("objects", "refs", "logs"))
"""Made by git alone, tens of thousands of them, and named by hashes and branches."""


class WalkStep(Struct, frozen=True):
    """A directory that is yet to be looked at."""

    place: str
    """The directory that it lies in: many share one text. Or all of its path."""
    name: str
    names: Children
    """What the names in it would meet."""
    inside_git: bool = False
    only_named: bool = False
    """Whether only what these names meet counts."""
    is_protected: bool = False
    """Whether it is, or lies in, something protected."""

    @property
    def path(self) -> str:
        return os.path.join(self.place, self.name) if self.name else self.place


class SeenDirectory(Struct, frozen=True):
    """What a directory held."""

    mark: Mark | None
    """None: it is to be listed again."""
    below: tuple[WalkStep, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    gits: tuple[str, ...] = ()
    """Things called `.git` that are no directories."""
    entries: int = 0
    closed: tuple[str, ...] = ()
    """The directory itself, if it is ours and could not be listed."""
    is_bare: bool = False
    """Whether git would take the directory itself for a repository, although it is not called `.git`."""
    linked: tuple[str, ...] = ()
    """Paths of what is protected or hidden that lead over a link."""
    links: tuple[str, ...] = ()
    """Names of links, where something may be hidden by a path that leads over them."""


class TreeWalk:
    """The trees below some tops, held against one set of rules."""

    def __init__(self, matcher: NameMatcher, hiding: HiddenTree) -> None:
        self.matcher = matcher
        self.hiding = hiding
        self.seen: dict[str, SeenDirectory] = {}
        self.linked_dirs = LinkedDirs(hiding) if hiding.has_places else None
        self.behind_links: tuple[str, ...] = ()
        """Paths of hidden things that lead over a link to a directory, at the last look."""

    def look(self, tops: tuple[str, ...]) -> dict[str, SeenDirectory]:
        """What is there now, by directory."""
        found: dict[str, SeenDirectory] = {}
        waiting = [self._step(top, "", False) for top in tops if not self._is_inside(top, tops)]
        entries = finds = text = 0
        while waiting:
            step = waiting.pop()
            path = step.path
            seen = found[path] = self._seen(step, path)
            waiting += seen.below
            entries += seen.entries
            text += sys.getsizeof(path)
            finds += len(seen.protected) + len(seen.hidden) + len(seen.closed)
            if entries > MOST_ENTRIES or text > MOST_TEXT or finds > MOST_FOUND:
                raise ConfinementError(_too_much(finds <= MOST_FOUND))
        self.seen = found
        if self.linked_dirs:
            links = (f"{path}/{name}" for path, each in found.items() for name in each.links)
            self.behind_links = tuple(islice(self.linked_dirs.look(links, tops), MOST_FOUND + 1))
            if len(self.behind_links) + finds > MOST_FOUND:
                raise ConfinementError(_too_much(False))
        return found

    @staticmethod
    def _is_inside(top: str, tops: tuple[str, ...]) -> bool:
        return any(top != other and top.startswith(f"{other.rstrip('/')}/") for other in tops)

    def _step(self, place: str, name: str, inside_git: bool) -> WalkStep:
        step = WalkStep(place, name, {}, inside_git)
        names = self.matcher.children(step.path)
        return replace(step, is_protected=True) if isinstance(names, Match) else replace(step, names=names)

    def _seen(self, step: WalkStep, path: str) -> SeenDirectory:
        known = self.seen.get(path)
        try:
            if known and known.mark == mark_of(path):
                return known
            with listing(path) as (mark, entries):
                listed = list(islice(entries, MOST_ENTRIES + 1))
                if len(listed) > MOST_ENTRIES:  # one directory may hold as many as the disk does
                    raise ConfinementError(_too_much(True))
                return self._listed(step, path, mark, listed)
        except (FileNotFoundError, NotADirectoryError):
            return SeenDirectory(None)
        except OSError:
            return SeenDirectory(None, closed=(path,) if is_closed(path) else ())

    def _listed(
        self, step: WalkStep, path: str, mark: Mark | None, listed: "list[os.DirEntry[str]]"
    ) -> SeenDirectory:
        names = [entry.name for entry in listed]
        if step.names and self._is_bare(path, names) and not (step.inside_git and is_git_by_name(path)):
            return replace(self._noted(step, path, mark, listed, self.hiding.within(path)), is_bare=True)
        lowered = "/".join(names).lower()
        # Most directories hold nothing of note, and are done with at once.
        noted = (
            _is_odd(lowered)
            or not step.names.keys().isdisjoint(lowered.split("/"))
            or any(ending in lowered for ending in self.matcher.endings)
            or (step.inside_git and bool(step.names))
            or (step.is_protected and any(entry.is_symlink() for entry in listed))
        )
        hides = None if step.only_named else self.hiding.within(path)
        if noted or (hides and hides.may_hide(names)):
            return self._noted(step, path, mark, listed, hides)
        if step.only_named:
            return SeenDirectory(mark, entries=len(names))
        directories = [entry.name for entry in listed if entry.is_dir(follow_symlinks=False)]
        return SeenDirectory(
            mark,
            tuple(self._further(step, path, name) for name in directories),
            entries=len(names),
            links=self._links(hides, listed),
        )

    def _is_bare(self, path: str, names: list[str]) -> bool:
        """Nor is one any less closed from which a command has taken away what makes it one, as long as
        anything of it is left."""
        is_there = names.__contains__
        if is_repository(is_there) or lacks_only_head(is_there):
            return True
        known = self.seen.get(path)
        return known is not None and known.is_bare and not REMAINS.isdisjoint(names)

    def _links(self, hides: HiddenNames | None, listed: "list[os.DirEntry[str]]") -> tuple[str, ...]:
        if self.linked_dirs is None or hides is None:
            return ()
        return tuple(entry.name for entry in listed if entry.is_symlink())

    def _further(self, step: WalkStep, path: str, name: str) -> WalkStep:
        """A directory that no rule meets: the rules for any place are all there is, unless it is a root."""
        if not step.names:
            return WalkStep(path, name, step.names, step.inside_git, is_protected=step.is_protected)
        if step.inside_git or os.path.join(path, name) in self.matcher.roots:
            return self._step(path, name, step.inside_git)
        return WalkStep(path, name, self.matcher.anywhere)

    def _noted(
        self,
        step: WalkStep,
        path: str,
        mark: Mark | None,
        listed: "list[os.DirEntry[str]]",
        hides: HiddenNames | None,
    ) -> SeenDirectory:
        below: list[WalkStep] = []
        protected: list[str] = []
        hidden: list[str] = []
        gits: list[str] = []
        linked: list[str] = []
        for entry in listed:
            plain = folded(entry.name)
            met = step.names.get(key_in(step.names, plain))
            if step.only_named and not met:
                continue
            if len(hidden) + len(protected) > MOST_FOUND:  # before all of one directory have their paths
                raise ConfinementError(_too_much(False))
            is_directory = entry.is_dir(follow_symlinks=False)
            before = len(hidden), len(protected)
            if hides and self._is_hidden(hides, entry, is_directory):
                hidden.append(os.path.join(path, entry.name))
            elif plain == GIT and not is_directory:
                gits.append(os.path.join(path, entry.name))
                protected.append(gits[-1])
            elif met:
                self._met(entry, path, is_directory, met, step, below, protected)
            elif step.is_protected and entry.is_symlink():
                protected.append(os.path.join(path, entry.name))
            elif is_directory and not _is_content(step, path, plain):
                below.append(self._further(step, path, entry.name))
            if entry.is_symlink():
                linked += (*hidden[before[0] :], *protected[before[1] :])
        return SeenDirectory(
            mark,
            tuple(below),
            tuple(protected),
            tuple(hidden),
            tuple(gits),
            len(listed),
            linked=tuple(linked),
            links=self._links(hides, listed),
        )

    @staticmethod
    def _is_hidden(hides: HiddenNames, entry: "os.DirEntry[str]", is_directory: bool) -> bool:
        """A link to a directory is one, too: where it leads, there is no other name to tell."""
        if hides.is_hidden(entry.name, is_directory):
            return True
        return entry.is_symlink() and hides.is_hidden(entry.name, True) and entry.is_dir()

    def _met(
        self,
        entry: "os.DirEntry[str]",
        path: str,
        is_directory: bool,
        met: tuple[Match, ...],
        step: WalkStep,
        below: list[WalkStep],
        protected: list[str],
    ) -> None:
        """A name that is protected, or on the way to one that is."""
        place = os.path.join(path, entry.name)
        inside_git = step.inside_git or folded(entry.name) == GIT
        if not met[0].rest:
            protected.append(place)
            if is_directory and not step.only_named:
                below.append(WalkStep(path, entry.name, {}, inside_git, is_protected=True))
        elif is_directory:
            only = step.only_named or _is_content(step, path, folded(entry.name))
            below.append(replace(self._step(path, entry.name, inside_git), only_named=only))
        elif entry.is_symlink():
            # What the host finds by that link, now or once a program has made its target.
            protected += ["/".join((place, *match.rest)) for match in met]


def _is_content(step: WalkStep, path: str, name: str) -> bool:
    """Whether nothing lies in it but what git makes: in `.git/modules`, `refs` may be part of a submodule's
    name."""
    is_named_so = step.inside_git and name in CONTENT_OF_GIT
    return is_named_so and split_git_path(components(path)).module is None


def _is_odd(names: str) -> bool:
    """Whether `folded` changes more than the case of some of these, which have slashes between them."""
    return (
        not names.isascii()
        or ":" in names
        or "~" in names
        or "./" in names
        or " /" in names
        or names.endswith((".", " "))
    )


def _too_much(entries: bool) -> str:
    if entries:
        return (
            f"the workspace has more than {MOST_ENTRIES:,} files, or too many long paths, so that what is "
            "hidden in it cannot be found in time; open a smaller directory, or hide large ones by their "
            "paths"
        )
    return (
        f"more than {MOST_FOUND:,} files of the workspace are hidden or protected one by one; hide the "
        "directories that they lie in"
    )
