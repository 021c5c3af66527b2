"""Reads a settings file, or says clearly why it is not read; replaces one in a single step.

The only module here that opens files. It never waits (a fifo in place of a file), never reads more than
`LARGEST`, and never follows a project's link out of the project: an error excerpt would otherwise
show an agent a line of the file that the link leads to.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible

LARGEST = 1_000_000
"""Bytes; the largest sensible settings file is a hundredth of it."""
MENDING = "make the file readable for you, or remove it"
"""Nothing is run without it: what is not read may be what narrows."""
EVERYBODYS = stat.S_ISVTX | stat.S_IWOTH


def read_text(path: str, *, root: str = "", owned: bool = False) -> str | None:
    """The text of the file, None where there is none.

    `root`: the project it must lie in. `owned`: it must belong to root, and no other user may write it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        if os.path.islink(path):  # not whether anything is there: it may have been made since
            raise _trouble(path, "is a symbolic link to a file that does not exist", MENDING) from None
        return None
    except OSError as error:
        closed = _closed_above(path) if isinstance(error, PermissionError) else ""
        if closed:
            why = f"cannot be entered, so pinfold cannot tell whether {os.path.relpath(path, closed)} exists"
            raise _trouble(closed, visible(why), f"chmod u+rx {visible(closed)}") from None
        why = (error.strerror or str(error)).lower()
        raise _trouble(path, f"cannot be read: {why}", MENDING) from None
    except ValueError:
        raise _trouble(path, "its name contains a NUL character") from None
    try:
        return _decoded(path, _contents(path, descriptor, root, owned))
    finally:
        os.close(descriptor)


def is_own(path: str) -> bool:
    """Whether a file and its directory belong to this user or to root; a link is looked at itself.

    Facts about shared directories: in /tmp anybody can make a `.git` or a `.pinfold` that every directory
    below it seems to lie in. Git believed such a one until CVE-2022-24765, and now asks for its owner.
    """
    try:
        owners = {os.lstat(place).st_uid for place in (path, os.path.dirname(path))}
    except OSError:
        return False
    return owners <= {0, os.getuid()}


def is_for_everybody(directory: str) -> bool:
    """Whether it is one like /tmp: all may make names in it, and none take away those of others."""
    return os.stat(directory).st_mode & EVERYBODYS == EVERYBODYS


def mark(path: str) -> tuple[int, ...] | None:
    """What changes when a file does. The change time is among it: unlike the others it cannot be set back."""
    try:
        facts = os.stat(path)
    except OSError as error:
        return None if isinstance(error, FileNotFoundError) else (error.errno or 0,)
    return (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev, facts.st_mode)


def list_directory(path: str, *, owned: bool = False) -> tuple[str, ...]:
    """The `.toml` files of a directory in order; none where there is no such directory."""
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".toml"))
        if owned:
            _require_owned(path, os.stat(path))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _trouble(path, f"cannot be listed: {(error.strerror or str(error)).lower()}") from None
    return tuple(os.path.join(path, name) for name in names)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds off other changes to the file; the directory is what is locked, so no lock file is left."""
    directory = os.path.dirname(os.path.realpath(path))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _trouble(path, f"cannot be written: {(error.strerror or str(error)).lower()}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_text(path: str, text: str) -> None:
    """Replaces the file in one step, keeping its mode and following a link to it."""
    target = os.path.realpath(path)
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o600
        part = f"{target}.{os.getpid()}.part"
        with suppress(FileNotFoundError):
            os.unlink(part)  # of one that was killed, and had our number
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise _trouble(path, f"cannot be written: {(error.strerror or str(error)).lower()}") from None


def _contents(path: str, descriptor: int, root: str, owned: bool) -> bytes:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        kind = "a directory" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
        raise _trouble(path, f"is {kind}", "put a regular file there")
    if root and not _is_beneath(os.path.realpath(path), os.path.realpath(root)):
        raise _trouble(
            path,
            ("is a symbolic link to a file outside the project"),
            "replace the link with the file itself",
        )
    if owned:
        _require_owned(path, facts)
        parent = os.path.dirname(path)
        _require_owned(parent, os.stat(parent))
    if facts.st_size > LARGEST:
        raise _trouble(path, f"is larger than {LARGEST // 1_000_000} MB")
    data = bytearray()
    while piece := os.read(descriptor, 1 << 16):
        data += piece
        if len(data) > LARGEST:
            raise _trouble(path, f"is larger than {LARGEST // 1_000_000} MB")
    return bytes(data)


def _decoded(path: str, data: bytes) -> str:
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise _trouble(path, "begins with a byte order mark", "save it as UTF-8 without BOM")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyError("is not UTF-8", where=f"{visible(path)}:{line}", help="save it as UTF-8") from None


def _require_owned(path: str, facts: os.stat_result) -> None:
    """Preconditions: `path` is the administrator's. Another user who can write it would be one too."""
    if facts.st_uid != 0:
        raise _trouble(path, "does not belong to root", f"sudo chown root {path}")
    if facts.st_mode & 0o022:
        raise _trouble(path, "is writable by users other than root", f"sudo chmod go-w {path}")


def _closed_above(path: str) -> str:
    """The directory on the way to a file that keeps us from even looking for it; empty if none does."""
    above = os.path.abspath(path)
    while (parent := os.path.dirname(above)) != above:
        above = parent
        if os.path.isdir(above):  # as far as can be seen: those above it let us pass
            return "" if os.access(above, os.X_OK) else above
    return ""


def _is_beneath(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _trouble(path: str, message: str, help: str = "") -> PolicyError:
    return PolicyError(message, where=visible(path), help=help)
