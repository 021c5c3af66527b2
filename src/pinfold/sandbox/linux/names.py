"""Making names on a caller's behalf: files, directories, links, and what is renamed.

Where a name would be made decides who makes it:
- where Landlock leaves the caller all rights (a private /tmp), and where it may write nothing at all, the
  kernel goes on with the call: it allows or refuses by itself, whatever the path has become meanwhile;
- in a writable root the warden does it, through a descriptor of the parent directory that it holds, once
  `Names.judge` has found nothing against the name that the directory really has in the pen.

Facts that shape it:
- Paths are walked as the caller's: from its directory or descriptor, in the same mounts and root. But links
  of /proc (magic links) would be followed with our power to trace, and /proc/self is not us: such a walk is
  refused (RESOLVE_NO_MAGICLINKS), and the call goes back to the kernel.
- An open for writing makes no name if the name exists, so it goes back: it may block (a FIFO), be a device,
  mean the caller (/dev/stdout). The boundary judges it again.
- Every rename in a root is ours, so while one call is answered nothing in this pen moves. The session's other
  pens are kept still by `moving` where it matters.
- The kernel follows at most 40 links in a walk.

Accepted: a program that has put itself under a Landlock domain of its own gets names made where that domain
would refuse them; its pen's boundary holds all the same. Nothing tells us of such a domain.
A name reached by a link of /proc (`/proc/self/cwd/new`) cannot be made in a root; one that exists can be
opened.
"""

import errno
import os
import stat
from collections.abc import Callable
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple

from pinfold.kernel import quick
from pinfold.kernel.files import (
    AT_EMPTY_PATH,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    RESOLVE_NO_MAGICLINKS,
    linkat,
    renameat2,
)
from pinfold.model.names import GIT, Children, Match, Matches, NameMatcher, NameRule, components, folded
from pinfold.sandbox.linux import bare
from pinfold.sandbox.linux.caller import AT_FDCWD, DIRECTORY, Caller, as_int
from pinfold.sandbox.linux.moving import Moving
from pinfold.sandbox.linux.records import Records
from pinfold.sandbox.linux.umasks import Umasks

AT_SYMLINK_FOLLOW = 0x400
O_TMPFILE = os.O_TMPFILE
CREAT = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
ALL_FLAGS = 0x7FFFFFFF
MODE = 0o3777
"""Not what makes a program run as its owner, as with chmod (`seccomp.profile`)."""
NEVER_CREATES = os.O_PATH | os.O_DIRECTORY
MOST_LINKS = 40
REMEMBERED = 4096
PROTECTED, HELD = errno.EROFS, errno.EBUSY
"""What a protected name that exists answers too, since it is mounted read-only: to a write, to a rename."""
MOST_INSIDE = 10_000
"""How many names are looked at in a directory that is moved to, or from, where names are protected."""
UNSEEN = "what it holds cannot be told"
OUTSIDE = "it lies outside of what may be written"
OWN_DESCRIPTORS = (b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/")

REFUSED_NAMES = (b"", b"/", b".", b"..", b"./", b"../")
"""No name can be made of these; the kernel says so."""

Handler = Callable[[Caller], None]
End = tuple[int, int]
"""One path of a call: the descriptor that it starts from, and where its text is."""


class Grounds(NamedTuple):
    """What a plan says of places."""

    roots: tuple[str, ...]
    """Where protected names hold."""
    watched: tuple[str, ...]
    """Where names are made by the warden: roots, and what has a root in it."""
    free: tuple[str, ...]
    """Where they are made by whoever wants them."""

    @classmethod
    def of(cls, operations: tuple[tuple[object, ...], ...]) -> "Grounds":
        binds = tuple(str(each[1]) for each in operations if each[0] == "bind" and each[2])
        rules: Any = next((each[1] for each in operations if each[0] == "landlock"), ())
        watched = tuple(path for path, access in rules if "remove" in access and "make" not in access)
        return cls(binds, watched, tuple(path for path, access in rules if "make" in access))

    def is_watched(self, path: str) -> bool:
        return any(_within(path, root) for root in self.watched) and not self.is_free(path)

    def is_free(self, path: str) -> bool:
        return any(_within(path, place) for place in self.free)


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
        return self.place.children.get(self.key, ())

    def status(self) -> os.stat_result | None:
        """Of what is there, no link followed."""
        try:
            return os.stat(self.name.rstrip(b"/"), dir_fd=self.directory, follow_symlinks=False)
        except OSError:
            return None


class Wish(NamedTuple):
    """A protected name is wanted, or would be given away."""

    operation: str
    spot: Spot
    match: Match
    other: Spot | None
    """The other end of a rename or link."""


class Verdict(Enum):
    REFUSED = "refused"
    ANSWERED = "answered"
    """It was done in another way, and the caller has its answer."""
    GO_ON = "go on"


Exemption = Callable[[Caller, Wish], Verdict | None]
"""What may still be said for a protected name that is wanted; None if it is no matter of this one."""


class Names:
    def __init__(
        self,
        proc: int,
        records: Records,
        grounds: Grounds,
        rules: list[NameRule],
        moving: Moving,
    ) -> None:
        self.own = os.open("self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
        self.records = records
        self.grounds = grounds
        self.matcher = NameMatcher(rules, grounds.roots)
        self.moving = moving
        self.inside = tuple(os.fsencode(f"{path}/") for path in (*grounds.watched, *grounds.free))
        self.places: dict[bytes, Place] = {}
        self.held: list[int] = []
        """Directories of the call that is being answered."""
        self.umasks = Umasks(proc)
        self.exemptions: list[Exemption] = []
        self.handlers = {name: self._releasing(handler) for name, handler in self._calls().items()}

    def _calls(self) -> dict[str, Handler]:
        """By their arguments: a path has a descriptor before it, or starts where the caller is."""
        here = AT_FDCWD
        return {
            "open": lambda it: self.open(it, here, *it.arguments[:3]),
            "openat": lambda it: self.open(it, as_int(it.arguments[0]), *it.arguments[1:4]),
            "creat": lambda it: self.open(it, here, it.arguments[0], CREAT, it.arguments[1]),
            "mkdir": lambda it: self.mkdir(it, here, *it.arguments[:2]),
            "mkdirat": lambda it: self.mkdir(it, as_int(it.arguments[0]), *it.arguments[1:3]),
            "mknod": lambda it: self.mknod(it, here, *it.arguments[:2]),
            "mknodat": lambda it: self.mknod(it, as_int(it.arguments[0]), *it.arguments[1:3]),
            "symlink": lambda it: self.symlink(it, it.arguments[0], here, it.arguments[1]),
            "symlinkat": lambda it: self.symlink(
                it, it.arguments[0], as_int(it.arguments[1]), it.arguments[2]
            ),
            "link": lambda it: self.link(it, (here, it.arguments[0]), (here, it.arguments[1]), 0),
            "linkat": lambda it: self.link(it, *_two_ends(it), it.arguments[4] & 0xFFFFFFFF),
            "rename": lambda it: self.rename(it, (here, it.arguments[0]), (here, it.arguments[1]), 0),
            "renameat": lambda it: self.rename(it, *_two_ends(it), 0),
            "renameat2": lambda it: self.rename(it, *_two_ends(it), it.arguments[4] & 0xFFFFFFFF),
        }

    def _releasing(self, handler: Handler) -> Handler:
        held = self.held

        def answer(caller: Caller) -> None:
            try:
                handler(caller)
            finally:
                while held:
                    os.close(held.pop())
                if self.moving.locked:
                    self.moving.release()

        return answer

    # The calls.

    def open(self, caller: Caller, base: int, address: int, flags: int, mode: int) -> None:
        # Of a register the kernel takes what fits the argument's type.
        flags, mode = flags & ALL_FLAGS, mode & MODE
        if flags & O_TMPFILE == O_TMPFILE:
            return self._open_unnamed(caller, base, address, flags, mode)
        path = caller.text(address)
        if not path or path.endswith(b"/") or _names_a_device(path):
            return caller.resume()
        if not flags & os.O_CREAT or flags & NEVER_CREATES:
            self._note_outside(caller, base, path)
            return caller.resume()
        spot = self._spot(caller, base, path)
        if flags & os.O_EXCL and spot and spot.place.made_by_warden:
            return self._create(caller, spot, flags, mode)
        for _ in range(MOST_LINKS):
            if spot is None or not self._is_ours(caller, "open", spot):
                return caller.resume()
            if not flags & os.O_EXCL:
                link = quick.readlinkat(spot.directory, spot.name)
                if link == -errno.EINVAL or (isinstance(link, bytes) and flags & os.O_NOFOLLOW):
                    # It exists. A mount of its own refuses it as a rule, unless the host has just made it.
                    lost = any(not match.rest for match in spot.matches())
                    return None if lost and self.judge(caller, "open", spot) else caller.resume()
                if isinstance(link, bytes):
                    # Its target's place is judged as any, since the target may not be there.
                    spot = self._walk(spot.directory, link)
                    continue
            return self._create(caller, spot, flags, mode)
        return caller.refuse(errno.ELOOP)

    def _note_outside(self, caller: Caller, base: int, path: bytes) -> None:
        """A write to what exists is refused by the kernel alone. It is noted where the text says enough."""
        if path.startswith(b"/") and not path.startswith(self.inside):
            spot = self._spot(caller, base, path)
            if spot and spot.status():
                self._is_ours(caller, "open", spot)

    def _create(self, caller: Caller, spot: Spot, flags: int, mode: int) -> None:
        if self.judge(caller, "open", spot) or not self._ready(caller):
            return None
        try:
            # O_EXCL follows no link either, and is not seen in the descriptor's flags afterwards.
            made = os.open(spot.name, flags | os.O_EXCL, mode, dir_fd=spot.directory)
        except FileExistsError:
            return caller.resume()
        try:
            caller.give(made, bool(flags & os.O_CLOEXEC))
        except OSError as error:
            os.unlink(spot.name, dir_fd=spot.directory)
            caller.refuse(error.errno or errno.EMFILE)
        finally:
            os.close(made)
        return None

    def _open_unnamed(self, caller: Caller, base: int, address: int, flags: int, mode: int) -> None:
        """O_TMPFILE: the path is the directory's. It gets its name by a link, which is judged then."""
        path = caller.text(address)
        spot = self._directory(caller, base, path) if path else None
        if spot is None or not self._is_ours(caller, "open", spot):
            return caller.resume()
        if spot.place.inside:
            return self._refuse(caller, "open", spot, spot.place.inside)
        if not self._ready(caller):
            return None
        made = quick.openat(spot.directory, b".", flags, mode)
        if made < 0:
            return caller.refuse(-made)
        try:
            return caller.give(made, bool(flags & os.O_CLOEXEC))
        finally:
            os.close(made)

    def mkdir(self, caller: Caller, base: int, address: int, mode: int) -> None:
        spot = self._wanted(caller, "mkdir", base, address)
        if spot is None or self.judge(caller, "mkdir", spot, directory=True) or not self._ready(caller):
            return
        os.mkdir(spot.name, mode & MODE, dir_fd=spot.directory)
        caller.succeed()

    def mknod(self, caller: Caller, base: int, address: int, mode: int) -> None:
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK):
            return caller.resume()
        spot = self._wanted(caller, "mknod", base, address)
        if spot is None or self.judge(caller, "mknod", spot) or not self._ready(caller):
            return None
        os.mknod(spot.name, mode & (0o170000 | MODE), dir_fd=spot.directory)
        return caller.succeed()

    def symlink(self, caller: Caller, target: int, base: int, address: int) -> None:
        text = caller.text(target)
        spot = self._wanted(caller, "symlink", base, address)
        if spot is None:
            return None
        if not text:
            return caller.resume()
        if self.judge(caller, "symlink", spot) or not caller.is_waiting():
            return None
        os.symlink(text, spot.name, dir_fd=spot.directory)
        return caller.succeed()

    def link(self, caller: Caller, old: End, new: End, flags: int) -> None:
        source = caller.text(old[1])
        spot = self._wanted(caller, "link", *new)
        if spot is None:
            return None
        if source is None:
            return caller.resume()
        if flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH):
            return caller.refuse(errno.EINVAL)
        thing = self._thing(caller, old[0], source, flags)
        if thing < 0:
            return caller.refuse(-thing)
        origin = self._origin(thing)
        lost = next((match for match in self._matches_of(origin) if not match.rest), None)
        if lost:
            return self._refuse(caller, "link", origin, lost)
        if self.judge(caller, "link", spot) or not caller.is_waiting():
            return None
        linkat(self.own, b"%d" % thing, spot.directory, spot.name, AT_SYMLINK_FOLLOW)
        return caller.succeed()

    def rename(self, caller: Caller, old: End, new: End, flags: int) -> None:
        self.moving.hold(move=True)
        source = self._wanted(caller, "rename", *old)
        spot = self._wanted(caller, "rename", *new) if source else None
        if source is None or spot is None:
            return None
        if flags & ~(RENAME_EXCHANGE | RENAME_NOREPLACE):
            return caller.refuse(errno.EINVAL)
        for gets, gives in ((spot, source), (source, spot))[: 2 if flags & RENAME_EXCHANGE else 1]:
            if self._judge_move(caller, gives, gets):
                return None
        if not caller.is_waiting():
            return None
        renameat2(source.directory, source.name, spot.directory, spot.name, flags)
        return caller.succeed()

    # Judging.

    def judge(
        self, caller: Caller, operation: str, spot: Spot, directory: bool = False, other: Spot | None = None
    ) -> bool:
        """The one place where a protected name that is wanted is judged: True if the caller has its answer.

        On the way to a protected name (`.git` of `.git/hooks`) only real directories may stand: a link would
        lead to names that nobody judged, and a file named `.git` leads git to another directory.
        """
        matches = spot.matches() or bare.completes(spot)
        if not matches or (directory and matches[0].rest):
            return False
        if matches[0].unless_file and matches[0].rest and _makes_file(operation, other):
            return False
        wish = Wish(operation, spot, matches[0], other)
        for exemption in self.exemptions:
            verdict = exemption(caller, wish)
            if verdict is not None:
                break
        else:
            verdict = Verdict.REFUSED
        if verdict is Verdict.REFUSED:
            self._refuse(caller, operation, spot, matches[0])
        return verdict is not Verdict.GO_ON

    def _judge_move(self, caller: Caller, source: Spot, spot: Spot) -> bool:
        """Whether something may leave the one name for the other; True if the caller has its answer."""
        status = source.status()
        if status is None:
            caller.refuse(errno.ENOENT)
            return True
        directory = stat.S_ISDIR(status.st_mode)
        lost = next((match for match in source.matches() if not match.rest), None)
        if lost is None and directory:
            lost = self._held_at(source, source)
        if lost:
            self._refuse(caller, "rename", source, lost)
            return True
        if directory and (gained := self._held_at(source, spot)):
            self._refuse(caller, "rename", spot, gained)
            return True
        return self.judge(caller, "rename", spot, directory=directory, other=source)

    def _held_at(self, source: Spot, spot: Spot) -> Match | None:
        """The protected name that a directory has in it, or would have at another spot."""
        if spot.matches() or GIT in components(spot.path) or GIT in components(source.path):
            return self._inner(source.directory, source.name.rstrip(b"/"), spot.path, [MOST_INSIDE])
        return None

    def _inner(self, directory: int, name: bytes, path: str, left: list[int]) -> Match | None:
        """The first protected name in a directory, were it at this path. What cannot be seen is one."""
        children = self.matcher.children(path)
        if isinstance(children, Match):
            return children
        inner = quick.openat(directory, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if inner < 0:
            return Match(NameRule(path, UNSEEN))
        try:
            with os.scandir(inner) as listed:
                entries = list(islice(listed, left[0] + 1))
                if not bare.is_git_by_name(path) and bare.is_repository([entry.name for entry in entries]):
                    return Match(bare.RULE)
                for entry in entries:
                    left[0] -= 1
                    found = children.get(folded(entry.name), ())
                    below = f"{path}/{entry.name}"
                    if left[0] < 0:
                        return Match(NameRule(path, UNSEEN))
                    if not entry.is_dir(follow_symlinks=False):
                        if found:
                            return found[0]
                    elif found and not found[0].rest:
                        return found[0]
                    elif deeper := self._inner(inner, os.fsencode(entry.name), below, left):
                        return deeper
        finally:
            os.close(inner)
        return None

    def _refuse(self, caller: Caller, operation: str, spot: Spot | str, match: Match) -> None:
        path = spot if isinstance(spot, str) else spot.path
        self.record(caller, operation, path, match.rule.name, match.rule.why, match.rule.grantable)
        exists = operation == "rename" and isinstance(spot, Spot) and spot.status()
        caller.refuse(HELD if exists else PROTECTED)

    def record(self, caller: Caller, operation: str, path: str, rule: str, why: str, grantable: bool) -> None:
        self.records.add(caller.tag(), operation, path, rule, why, caller.program(), caller.pid, grantable)

    # Finding.

    def _wanted(self, caller: Caller, operation: str, base: int, address: int) -> Spot | None:
        """The spot that a call names, if it is for us to make it; else the call has gone back."""
        path = caller.text(address)
        spot = self._spot(caller, base, path) if path else None
        if spot is None or not self._is_ours(caller, operation, spot):
            caller.resume()
            return None
        return spot

    def _is_ours(self, caller: Caller, operation: str, spot: Spot) -> bool:
        """Whether the warden makes names here. If nobody may, that is noted."""
        place = spot.place
        if place.made_by_warden:
            return True
        if not place.free and (operation == "open" or spot.status() is None):
            self.record(caller, operation, spot.path, "", OUTSIDE, True)
        return False

    def _spot(self, caller: Caller, base: int, path: bytes) -> Spot | None:
        """Where a path leads, its last name apart; None if that cannot be told, or not by us."""
        if path.startswith(b"/"):
            return self._walk(AT_FDCWD, path)
        start = caller.directory(base)
        if start < 0:
            return None
        self.held.append(start)
        return self._walk(start, path)

    def _directory(self, caller: Caller, base: int, path: bytes) -> Spot | None:
        """The directory that a path names, as the spot of an empty name in it."""
        start = AT_FDCWD if path.startswith(b"/") else caller.directory(base)
        if start >= 0:
            self.held.append(start)
        elif start != AT_FDCWD:
            return None
        found = quick.openat2(start, path, DIRECTORY, RESOLVE_NO_MAGICLINKS)
        if found < 0:
            return None
        self.held.append(found)
        return self._at(found, b"")

    def _walk(self, start: int, path: bytes) -> Spot | None:
        head, slash, name = path.rpartition(b"/")
        if slash and not name:
            head, slash, name = path.rstrip(b"/").rpartition(b"/")
            name += b"/"
        if name in REFUSED_NAMES:
            return None
        if slash:
            start = quick.openat2(start, head or b"/", DIRECTORY, RESOLVE_NO_MAGICLINKS)
            if start < 0:
                return None
            self.held.append(start)
        return self._at(start, name)

    def _at(self, directory: int, name: bytes) -> Spot:
        key = folded(name.decode("utf-8", "surrogateescape").rstrip("/"))
        if key in bare.COMPLETED_BY:
            # Two pens must not each make one half of a repository.
            self.moving.hold(move=True)
        elif key in self.moving.tails:
            self.moving.hold(move=False)
        path = os.readlink(b"%d" % directory, dir_fd=self.own)
        return Spot(directory, self.places.get(path) or self._place(path), name, key)

    def _place(self, path: bytes) -> Place:
        text = os.fsdecode(path)
        children = self.matcher.children(text)
        place = Place(
            text,
            self.grounds.is_watched(text),
            self.grounds.is_free(text),
            children if isinstance(children, Match) else None,
            {} if isinstance(children, Match) else children,
        )
        if len(self.places) >= REMEMBERED:
            self.places.clear()
        self.places[path] = place
        return place

    def _thing(self, caller: Caller, base: int, path: bytes, flags: int) -> int:
        """What a link is to be made of, held by a descriptor; -errno if there is none."""
        number = base if not path and flags & AT_EMPTY_PATH else _own_descriptor(path, flags)
        if number is not None:
            try:
                found = caller.descriptor(number)
            except OSError as error:
                return -(error.errno or errno.EBADF)
        else:
            follow = 0 if flags & AT_SYMLINK_FOLLOW else os.O_NOFOLLOW
            start = AT_FDCWD if path.startswith(b"/") else caller.directory(base)
            if start < 0 and start != AT_FDCWD:
                return start
            if start >= 0:
                self.held.append(start)
            found = quick.openat2(start, path, os.O_PATH | follow, RESOLVE_NO_MAGICLINKS)
        if found >= 0:
            self.held.append(found)
        return found

    def _origin(self, thing: int) -> str:
        path = quick.readlinkat(self.own, b"%d" % thing)
        return os.fsdecode(path) if isinstance(path, bytes) else ""

    def _matches_of(self, path: str) -> Matches:
        return self.matcher.matches(path) if path.startswith("/") else ()

    def _ready(self, caller: Caller) -> bool:
        """Takes over the caller's umask; False if it is no longer there."""
        self.umasks.take_over(caller.pid)
        return caller.is_waiting()


def _two_ends(caller: Caller) -> tuple[End, End]:
    one, two, three, four = caller.arguments[:4]
    return (as_int(one), two), (as_int(three), four)


def _makes_file(operation: str, source: Spot | None) -> bool:
    """Whether a plain file gets the name, for sure."""
    status = source.status() if source and operation == "rename" else None
    return operation == "open" or (status is not None and stat.S_ISREG(status.st_mode))


def _within(path: str, above: str) -> bool:
    return path == above or path.startswith(above if above == "/" else f"{above}/")


def _names_a_device(path: bytes) -> bool:
    """Devices and processes: what can be opened there exists."""
    return path.startswith((b"/dev/", b"/proc/")) and not path.startswith(b"/dev/shm/")


def _own_descriptor(path: bytes, flags: int) -> int | None:
    """The caller's own descriptor that a path names, as the manual of open(2) has it for O_TMPFILE."""
    for start in OWN_DESCRIPTORS:
        if flags & AT_SYMLINK_FOLLOW and path.startswith(start) and path[len(start) :].isdigit():
            return int(path[len(start) :])
    return None
