"""Where a name would be made: the directory that a caller's path really leads to, held, and what holds there.

Facts that shape it:
- Paths are walked as the caller's: from its directory or descriptor, in the same mounts and root. But links
  of /proc (magic links) would be followed with our power to trace, and /proc/self is not us: such a walk is
  refused (RESOLVE_NO_MAGICLINKS), and the call goes back to the kernel.
- A directory's path is asked of the kernel each time, by what we hold: whoever moved it since, here or on the
  host, it is the present one. Only what the rules say of a path is remembered.
- A mount follows the directory that it stands on, so a root that another session's commands move has its new
  path in the pen, too, where it is no root. But one in a private /tmp stands on a directory of the pen's, and
  keeps its path there. A descriptor from outside tells: its path is the present one of what it holds, without
  what lay above the mount, once the pen has left the machine's mounts behind.
- The directories above a root in a private /tmp are the session's own: commands can rename them. The root
  then has another path, which no rule is about. Its device tells: no root lies on that of the private /tmp.
"""

import errno
import os
import stat
from typing import NamedTuple

from pinfold.kernel import fast_calls
from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_MAGICLINKS
from pinfold.model.git_repositories import COMPLETED_BY
from pinfold.model.protected_names import (
    GIT,
    Children,
    Match,
    Matches,
    NameMatcher,
    components,
    folded,
    key_in,
    reached,
)
from pinfold.sandbox.linux.protocol.operations import Bind, Landlock, Operations, of_kind
from pinfold.sandbox.linux.protocol.rename_lock import Moving
from pinfold.sandbox.linux.warden.caller_state import Starts
from pinfold.sandbox.linux.warden.notification import DIRECTORY, Caller

REMEMBERED = 4096
SLASH = ord("/")
MOST_STEPS = 64
"""How far a path that leads nowhere is followed back: all others wait meanwhile."""
REFUSED_NAMES = (b"", b"/", b".", b"..", b"./", b"../")
"""No name can be made of these; the kernel says so."""


class Grounds(NamedTuple):
    """What a plan says of places."""

    roots: tuple[str, ...]
    """Where protected names hold."""
    watched: tuple[str, ...]
    """Where names are made by the warden: roots, and what has a root in it."""
    free: tuple[str, ...]
    """Where they are made by whoever wants them."""
    closed: tuple[str, ...]
    """What may only be read, though it may lie in what is free."""

    @classmethod
    def of(cls, operations: Operations) -> "Grounds":
        binds = of_kind(operations, Bind)
        writable = tuple(each.path for each in binds if each.writable)
        closed = tuple(each.path for each in binds if not each.writable)
        rules = [rule for each in of_kind(operations, Landlock) for rule in each.rules]
        watched = tuple(rule.path for rule in rules if "remove" in rule.access and "make" not in rule.access)
        free = tuple(rule.path for rule in rules if "make" in rule.access)
        return cls(writable, watched, free, closed)

    def is_in_root(self, path: str) -> bool:
        return any(_within(path, root) for root in self.roots)

    def has_root(self, path: str) -> bool:
        """Whether a root lies below a directory."""
        return any(root != path and _within(root, path) for root in self.roots)

    def is_watched(self, path: str) -> bool:
        return any(_within(path, root) for root in self.watched) and not self.is_free(path)

    def is_free(self, path: str) -> bool:
        if not any(_within(path, place) for place in self.free):
            return False
        return not any(_within(path, place) for place in self.closed)


class Place(NamedTuple):
    """A directory, by its path in the pen."""

    path: str
    made_by_warden: bool
    free: bool
    """Whether the caller may make names by itself."""
    inside: Match | None
    """The protected name that it is or lies in."""
    children: Children
    """What names in it would meet."""
    in_git: bool
    """Whether it is, or lies in, something of git's name."""
    is_scratch: bool = False
    """Whether the warden makes names in it because a root lies in the same private /tmp."""


class Spot(NamedTuple):
    """A name in a directory that we hold."""

    directory: int
    place: Place
    name: bytes
    """As the caller wrote it, with the slash at its end if there was one."""
    key: str
    """The name in the spelling that rules are held against."""

    @property
    def path(self) -> str:
        return f"{self.place.path.rstrip('/')}/{os.fsdecode(self.name.rstrip(b'/'))}"

    def matches(self) -> Matches:
        if self.place.inside:
            return (self.place.inside,)
        children = self.place.children
        return children.get(key_in(children, self.key), ())

    def protected_by(self) -> Match | None:
        """What protects the thing that is there. A `.git` that is a file, as worktrees and submodules have,
        is so itself, although rules speak only of names in it."""
        matches = self.matches()
        whole = reached(matches)
        if whole or not matches or self.key != GIT:
            return whole
        status = self.status()
        return matches[0] if status and stat.S_ISREG(status.st_mode) else None

    def status(self) -> os.stat_result | None:
        """Of what is there, no link followed."""
        try:
            return os.stat(self.name.rstrip(b"/"), dir_fd=self.directory, follow_symlinks=False)
        except OSError:
            return None


class Spots:
    """Finds them. What it holds for one call is let go by `release`."""

    def __init__(self, proc: int, grounds: Grounds, matcher: NameMatcher, moving: Moving) -> None:
        self.own = os.open("self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
        """Our own descriptors, as links to what they hold."""
        self.starts = Starts(proc)
        self.grounds = grounds
        self.matcher = matcher
        self.moving = moving
        self.delicate = moving.tails.union(COMPLETED_BY)
        """Names that must not be made while another pen makes or moves some."""
        self.stands = [(os.fsencode(root), *self._told(root, held)) for root, held in moving.roots.items()]
        """Roots, descriptors of them from outside, and what these led to at first."""
        self.scratch = {os.stat(path).st_dev for path in grounds.watched if not grounds.is_in_root(path)}
        """The devices of private directories in which roots lie."""
        self.places: dict[bytes, Place] = {}
        """By their path, as the kernel tells it."""
        self.unruled: dict[bytes, Children] = {}
        """Those where we make names, and what the few names that are protected would meet."""
        self.held: list[int] = []
        """Directories of the call that is being answered."""
        self.bases: dict[int, int] = {}
        """Those that its relative paths start from, by the caller's descriptor."""

    @property
    def is_holding(self) -> bool:
        return bool(self.held) or self.moving.locked

    def release(self) -> None:
        while self.held:
            os.close(self.held.pop())
        self.bases.clear()
        if self.moving.locked:
            self.moving.release()

    def find(self, caller: Caller, base: int, path: bytes) -> Spot | None:
        """Where a path leads, its last name apart; None if that cannot be told, or not by us."""
        if path[0] == SLASH:
            return self.walk(AT_FDCWD, path)
        start = self.bases.get(base)
        if start is None:
            start = caller.directory(base)
            if start < 0:
                return None
            self.held.append(start)
            self.bases[base] = start
        return self.walk(start, path)

    def walk(self, start: int, path: bytes) -> Spot | None:
        """The same, from a directory that we hold."""
        head, slash, name = path.rpartition(b"/")
        if slash and not name:
            head, slash, name = path.rstrip(b"/").rpartition(b"/")
            name += b"/"
        if name in REFUSED_NAMES:
            return None
        if slash:
            start = fast_calls.openat2(start, head or b"/", DIRECTORY, RESOLVE_NO_MAGICLINKS)
            if start < 0:
                return None
            self.held.append(start)
        return self._at(start, name)

    def require_way(self, base: int, path: bytes) -> None:
        """After `find` has found nothing. Raises FileNotFoundError if that is since a directory on the way is
        missing where we make names: the kernel must not be left to say so. If another call makes it
        meanwhile, the caller would hear that it may not make names there (EACCES), of a place where it may.
        """
        start = AT_FDCWD if path[0] == SLASH else self.bases.get(base, -1)
        if start == -1:
            return
        head, missing = path.rstrip(b"/").rpartition(b"/")[0], b""
        found = -errno.ENOENT
        for _ in range(MOST_STEPS):
            at = head or (b"/" if path[0] == SLASH else b".")
            found = fast_calls.openat2(start, at, DIRECTORY, RESOLVE_NO_MAGICLINKS)
            if found != -errno.ENOENT or not head:
                break
            head, _, missing = head.rstrip(b"/").rpartition(b"/")
        if found < 0:
            return
        self.held.append(found)
        # What a link leads to may be the caller's own (/proc/self), which we cannot see.
        is_link = missing and isinstance(fast_calls.readlinkat(found, missing), bytes)
        if missing and not is_link and self._at(found, b"").place.made_by_warden:
            raise FileNotFoundError(errno.ENOENT, "a directory on the way is missing")

    def directory(self, caller: Caller, base: int, path: bytes) -> Spot | None:
        """The directory that a path names, as the spot of an empty name in it."""
        found = self.thing(caller, base, path, DIRECTORY)
        return None if found < 0 else self._at(found, b"")

    def thing(self, caller: Caller, base: int, path: bytes, flags: int) -> int:
        """What a path leads to, held by an O_PATH descriptor; -errno if it leads nowhere."""
        start = AT_FDCWD if path.startswith(b"/") else caller.directory(base)
        if start >= 0:
            self.held.append(start)
        elif start != AT_FDCWD:
            return start
        found = fast_calls.openat2(start, path, flags, RESOLVE_NO_MAGICLINKS)
        if found >= 0:
            self.held.append(found)
        return found

    def path_of(self, descriptor: int) -> str:
        """Where something that we hold lies in the pen; empty if it cannot be told."""
        path = fast_calls.readlinkat(self.own, b"%d" % descriptor)
        return os.fsdecode(path) if isinstance(path, bytes) else ""

    def whole(self, caller: Caller, base: int, path: bytes) -> bytes:
        """A path from the root on, by its text; empty if that cannot be told.

        It is cheap: nothing is opened. But nothing may rest on it that a walk of that text does not prove, or
        the boundary judges again: a directory may have given its name to a link meanwhile.
        """
        if path[0] == SLASH:
            return path
        start = self.starts.path(caller.pid, base)
        return start and start + b"/" + path.removeprefix(b"./")

    def is_unruled(self, path: bytes) -> bool:
        """Whether it is, by its text, in a place of ours where no rule is or becomes about it."""
        head, _, name = path.rpartition(b"/")
        children = self.unruled.get(head)
        if children is None:
            return False
        key = folded(name.decode("utf-8", "surrogateescape"))
        return key_in(children, key) not in children and key not in self.delicate

    def _at(self, directory: int, name: bytes) -> Spot:
        key = folded(name.decode("utf-8", "surrogateescape").rstrip("/"))
        is_delicate = key in self.delicate
        if is_delicate:
            self.moving.hold()
        path = os.readlink(b"%d" % directory, dir_fd=self.own)
        if is_delicate:
            self._require_in_place(path)
        place = self.places.get(path) or self._place(path)
        if place.is_scratch:
            self._require_scratch(directory)
        return Spot(directory, place, name, key)

    def _require_scratch(self, directory: int) -> None:
        """Raises OSError in a writable root that commands have moved."""
        if os.fstat(directory).st_dev in self.scratch or os.fstatvfs(directory).f_flag & os.ST_RDONLY:
            return
        raise OSError(errno.EBUSY, "a directory above its root was moved")

    def _told(self, root: str, held: int) -> tuple[int, bytes]:
        """A descriptor and what it leads to; nothing if that is not the root by now."""
        path = os.readlink(b"%d" % held, dir_fd=self.own)
        return held, path if os.fsencode(root).endswith(path.rstrip(b"/")) else b""

    def _require_in_place(self, path: bytes) -> None:
        for root, held, before in self.stands:
            is_in = path == root or path.startswith(root + b"/")
            if is_in and os.readlink(b"%d" % held, dir_fd=self.own) != before:
                raise OSError(errno.EBUSY, "its root was moved")

    def _place(self, path: bytes) -> Place:
        text = os.fsdecode(path)
        children = self.matcher.children(text)
        is_watched = self.grounds.is_watched(text)
        is_scratch = is_watched and not self.grounds.is_in_root(text)
        place = Place(
            text,
            is_watched,
            self.grounds.is_free(text),
            children if isinstance(children, Match) else None,
            {} if isinstance(children, Match) else children,
            GIT in components(text),
            is_scratch,
        )
        if len(self.places) >= REMEMBERED:
            self.places.clear()
            self.unruled.clear()
        self.places[path] = place
        # Children of another kind meet rules by any name; a scratch directory may give its path to a root.
        if is_watched and not is_scratch and not place.inside and type(place.children) is dict:
            self.unruled[path] = place.children
        return place


def _within(path: str, above: str) -> bool:
    return path == above or path.startswith(above if above == "/" else f"{above}/")
