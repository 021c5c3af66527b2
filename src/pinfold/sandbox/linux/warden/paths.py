"""Resolves a caller's path to the directory where a name would be made, holds it, and says which rules apply.

Facts that shape it:
- The warden walks paths as the caller would: from its working directory or descriptor, in the same mounts and
  root. But the kernel would follow links of /proc (magic links) with our capability to trace, and /proc/self
  means the warden. Such a walk is refused (RESOLVE_NO_MAGICLINKS), and the call goes back to the kernel.
- The kernel reports a held directory's path anew each time. So it is the present path, even if a command or
  the host has moved the directory. Only what the rules say about a path is cached.
- A mount follows the directory that it is mounted on. If another session's commands move a writable root, the
  root has its new path in this pen too, where it is no root. But a root in a private /tmp is mounted on a
  directory of the pen's own and keeps its path. A descriptor from outside tells: its path is the present one
  of what it holds, without the part above the mount, once the pen has left the host's mounts behind.
- The directories above a root in a private /tmp belong to the session, so commands can rename them. The root
  then has another path, which no rule covers. The device number reveals this: no root lies on the device of
  the private /tmp.
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
from pinfold.sandbox.linux.protocol.rename_lock import RenameLock
from pinfold.sandbox.linux.warden.caller_state import CallerDirectories
from pinfold.sandbox.linux.warden.notification import DIRECTORY, Caller

REMEMBERED = 4096
SLASH = ord("/")
MOST_STEPS = 64
"""How many steps back to follow a path that leads nowhere: all other calls wait meanwhile."""
REFUSED_NAMES = (b"", b"/", b".", b"..", b"./", b"../")
"""The kernel makes no name of these."""


class PlanPaths(NamedTuple):
    """The paths of a plan, by what may make names below them."""

    roots: tuple[str, ...]
    """Writable directories, where protected names are checked."""
    watched: tuple[str, ...]
    """Where the warden makes names: roots, and directories that contain a root."""
    free: tuple[str, ...]
    """Where callers make names by themselves."""
    read_only: tuple[str, ...]
    """Read-only paths, which may lie inside `free` ones."""

    @classmethod
    def of(cls, operations: Operations) -> "PlanPaths":
        binds = of_kind(operations, Bind)
        writable = tuple(each.path for each in binds if each.writable)
        read_only = tuple(each.path for each in binds if not each.writable)
        rules = [rule for each in of_kind(operations, Landlock) for rule in each.rules]
        watched = tuple(rule.path for rule in rules if "remove" in rule.access and "make" not in rule.access)
        free = tuple(rule.path for rule in rules if "make" in rule.access)
        return cls(writable, watched, free, read_only)

    def is_in_root(self, path: str) -> bool:
        return any(_within(path, root) for root in self.roots)

    def has_root(self, path: str) -> bool:
        """Whether a root lies below a directory."""
        return any(root != path and _within(root, path) for root in self.roots)

    def warden_creates_in(self, path: str) -> bool:
        return any(_within(path, root) for root in self.watched) and not self.caller_creates_in(path)

    def caller_creates_in(self, path: str) -> bool:
        if not any(_within(path, each) for each in self.free):
            return False
        return not any(_within(path, each) for each in self.read_only)


class ParentDirectory(NamedTuple):
    """What the rules say about a directory, by its path in the pen."""

    path: str
    warden_creates: bool
    caller_creates: bool
    """Whether the caller may make names without the warden."""
    protection: Match | None
    """The protected name that the directory is or lies in."""
    children: Children
    """The rules for names in it."""
    in_git: bool
    """Whether the path contains a git directory's name."""
    is_scratch: bool = False
    """Whether the warden makes names in it only because a root lies in the same private /tmp."""


class PathTarget(NamedTuple):
    """A name, and the directory that it is in, which the warden holds open."""

    directory: int
    parent: ParentDirectory
    name: bytes
    """As the caller wrote it, with a slash at its end if there was one."""
    key: str
    """The name in the spelling that rules are matched with."""

    @property
    def path(self) -> str:
        return f"{self.parent.path.rstrip('/')}/{os.fsdecode(self.name.rstrip(b'/'))}"

    def matches(self) -> Matches:
        if self.parent.protection:
            return (self.parent.protection,)
        children = self.parent.children
        return children.get(key_in(children, self.key), ())

    def protected_by(self) -> Match | None:
        """The rule that protects the existing thing. A `.git` that is a file, as in worktrees and submodules,
        is protected itself, although the rules only cover names inside `.git`."""
        matches = self.matches()
        whole = reached(matches)
        if whole or not matches or self.key != GIT:
            return whole
        status = self.status()
        return matches[0] if status and stat.S_ISREG(status.st_mode) else None

    def status(self) -> os.stat_result | None:
        """Of the existing thing itself, without following a link; None if there is none."""
        try:
            return os.stat(self.name.rstrip(b"/"), dir_fd=self.directory, follow_symlinks=False)
        except OSError:
            return None


class PathResolver:
    """Resolves paths to targets. `release` closes what it holds for one call."""

    def __init__(self, proc: int, plan: PlanPaths, matcher: NameMatcher, rename_lock: RenameLock) -> None:
        self.own_fds = os.open("self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
        """Our own /proc/self/fd."""
        self.directories = CallerDirectories(proc)
        self.plan = plan
        self.matcher = matcher
        self.rename_lock = rename_lock
        self.locked_names = rename_lock.tails.union(COMPLETED_BY)
        """Names that must not be made while another pen makes or moves such a name."""
        self.roots = [
            (os.fsencode(root), *self._start_path(root, held)) for root, held in rename_lock.roots.items()
        ]
        """The roots, a descriptor of each from outside, and the path that it had at first."""
        self.scratch = {os.stat(path).st_dev for path in plan.watched if not plan.is_in_root(path)}
        """The devices of private directories that contain roots."""
        self.parents: dict[bytes, ParentDirectory] = {}
        """By their paths, as the kernel reports them."""
        self.unprotected: dict[bytes, Children] = {}
        """The parents where the warden makes names, with the rules for the few names that are protected in
        them."""
        self.held: list[int] = []
        """Descriptors of the call that is being answered."""
        self.bases: dict[int, int] = {}
        """The directories that its relative paths start from, by the caller's descriptor."""

    @property
    def is_holding(self) -> bool:
        return bool(self.held) or self.rename_lock.locked

    def release(self) -> None:
        while self.held:
            os.close(self.held.pop())
        self.bases.clear()
        if self.rename_lock.locked:
            self.rename_lock.release()

    def find(self, caller: Caller, base: int, path: bytes) -> PathTarget | None:
        """The target of a path: its directory and its last name; None if we cannot resolve or serve it."""
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

    def walk(self, start: int, path: bytes) -> PathTarget | None:
        """The target of a path that starts at a directory we hold."""
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
        return self._target(start, name)

    def require_parents(self, base: int, path: bytes) -> None:
        """Called after `find` has found nothing. Raises FileNotFoundError if a directory on the way is
        missing where the warden makes names. The kernel must not answer then: if another call makes the
        directory meanwhile, the caller would get EACCES, in a place where it may make names."""
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
        # A link may lead to something of the caller's own (/proc/self), which we cannot see.
        is_link = missing and isinstance(fast_calls.readlinkat(found, missing), bytes)
        if missing and not is_link and self._target(found, b"").parent.warden_creates:
            raise FileNotFoundError(errno.ENOENT, "a directory on the way is missing")

    def directory(self, caller: Caller, base: int, path: bytes) -> PathTarget | None:
        """The directory that a path names, as the target of an empty name in it."""
        found = self.open_path(caller, base, path, DIRECTORY)
        return None if found < 0 else self._target(found, b"")

    def open_path(self, caller: Caller, base: int, path: bytes, flags: int) -> int:
        """What a path leads to, as an O_PATH descriptor; -errno if it leads nowhere."""
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
        """The path in the pen of something we hold; empty if it cannot be told."""
        path = fast_calls.readlinkat(self.own_fds, b"%d" % descriptor)
        return os.fsdecode(path) if isinstance(path, bytes) else ""

    def absolute(self, caller: Caller, base: int, path: bytes) -> bytes:
        """The absolute path by its text alone; empty if it cannot be told.

        This is cheap, since nothing is opened. But only a walk of that text, or the kernel's own check, makes
        it safe to rely on: a directory may have been replaced by a link meanwhile.
        """
        if path[0] == SLASH:
            return path
        start = self.directories.path(caller.pid, base)
        return start and start + b"/" + path.removeprefix(b"./")

    def is_unprotected(self, path: bytes) -> bool:
        """Whether the text of a path shows that the warden makes names there and that no rule covers it, now
        or later."""
        head, _, name = path.rpartition(b"/")
        children = self.unprotected.get(head)
        if children is None:
            return False
        key = folded(name.decode("utf-8", "surrogateescape"))
        return key_in(children, key) not in children and key not in self.locked_names

    def _target(self, directory: int, name: bytes) -> PathTarget:
        key = folded(name.decode("utf-8", "surrogateescape").rstrip("/"))
        needs_lock = key in self.locked_names
        if needs_lock:
            self.rename_lock.acquire()
        path = os.readlink(b"%d" % directory, dir_fd=self.own_fds)
        if needs_lock:
            self._require_in_place(path)
        parent = self.parents.get(path) or self._describe(path)
        if parent.is_scratch:
            self._require_scratch(directory)
        return PathTarget(directory, parent, name, key)

    def _require_scratch(self, directory: int) -> None:
        """Raises OSError in a writable root that commands have moved."""
        if os.fstat(directory).st_dev in self.scratch or os.fstatvfs(directory).f_flag & os.ST_RDONLY:
            return
        raise OSError(errno.EBUSY, "a directory above its root was moved")

    def _start_path(self, root: str, held: int) -> tuple[int, bytes]:
        """A descriptor and the path that it leads to; an empty path if that is not the root any more."""
        path = os.readlink(b"%d" % held, dir_fd=self.own_fds)
        return held, path if os.fsencode(root).endswith(path.rstrip(b"/")) else b""

    def _require_in_place(self, path: bytes) -> None:
        for root, held, before in self.roots:
            is_in = path == root or path.startswith(root + b"/")
            if is_in and os.readlink(b"%d" % held, dir_fd=self.own_fds) != before:
                raise OSError(errno.EBUSY, "its root was moved")

    def _describe(self, path: bytes) -> ParentDirectory:
        text = os.fsdecode(path)
        children = self.matcher.children(text)
        is_watched = self.plan.warden_creates_in(text)
        is_scratch = is_watched and not self.plan.is_in_root(text)
        parent = ParentDirectory(
            text,
            is_watched,
            self.plan.caller_creates_in(text),
            children if isinstance(children, Match) else None,
            {} if isinstance(children, Match) else children,
            GIT in components(text),
            is_scratch,
        )
        if len(self.parents) >= REMEMBERED:
            self.parents.clear()
            self.unprotected.clear()
        self.parents[path] = parent
        # Other kinds of children have a rule for any name. A scratch directory's path may become a root's.
        if is_watched and not is_scratch and not parent.protection and type(parent.children) is dict:
            self.unprotected[path] = parent.children
        return parent


def _within(path: str, above: str) -> bool:
    return path == above or path.startswith(above if above == "/" else f"{above}/")
