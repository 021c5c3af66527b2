"""Opens that may make a file, or change one: made on the caller's behalf, or left to the kernel (`names`).

Facts that shape it:
- An open for writing makes no name if the name exists, so it goes back: it may block (a FIFO), be a device,
  mean the caller (/dev/stdout). The boundary judges it again. But a plain file that would be made were it not
  there is opened here: if it were gone by then, the boundary would find a name to be made, and refuse it.
- Opens that write into what exists come here only where a person can be asked, or all is noted. Most are
  nobody's concern, and by their text alone most of these are known.
- Most files are made in places that are known. A walk that follows no link (openat2) ends where the text of
  its path says, or fails: then the making is the look, and takes a third of the time.

Accepted: who starts from a directory that the host, or another session, replaces by another one within these
microseconds gets its file made in that one. It is judged by the path that it really has.
"""

import errno
import os
import stat

from pinfold.kernel import fast_calls
from pinfold.kernel.files import AT_FDCWD
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.protocol.file_change import MODE
from pinfold.sandbox.linux.warden.create import MOST_LINKS, Names
from pinfold.sandbox.linux.warden.notification import ALL_FLAGS, CREAT, Caller, Handler, as_int
from pinfold.sandbox.linux.warden.paths import SLASH, Grounds, Spot

O_TMPFILE = os.O_TMPFILE
UNNAMED = O_TMPFILE | os.O_PATH
"""With O_PATH nothing is made: it opens the directory."""
NEVER_CREATES = os.O_PATH | os.O_DIRECTORY
NAMES_IT_ALONE = os.O_EXCL | os.O_NOFOLLOW
"""No link is followed at the end."""
MAKES_OR_EMPTIES = os.O_CREAT | os.O_TRUNC
EMPTIED_UNWRITTEN = os.O_TRUNC | os.O_WRONLY | os.O_RDWR
"""Of these the first alone: the kernel empties what is opened to be read."""
ENV = b"/.env"
"""In the text of a path whose making is told (`names.tell_made`), as far as it is spelled so."""
DEVICES = (b"/dev/", b"/proc/")
"""Devices and processes: what can be opened there exists, but for what the pen has of its own in it."""


class Opening:
    def __init__(self, names: Names, grounds: Grounds, rules: tuple[NameRule, ...]) -> None:
        self.names = names
        self.spots = names.spots
        self.judging = names.judging
        self.judge = names.judge
        self.inside = tuple(os.fsencode(f"{path}/") for path in (*grounds.watched, *grounds.free))
        plain = [os.fsencode(rule.name) for rule in rules if not rule.name.startswith(".")]
        self.marks = frozenset(name.partition(b"/")[0] for name in plain if name[0] != SLASH)
        self.marked = tuple(name.removeprefix(b"*") for name in plain if name.startswith((b"/", b"*.")))
        """A component of every path that is protected begins with a dot or is one of the first, or one of the
        second is in its text, if it is spelled as the rule is."""
        self.handlers: dict[str, Handler] = {
            "open": lambda it: self.open(it, AT_FDCWD, *it.arguments[:3]),
            "openat": self._openat,
            "creat": lambda it: self.open(it, AT_FDCWD, it.arguments[0], CREAT, it.arguments[1]),
        }

    def _openat(self, caller: Caller) -> None:
        base, address, flags, mode, _, _ = caller.arguments
        self.open(caller, as_int(base), address, flags, mode)

    def open(self, caller: Caller, base: int, address: int, flags: int, mode: int) -> None:
        # Of a register the kernel takes what fits the argument's type.
        flags, mode = flags & ALL_FLAGS, mode & MODE
        if flags & UNNAMED == O_TMPFILE:
            return self._open_unnamed(caller, base, address, flags, mode)
        path = caller.text(address)
        if not path or path.endswith(b"/"):
            return caller.resume()
        makes = flags & os.O_CREAT and not flags & NEVER_CREATES
        if path[0] == SLASH and not path.startswith(self.inside):
            if path.startswith(DEVICES):
                return caller.resume()
            if not makes:
                # What exists is refused by the kernel alone. It is noted where the text says enough.
                return self._open_existing(caller, base, path, flags)
        if not makes:
            plain = not self.judging.looks or self._is_unmarked(path)
            if plain or self.names.is_plain(caller, base, path):
                return caller.resume()
            return self._open_existing(caller, base, path, flags)
        whole = self.spots.whole(caller, base, path)
        if ENV not in whole and self.spots.is_unruled(whole):
            if not flags & NAMES_IT_ALONE and self._open_there(caller, AT_FDCWD, whole, flags):
                return None
            if self._create_plain(caller, whole, flags, mode):
                return None
        spot = self.spots.find(caller, base, path)
        if spot is None:
            self.spots.require_way(base, path)
        if spot is None or not spot.place.made_by_warden:
            return self._open_beyond(caller, spot, flags)
        if not flags & os.O_EXCL:
            return self._open_at(caller, spot, flags, mode)
        # It was there just now. If it goes meanwhile, the kernel would say that no name may be made.
        return None if self._create(caller, spot, flags, mode) else caller.refuse(errno.EEXIST)

    def _open_at(self, caller: Caller, spot: Spot | None, flags: int, mode: int) -> None:
        for _ in range(MOST_LINKS):
            if spot is None or not spot.place.made_by_warden:
                return self._open_beyond(caller, spot, flags)
            link = fast_calls.readlinkat(spot.directory, spot.name)
            if isinstance(link, bytes) and not flags & os.O_NOFOLLOW:
                # Its target's place is judged as any, since the target may not be there.
                spot = self.spots.walk(spot.directory, link)
            elif isinstance(link, int) and link != -errno.EINVAL:
                # Judged first: what a rule is about may come to be there meanwhile, and is not opened here.
                if self._create(caller, spot, flags, mode):
                    return None
            elif spot.protected_by():
                # A mount of its own refuses it as a rule, unless the host has just made it.
                return None if self.judge(caller, "open", spot) else caller.resume()
            elif self._open_there(caller, spot.directory, spot.name, flags):
                return None
        return caller.refuse(errno.ELOOP)

    @staticmethod
    def _open_there(caller: Caller, directory: int, path: bytes, flags: int) -> bool:
        """Opens a file for a caller that would make it if it were not there. False if it is not, or a link.

        If the kernel were left to open it, and another call took it away meanwhile, the caller would hear
        that it may not make names (EACCES), of a place where it may. Preconditions: no rule is about it.
        """
        try:
            status = os.stat(path, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return False
        if stat.S_ISLNK(status.st_mode):
            return False
        if not stat.S_ISREG(status.st_mode) or flags & EMPTIED_UNWRITTEN == os.O_TRUNC:
            caller.resume()
            return True
        # Who holds a lease may keep others waiting for it, but not those who do not block.
        opened = fast_calls.openat2(
            directory, path, flags & ~MAKES_OR_EMPTIES | os.O_NONBLOCK, fast_calls.NO_LINKS
        )
        if opened == -errno.ENOENT:
            return False
        if opened < 0:
            caller.resume()  # the kernel says the same, or waits
            return True
        if not flags & os.O_NONBLOCK:
            os.set_blocking(opened, True)
        truncates = bool(flags & os.O_TRUNC)
        if error := caller.give(opened, bool(flags & os.O_CLOEXEC), truncates=truncates):
            os.close(opened)
            caller.refuse(error)
        return True

    def _open_existing(self, caller: Caller, base: int, path: bytes, flags: int) -> None:
        """No name is made, so the kernel alone judges: unless a person may be asked first."""
        spot = self.spots.find(caller, base, path)
        if spot and self.judging.looks and not flags & NAMES_IT_ALONE:
            spot = self.names.followed(spot)
        if spot is None or spot.status() is None:
            return caller.resume()
        if spot.place.made_by_warden:
            return self.names.leave_own(caller, "open", spot)
        return self.judging.leave(caller, "open", spot)

    def _open_beyond(self, caller: Caller, spot: Spot | None, flags: int) -> None:
        """A name may be made, in a place where the warden makes none."""
        if spot and self.judging.looks and not flags & NAMES_IT_ALONE:
            spot = self.names.followed(spot)
        if spot is None or (flags & os.O_EXCL and spot.status()):
            return caller.resume()
        return self.judging.leave(caller, "open", spot)

    def _is_unmarked(self, path: bytes) -> bool:
        """Whether the text of an absolute path is enough to tell that nobody need be asked."""
        if path[0] != SLASH or b"/." in path or not self.marks.isdisjoint(path.split(b"/")):
            return False
        return not self.marked or not any(mark in path for mark in self.marked)

    def _create_plain(self, caller: Caller, path: bytes, flags: int, mode: int) -> bool:
        """Makes a file in one step where nothing is against it; False if that cannot be, for whatever reason.

        No link is followed anywhere, so where the path leads is what its text says, and that was judged.
        """
        self.names.take_over_umask(caller, mode)
        made = fast_calls.make_file(path, flags, mode)
        if made < 0:
            return False
        error = caller.give(made, bool(flags & os.O_CLOEXEC))
        if error:
            self._take_back(caller, made, self.spots.walk(AT_FDCWD, path), error)
        return True

    def _create(self, caller: Caller, spot: Spot, flags: int, mode: int) -> bool:
        """True if the caller has its answer; False if the name is taken."""
        if self.judge(caller, "open", spot):
            return True
        self.names.take_over_umask(caller, mode)
        try:
            # O_EXCL follows no link either, and is not seen in the descriptor's flags afterwards.
            made = os.open(spot.name, flags | os.O_EXCL, mode, dir_fd=spot.directory)
        except FileExistsError:
            return False
        self.names.tell_made(spot)
        error = caller.give(made, bool(flags & os.O_CLOEXEC))
        if error:
            self._take_back(caller, made, spot, error)
        return True

    @staticmethod
    def _take_back(caller: Caller, made: int, spot: Spot | None, error: int) -> None:
        """Unmakes a file that could not be given to anybody, if it is still where it was made."""
        ours = os.fstat(made)
        os.close(made)
        there = spot.status() if spot else None
        if spot and there and os.path.samestat(ours, there):
            os.unlink(spot.name, dir_fd=spot.directory)
        caller.refuse(error)

    def _open_unnamed(self, caller: Caller, base: int, address: int, flags: int, mode: int) -> None:
        """O_TMPFILE: the path is the directory's. It gets its name by a link, which is judged then."""
        path = caller.text(address)
        spot = self.spots.directory(caller, base, path) if path else None
        if spot is None:
            return caller.resume()
        if not spot.place.made_by_warden:
            return self.judging.leave(caller, "open", spot)
        if spot.place.inside:
            return self.judging.refuse(caller, "open", spot, spot.place.inside)
        self.names.take_over_umask(caller, mode)
        made = fast_calls.openat(spot.directory, b".", flags, mode)
        if made < 0:
            return caller.refuse(-made)
        error = caller.give(made, bool(flags & os.O_CLOEXEC))
        if not error:
            return None
        os.close(made)
        return caller.refuse(error)
