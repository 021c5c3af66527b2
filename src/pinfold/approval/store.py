"""The file of remembered answers, in the user's state directory, which is hidden from every pen.

INVARIANT: what cannot be read, or could be written by others, counts as no answers at all, so a person is
asked. Such a file is never written over unless a person says so.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from time import time

import msgspec
from msgspec import Struct

from pinfold.approval.memory import Remembered
from pinfold.model.load_structs import ready

LARGEST = 10_000_000
VERSION = 2
MOST = 1000
"""Of more than this many answers the oldest are forgotten."""
MEND = "`pinfold approvals revoke --all` begins anew"
Answers = tuple[Remembered, ...]


class _Version(Struct, frozen=True):
    version: int


class _File(Struct, frozen=True):
    version: int
    answers: Answers


class Store:
    """May be used from any thread, and by many processes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.trouble = ""
        """Why nothing is remembered, in one line."""
        self._mark: object = ()
        self._answers: Answers = ()

    def answers(self) -> Answers:
        """Those in the file, the expired ones left out; none where it cannot be believed."""
        mark = _mark(self.path)
        if mark is None or mark != self._mark:
            self._answers, self.trouble = self._read()
            self._mark = mark
        now = time()
        return tuple(each for each in self._answers if each.is_alive(now))

    def add(self, answer: Remembered) -> bool:
        """Whether it was written; `trouble` says why not."""
        return self._change(lambda answers: (*answers, answer))

    def remove(self, ids: Collection[str]) -> bool:
        return self._change(lambda answers: tuple(each for each in answers if each.id not in ids))

    def remove_all(self) -> bool:
        """Removes the file, even if it does not hold answers. Returns whether it is gone."""
        try:
            with self._locked(), suppress(FileNotFoundError):
                os.unlink(self.path)
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{self.path} cannot be removed: {error.strerror}"
        return not self.trouble

    def _change(self, change: Callable[[Answers], Answers]) -> bool:
        try:
            with self._locked():
                before = self.answers()
                if not self.trouble:
                    self._write(change(before)[-MOST:])
        except (OSError, UnicodeEncodeError) as error:
            self.trouble = f"{self.path} cannot be written: {getattr(error, 'strerror', None) or error}"
            self._mark = ()  # looked at anew, and tried again, with the next answer
        return not self.trouble

    @contextmanager
    def _locked(self) -> Iterator[None]:
        directory = os.path.dirname(self.path)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, answers: Answers) -> None:
        data = msgspec.json.encode(_File(VERSION, answers))
        part = f"{self.path}.{os.getpid()}.part"
        with suppress(FileNotFoundError):
            os.unlink(part)  # of one that was killed, and had our number
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(part, self.path)
        except BaseException:
            os.unlink(part)
            raise
        self._answers, self._mark = answers, _mark(self.path)

    def _read(self) -> tuple[Answers, str]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            return (), ""
        except OSError as error:
            return (), f"{self.path} cannot be read, so earlier answers do not count: {error.strerror}"
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
                why = "is not a file that you alone can write"
            elif facts.st_size > LARGEST:
                why = "is too large"
            else:
                try:
                    return _decoded(file.read(LARGEST)), ""
                except (msgspec.DecodeError, ValueError) as error:
                    why = f"is damaged ({error})"
        return (), f"{self.path} {why}, so earlier answers do not count; {MEND}"


def _decoded(data: bytes) -> Answers:
    version = msgspec.json.decode(data, type=ready(_Version)).version
    if version == 1:
        from pinfold.approval.version_1 import upgraded

        return msgspec.convert(upgraded(data), ready(_File)).answers
    if version != VERSION:
        raise ValueError(f"of version {version}, not {VERSION}")
    return msgspec.json.decode(data, type=ready(_File)).answers


def _mark(path: str) -> tuple[int, ...] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size
