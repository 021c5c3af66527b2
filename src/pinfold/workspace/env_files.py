"""Which `.env` files are hidden: those that git does not track, and that no command of the session made.

Facts and what they mean:
- Where git's writes are allowed, a command can list any file in the index. There a file counts as tracked
  only while it is what was added, byte for byte: then its text is in the repository, for all to read. A file
  that was so when the session began stays shown, even if its text changes. A later one may be listed as the
  sample that the host has just copied there, and is about to fill in.
- An index that cannot be read or understood tracks nothing.
- A link that a command made leads to nothing that the command could not see.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator

from msgspec import Struct

from pinfold.model.codes import ViolationCode
from pinfold.model.env_files import is_env_file
from pinfold.model.git_files import IndexEntry, entries
from pinfold.model.policy import SandboxPolicy
from pinfold.model.symlinks import real_path
from pinfold.model.violation import READ, Violation
from pinfold.policy.hidden_paths import UNTRACKED
from pinfold.policy.paths import is_covered
from pinfold.workspace.made_inside import MadeInside
from pinfold.workspace.repository import Repository, find_repository, read_bytes

LARGEST = 1 << 20
"""Of a file that is compared with what was added."""
DENIED = re.compile(rb"permission denied|EACCES|Errno 13", re.IGNORECASE)
CHANGED = re.compile(rb"cannot (create|remove|touch|move|overwrite|truncate)", re.IGNORECASE)
"""What `cp` and its kin say of a file that they were to write."""
OF_NAMES = rb"[\w./~-]"


class _Index(Struct, frozen=True):
    """What an index says of the files that were asked about."""

    mark: tuple[int, ...]
    asked: frozenset[bytes]
    found: dict[bytes, IndexEntry]


class EnvFiles:
    """Preconditions: asked from one thread at a time."""

    def __init__(self, home: str, made: MadeInside) -> None:
        self._home, self._made = home, made
        self._indexes: dict[str, _Index] = {}
        self._is_first = False

    def hidden(
        self,
        paths: Iterable[str],
        known: Iterable[str],
        roots: tuple[str, ...],
        git_writes: bool,
        is_first: bool = False,
    ) -> tuple[str, ...]:
        """Of these `.env` files those that commands may not read, and where they lead, if they are links."""
        self._is_first = is_first
        untracked = [*self._untracked(sorted(paths), git_writes)]
        if not {*untracked} <= {*known}:
            self._made.catch_up()
        found: dict[str, None] = {}
        for path in untracked:
            target = real_path(path)
            if self._is_made_inside(path) or not (target == path or is_covered(target, (*roots, self._home))):
                continue
            if target != path and not self._is_hidden_target(target, git_writes):
                continue
            found |= {path: None, target: None}
        return tuple(found)

    def _is_hidden_target(self, target: str, git_writes: bool) -> bool:
        name = os.path.basename(target)
        try:
            is_plain = stat.S_ISREG(os.lstat(target).st_mode)
        except OSError:
            return False
        is_sample = name.startswith(".env") and not is_env_file(name)
        return (
            is_plain
            and not is_sample
            and not self._is_made_inside(target)
            and any(self._untracked([target], git_writes))
        )

    def _is_made_inside(self, path: str) -> bool:
        if not self._made:
            return False
        from pinfold.kernel.files import identity_of

        try:
            return identity_of(path) in self._made
        except OSError:
            return False  # gone: a file that takes its place is hidden until the next look

    def _untracked(self, paths: list[str], git_writes: bool) -> Iterator[str]:
        by_repository: dict[str, tuple[Repository, dict[bytes, str]]] = {}
        for path in paths:
            found = find_repository(os.path.dirname(path))
            if found is None:
                yield path
            else:
                name = os.fsencode(os.path.relpath(path, found.top))
                by_repository.setdefault(found.directory, (found, {}))[1][name] = path
        for repository, names in by_repository.values():
            tracked = self._tracked(repository, frozenset(names))
            for name, path in names.items():
                entry = tracked.get(name)
                if entry is None or (git_writes and not self._is_as_added(path, entry)):
                    yield path

    def _tracked(self, repository: Repository, names: frozenset[bytes]) -> dict[bytes, IndexEntry]:
        path = os.path.join(repository.directory, "index")
        try:
            status = os.stat(path)
        except OSError:
            return {}
        mark = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        known = self._indexes.get(path)
        if known is None or known.mark != mark or known.asked != names:
            known = self._indexes[path] = _Index(mark, names, _found_in(path, repository, names))
        return known.found

    def _is_as_added(self, path: str, entry: IndexEntry) -> bool:
        from pinfold.kernel.files import identity_of

        try:
            identity = identity_of(path)
        except OSError:
            return False
        if identity in self._made:
            return True
        text = read_bytes(path, LARGEST + 1)
        if text is None or len(text) > LARGEST or _object_of(text, len(entry.object)) != entry.object:
            return False
        if self._is_first:
            self._made.add(identity)
        return True


def _found_in(path: str, repository: Repository, names: frozenset[bytes]) -> dict[bytes, IndexEntry]:
    from pinfold.workspace.git_programs import LARGEST_INDEX, has_long_names

    index = read_bytes(path, LARGEST_INDEX) or b""
    is_compressed = index[4:8] == b"\0\0\0\4"
    # Most `.env` files are not tracked: where the text is not there, it need not be taken apart.
    if not is_compressed and not any(name + b"\0" in index for name in names):
        return {}
    size = 32 if has_long_names(repository) else 20
    try:
        return {each.name: each for each in entries(index, size) if each.name in names}
    except ValueError:
        return {}


def _object_of(text: bytes, size: int) -> bytes:
    import hashlib

    made = hashlib.sha256 if size == 32 else hashlib.sha1
    return made(b"blob %d\0" % len(text) + text).digest()


def hidden_reads(
    policy: SandboxPolicy, commands: Iterable[tuple[str, ...]], cwd: str, output: bytes
) -> tuple[Violation, ...]:
    """What a command that failed was refused to read of `.env` files, as far as its words and output tell.

    The warden sees no reads (that would slow down every open), so this is a guess: it names what a person
    may grant for another run, and decides nothing.
    """
    argvs = [argv for argv in commands if argv]
    program = os.path.basename(argvs[0][0]) if argvs else ""
    lines = [line for line in output.splitlines() if DENIED.search(line) and not CHANGED.search(line)]
    named = {real_path(os.path.join(cwd, value)) for argv in argvs for value in _values(argv)}
    why = f"it is hidden: {UNTRACKED}"
    return tuple(
        Violation(READ, path, path, why, program, 0, True, ViolationCode.HIDDEN)
        for path in policy.env_files
        if path in named or any(_is_named_in(line, path, cwd) for line in lines)
    )


def _values(argv: tuple[str, ...]) -> Iterator[str]:
    """What options are given (`--env-file=.env`), by the programs that say nothing of why they failed."""
    for before, word in zip(("", *argv), argv, strict=False):
        option, _, value = word.partition("=")
        if value and option.startswith("-") and "\0" not in value:
            yield value
        elif before.startswith("--env") and "\0" not in word:
            yield word


def _is_named_in(line: bytes, path: str, cwd: str) -> bool:
    near = os.path.relpath(path, cwd)
    names = b"|".join(re.escape(os.fsencode(name)) for name in (path, near, f"./{near}"))
    return re.search(rb"(?<!%s)(%s)(?!%s)" % (OF_NAMES, names, OF_NAMES), line) is not None
