"""What a path means, inside directories that are held open; walks and globs below them.

Two steps, and only the second one counts:
1. The links of a path are followed by name, to find which held directory it ends up in. Another program may
   swap something meanwhile.
2. The place found is walked once more from that directory's descriptor, by openat2 with RESOLVE_BENEATH and
   RESOLVE_NO_SYMLINKS: a link that was put in the way since is an error. A descriptor holds what the walk
   ends at. That is what is judged, and what is read or changed.

INVARIANT: nothing is opened, made, renamed or removed but by a name in a directory that such a walk found.
A directory can be moved while it is held, and then has another path than was judged. Code that changes names
in one calls `require_in_place` first, at a time when no pen moves any. If a root's name means another
directory by now, that one is held from the next lookup on, so that tools work where commands do.

Facts (openat2(2), proc(5), open(2)):
- The links of /proc lead to inodes, not to paths: they are refused, and so are devices' names.
- O_PATH opens anything without doing anything to it: a FIFO does not wait, a device does not notice.
- A walk by descriptors meets no link that it would follow.
"""

import errno
import os
import stat
from _thread import allocate_lock
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import NamedTuple

from pinfold.kernel.files import STRICT, openat2, reopen
from pinfold.model.errors import FileRefused
from pinfold.model.symlinks import walk_path

DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
MAGIC = ("/proc/", "/dev/", "/sys/")
SWAPPED = (errno.ELOOP, errno.EXDEV, errno.EAGAIN)


class HeldName(NamedTuple):
    """A name in a directory that is held open."""

    directory: int
    name: str
    path: str
    """The path of that, without any link."""

    def status(self) -> os.stat_result | None:
        """The status of what has the name now, without following a link; None if nothing has it."""
        try:
            return os.stat(self.name or ".", dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:  # a name that is too long, for one
            raise _refusal(error, self.path) from None


class HeldRoot(NamedTuple):
    descriptor: int
    status: os.stat_result


class HeldDirectories:
    """Directories, and single files, that tools may work in.

    Preconditions: no link is in their paths. Links made since are not followed.
    """

    def __init__(self, places: Iterable[str] = ()) -> None:
        self._wanted: tuple[str, ...] = ()
        self._held: dict[str, HeldRoot] = {}
        """Replaced as a whole when other places are held, so that each reader sees one set."""
        self._gone: tuple[str, ...] = ()
        """Places that were to be held and do not exist."""
        self._lock = allocate_lock()
        self.hold(places)

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(self._held)

    def hold(self, places: Iterable[str]) -> None:
        """Holds these places from now on, and no others."""
        self._wanted = tuple(places)
        self._hold_named(self._wanted)

    def _hold_named(self, wanted: tuple[str, ...]) -> None:
        """Holds what has these names now, unless other places are wanted meanwhile."""
        held: dict[str, HeldRoot] = {}
        gone = []
        for place in dict.fromkeys(wanted):
            try:
                descriptor = _held_by_name(place)
                held[place] = HeldRoot(descriptor, os.fstat(descriptor))
            except FileNotFoundError:
                gone.append(place)
            except OSError:
                continue  # not a directory: nothing can be in it
        with self._lock:
            unneeded = held
            if wanted is self._wanted:
                unneeded, self._held, self._gone = self._held, held, tuple(gone)
            for each in unneeded.values():
                os.close(each.descriptor)

    def close(self) -> None:
        self.hold(())

    def place(self, path: str, start: str, *, itself: bool = False) -> str:
        """Where a path leads now, inside a held directory; `itself`: without following a link at its end."""
        if not isinstance(path, str):
            raise TypeError(f"a path must be str, got {type(path).__name__}")
        led = follow(path, start, itself=itself)
        if not self._has_its_names():
            self._hold_named(self._wanted)
        self._root_of(led, path)
        return led

    def _has_its_names(self) -> bool:
        """Whether the held directories still have their names: a project may be renamed or made anew."""
        held = all(_is_at(place, each.status) for place, each in self._held.items())
        return held and not any(os.path.lexists(place) for place in self._gone)

    @contextmanager
    def spot(self, place: str, *, make: bool = False) -> Iterator[HeldName]:
        """Walks to a place without following links. Its last part may be absent; `make` makes the others."""
        root = self._root_of(place, place)
        *above, name = [""] if place == root else os.path.relpath(place, root).split("/")
        try:
            directory = self._from(root, above, make)
        except OSError as error:
            raise _refusal(error, place) from None
        try:
            yield HeldName(directory, name, place)
        finally:
            os.close(directory)

    def require_in_place(self, spot: HeldName) -> None:
        """Raises FileRefused if its directory no longer has its path."""
        try:
            _require_named(spot.directory, os.path.dirname(spot.path))
        except OSError as error:
            raise _refusal(error, spot.path) from None

    def _from(self, root: str, parts: list[str], make: bool) -> int:
        # A descriptor of its own: once another thread has closed ours, its number may mean anything.
        with self._lock:
            held = os.dup(self._held[root].descriptor) if root in self._held else -1
        if held < 0:
            raise OSError(errno.EBADF, "the directory is not held any more")
        try:
            if make:
                _require_named(held, root)
            return self._walk(held, parts, make)
        finally:
            os.close(held)

    def _walk(self, root: int, parts: list[str], make: bool) -> int:
        try:
            return openat2(root, "/".join(parts) or ".", DIRECTORY, resolve=STRICT)
        except FileNotFoundError:
            if not make:
                raise
        above = self._walk(root, parts[:-1], make)
        try:
            with suppress(FileExistsError):
                os.mkdir(parts[-1], dir_fd=above)
            return openat2(above, parts[-1], DIRECTORY, resolve=STRICT)
        finally:
            os.close(above)

    def _root_of(self, led: str, path: str) -> str:
        """The innermost root that contains a path: roots may lie in one another."""
        found = [root for root in self._held if _lies_in(led, root)]
        if not found:
            if gone := next((root for root in self._gone if _lies_in(led, root)), ""):
                mend = "start a new session in a directory that exists"
                raise FileRefused("unreachable", path, f"{gone} does not exist any more", mend)
            where = "" if led == path else f", which is {led},"
            said = f"{path}{where} is outside the workspace"
            raise FileRefused(
                "outside", path, said, "use a path inside the projects, or add a project to the session"
            )
        return max(found, key=len)


def _lies_in(place: str, root: str) -> bool:
    return place == root or place.startswith(root.rstrip("/") + "/")


def _is_at(place: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(place), status)
    except OSError:
        return False


def _held_by_name(place: str) -> int:
    top = os.open("/", DIRECTORY)
    try:
        return openat2(top, place.strip("/") or ".", DIRECTORY, resolve=STRICT)
    finally:
        os.close(top)


def _require_named(held: int, path: str) -> None:
    named = _held_by_name(path)
    try:
        if not os.path.samestat(os.fstat(held), os.fstat(named)):
            raise OSError(errno.EAGAIN, "another directory has its name now")
    finally:
        os.close(named)


@contextmanager
def opened(spot: HeldName, flags: int, path: str) -> Iterator[int]:
    """Opens the regular file at a name, and nothing but regular files."""
    try:
        held = openat2(spot.directory, spot.name or ".", os.O_PATH | os.O_NOFOLLOW, resolve=STRICT)
    except OSError as error:
        raise _refusal(error, path) from None
    try:
        require_file(os.fstat(held), path)
        try:
            descriptor = reopen(held, flags | os.O_NOCTTY)
        except OSError as error:
            raise _refusal(error, path) from None
    finally:
        os.close(held)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def require_file(status: os.stat_result, path: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    raise FileRefused("not_a_file", path, f"{path} is {kind}, not a file", "name a file")


KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def follow(path: str, start: str, *, itself: bool = False) -> str:
    """Where a path leads now, with every link followed; its end may be absent.

    With `itself`, a link at its end is not followed.
    """
    if not path or "\0" in path:
        what = "contains a NUL character" if path else "is empty"
        raise FileRefused("malformed_path", path, f"the path {what}", "send a path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        # JSON may contain half of a character (a surrogate), which no file name and no message can have.
        spelled = path.encode(errors="backslashreplace").decode()
        said = f"{spelled} has {error.object[error.start]!r}, which is half of a Unicode character"
        raise FileRefused("malformed_path", spelled, said, "send a path") from None
    if path.split("/", 1)[0] == "~":
        # Only shells expand `~`: taken literally, it would become a directory of that name.
        raise FileRefused(
            "malformed_path",
            path,
            f"{path} begins with `~`, which only a shell expands",
            "send the full path",
        )
    for step in walk_path(os.path.join(start, path)):
        if f"{step.place}/".startswith(MAGIC):
            raise FileRefused("magic_path", path, f"{path} leads into {step.place}", "name the file itself")
        if itself and step.is_last:
            return step.place
    if step.is_link:
        raise FileRefused("too_many_links", path, f"{path} is an endless chain of symbolic links", "")
    return step.place


def _refusal(error: OSError, path: str) -> FileRefused:
    if error.errno in SWAPPED:
        return FileRefused("swapped", path, f"{path} changed while it was being opened", "try again")
    said = os.strerror(error.errno or errno.EIO)
    return FileRefused("unreachable", path, f"{path}: {said}", "")


PASSED_OVER = frozenset({".git", "node_modules", ".venv", "__pycache__", ".tox"})
"""Skipped by walks, unless a path names them."""
DEEPEST = 64
LONGEST_GLOB = 1_000
MOST_PARTS = 64
ANY = "**"


def walk(directory: int, above: str = "", depth: int = 0) -> Iterator[tuple[str, int, str, os.stat_result]]:
    """Every name below a directory, in order, as path, descriptor of its directory, name and status."""
    for name in sorted(os.listdir(directory)):
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        path = f"{above}{name}"
        yield path, directory, name, status
        if not stat.S_ISDIR(status.st_mode) or name in PASSED_OVER or depth == DEEPEST:
            continue
        try:
            below = openat2(directory, name, os.O_RDONLY | os.O_DIRECTORY, resolve=STRICT)
        except OSError:
            continue
        try:
            yield from walk(below, f"{path}/", depth + 1)
        finally:
            os.close(below)


def matches(pattern: str, path: str) -> bool:
    """A glob over a whole relative path: `**` is any number of directories, `*` stays within one."""
    wanted, parts = pattern.split("/"), path.split("/")
    # How many parts of the pattern the path may have matched so far.
    reached = _past_any(wanted, {0})
    for part in parts:
        found = {place for place in reached if place < len(wanted) and wanted[place] == ANY}
        found |= {place + 1 for place in reached if place < len(wanted) and fnmatchcase(part, wanted[place])}
        reached = _past_any(wanted, found)
    return len(wanted) in reached


def _past_any(wanted: list[str], reached: set[int]) -> set[int]:
    """Adds the positions after each `**`, which may also match nothing."""
    for place in range(len(wanted)):
        if place in reached and wanted[place] == ANY:
            reached.add(place + 1)
    return reached
