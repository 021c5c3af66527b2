"""Making names on a caller's behalf: directories, links, and what is renamed; files are made by `opening`.

Where a name would be made decides who makes it:
- where Landlock leaves the caller all rights (a private /tmp), and where it may write nothing at all, the
  kernel goes on with the call: it allows or refuses by itself, whatever the path has become meanwhile;
- in a writable root the warden does it, through a descriptor of the parent directory that it holds (`spots`),
  once nothing is found against the name that the directory really has in the pen (`judging`).

Facts that shape it:
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

from pinfold.kernel import fast_calls
from pinfold.kernel.files import (
    AT_EMPTY_PATH,
    AT_FDCWD,
    AT_SYMLINK_FOLLOW,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    linkat,
    renameat2,
)
from pinfold.model.env_files import is_env_file
from pinfold.model.protected_names import NameMatcher, reached
from pinfold.sandbox.linux.protocol.file_change import MODE
from pinfold.sandbox.linux.protocol.rename_lock import Moving
from pinfold.sandbox.linux.warden.caller_state import Umasks
from pinfold.sandbox.linux.warden.notification import Caller, Handler, as_int
from pinfold.sandbox.linux.warden.paths import Grounds, Spot, Spots
from pinfold.sandbox.linux.warden.rules import Judge
from pinfold.sandbox.linux.warden.violations import Records

MOST_LINKS = 40
OWN_DESCRIPTORS = (b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/")

End = tuple[int, int]
"""One path of a call: the descriptor that it starts from, and where its text is."""


class Names:
    def __init__(
        self,
        proc: int,
        records: Records,
        grounds: Grounds,
        matcher: NameMatcher,
        moving: Moving,
    ) -> None:
        self.matcher = matcher
        self.records = records
        self.moving = moving
        self.spots = Spots(proc, grounds, matcher, moving)
        self.judging = Judge(records, matcher)
        self.judge = self.judging.judge
        self.free, self.closed = (
            tuple(os.fsencode(f"{path}/") for path in places) for places in (grounds.free, grounds.closed)
        )
        self.umasks = Umasks(proc, told=True)
        self.handlers = self._calls()

    def _calls(self) -> dict[str, Handler]:
        """By their arguments: a path has a descriptor before it, or starts where the caller is."""
        here = AT_FDCWD
        return {
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
            "umask": self.umask,
        }

    # The calls.

    def leave_own(self, caller: Caller, operation: str, spot: Spot) -> None:
        """Something in a root is changed, by the kernel, unless a mount of its own protects it."""
        lost = spot.protected_by()
        return self.judging.leave_protected(caller, operation, spot, lost) if lost else caller.resume()

    def followed(self, spot: Spot) -> Spot | None:
        """Where the links at the end of a path lead; None if nowhere."""
        found: Spot | None = spot
        for _ in range(MOST_LINKS):
            link = fast_calls.readlinkat(found.directory, found.name) if found else 0
            if found is None or not isinstance(link, bytes):
                return found
            found = self.spots.walk(found.directory, link)
        return None

    def is_plain(self, caller: Caller, base: int, path: bytes) -> bool:
        """Whether a path leads, by its text, to where commands may write and nothing is protected."""
        whole = self.spots.whole(caller, base, path)
        is_free = whole.startswith(self.free) and not whole.startswith(self.closed)
        return is_free or self.spots.is_unruled(whole)

    def mkdir(self, caller: Caller, base: int, address: int, mode: int) -> None:
        spot = self._wanted(caller, "mkdir", base, address)
        if (
            spot is None
            or self.judge(caller, "mkdir", spot, directory=True)
            or not self.is_ready(caller, mode)
        ):
            return
        os.mkdir(spot.name, mode & MODE, dir_fd=spot.directory)
        caller.succeed()

    def mknod(self, caller: Caller, base: int, address: int, mode: int) -> None:
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK):
            return caller.resume()
        spot = self._wanted(caller, "mknod", base, address)
        if spot is None or self.judge(caller, "mknod", spot) or not self.is_ready(caller, mode):
            return None
        os.mknod(spot.name, mode & (0o170000 | MODE), dir_fd=spot.directory)
        self.tell_made(spot)
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
        self.tell_made(spot)
        return caller.succeed()

    def link(self, caller: Caller, old: End, new: End, flags: int) -> None:
        source = caller.text(old[1])
        spot = self._found(caller, *new)
        if spot is None or source is None:
            return caller.resume()
        if not spot.place.made_by_warden:
            return self._link_beyond(caller, (old[0], source), spot, flags)
        if flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH):
            return caller.refuse(errno.EINVAL)
        thing = self._thing(caller, old[0], source, flags)
        if thing < 0:
            return caller.refuse(-thing)
        origin = self.spots.path_of(thing)
        matches = self.matcher.matches(origin) if origin.startswith("/") else ()
        if lost := reached(matches):
            return self.judging.refuse(caller, "link", origin, lost, (origin, thing), spot)
        if self.judge(caller, "link", spot, other=(origin, thing)) or not caller.is_waiting():
            return None
        linkat(self.spots.own, b"%d" % thing, spot.directory, spot.name, AT_SYMLINK_FOLLOW)
        self.tell_made(spot, origin.rpartition("/")[2])
        return caller.succeed()

    def _link_beyond(self, caller: Caller, source: tuple[int, bytes], spot: Spot, flags: int) -> None:
        thing = self._thing(caller, *source, flags)
        if thing < 0:
            return caller.resume()  # there is nothing to be linked, whoever may write there
        return self.judging.leave(caller, "link", spot, (self.spots.path_of(thing), thing))

    def _thing(self, caller: Caller, base: int, path: bytes, flags: int) -> int:
        """What a link is to be made of, held by a descriptor; -errno if there is none."""
        number = base if not path and flags & AT_EMPTY_PATH else _own_descriptor(path, flags)
        if number is None:
            follow = 0 if flags & AT_SYMLINK_FOLLOW else os.O_NOFOLLOW
            return self.spots.thing(caller, base, path, os.O_PATH | follow)
        try:
            found = caller.descriptor(number)
        except OSError as error:
            return -(error.errno or errno.EBADF)
        self.spots.held.append(found)
        return found

    def rename(self, caller: Caller, old: End, new: End, flags: int) -> None:
        # Read before the lock is taken: the caller can delay that, and other wardens wait for the lock.
        before, after = caller.text(old[1]), caller.text(new[1])
        self.moving.hold()
        source, spot = self._at(caller, old[0], before), self._at(caller, new[0], after)
        if source is None or spot is None:
            return caller.resume()
        if not source.place.made_by_warden or not spot.place.made_by_warden:
            return self._rename_beyond(caller, source, spot)
        if flags & ~(RENAME_EXCHANGE | RENAME_NOREPLACE):
            return caller.refuse(errno.EINVAL)
        for gets, gives in ((spot, source), (source, spot))[: 2 if flags & RENAME_EXCHANGE else 1]:
            if self.spots.grounds.has_root(gives.path):
                return caller.refuse(errno.EBUSY)
            if self.judging.judge_move(caller, gives, gets):
                return None
        if not caller.is_waiting():
            return None
        if flags:
            renameat2(source.directory, source.name, spot.directory, spot.name, flags)
        else:  # at a third of the cost
            os.rename(source.name, spot.name, src_dir_fd=source.directory, dst_dir_fd=spot.directory)
        self.tell_made(spot, source.key)
        if flags & RENAME_EXCHANGE:
            self.tell_made(source, spot.key)
        return caller.succeed()

    def umask(self, caller: Caller) -> None:
        self.umasks.hear(caller.pid, caller.arguments[0])
        caller.resume()

    def tell_made(self, spot: Spot, source: str = "") -> None:
        """What has got a name of `.env` files from a command stays in its sight. What had another such name
        before, `source`, is known already, or is the host's and not yet mounted over."""
        if is_env_file(spot.key) and not is_env_file(source):
            self.records.made(spot.directory, spot.name)

    def _wanted(self, caller: Caller, operation: str, base: int, address: int) -> Spot | None:
        """The spot that a call names, if it is for us to make it; else the call has gone back."""
        spot = self._found(caller, base, address)
        if spot is None:
            caller.resume()
        elif not spot.place.made_by_warden:
            self.judging.leave(caller, operation, spot)
        else:
            return spot
        return None

    def _found(self, caller: Caller, base: int, address: int) -> Spot | None:
        return self._at(caller, base, caller.text(address))

    def _at(self, caller: Caller, base: int, path: bytes | None) -> Spot | None:
        spot = self.spots.find(caller, base, path) if path else None
        if path and spot is None:
            self.spots.require_way(base, path)
        return spot

    def _rename_beyond(self, caller: Caller, source: Spot, spot: Spot) -> None:
        """One end or both lie where the warden makes no names."""
        if source.place.free or spot.place.free:
            return caller.resume()
        if source.status() is None:
            return caller.resume()
        lost = reached((*source.matches(), *spot.matches()))
        outside = source if spot.place.made_by_warden else spot
        return self.judging.leave(caller, "rename", outside, source, spot, lost)

    def is_ready(self, caller: Caller, mode: int) -> bool:
        """Takes over the caller's umask if it counts; False if it is no longer there."""
        self.take_over_umask(caller, mode)
        return caller.is_waiting()

    def take_over_umask(self, caller: Caller, mode: int) -> None:
        """If it counts."""
        if mode & 0o077 or self.umasks.bind_owners:
            self.umasks.take_over(caller.pid)


def _two_ends(caller: Caller) -> tuple[End, End]:
    one, two, three, four = caller.arguments[:4]
    return (as_int(one), two), (as_int(three), four)


def _own_descriptor(path: bytes, flags: int) -> int | None:
    """The caller's own descriptor that a path names, as the manual of open(2) has it for O_TMPFILE."""
    for start in OWN_DESCRIPTORS:
        if flags & AT_SYMLINK_FOLLOW and path.startswith(start) and path[len(start) :].isdigit():
            return int(path[len(start) :])
    return None
