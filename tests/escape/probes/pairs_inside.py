"""The programs of the rig of pairs, which run inside: one gives all it has, another tries what it got.

A giver sends descriptors to each socket that it reaches, and stays. A receiver tries each operation on each
target by path, then by every way to what the giver has, and tells what worked by a way alone. It imports only
the standard library: the rig copies this file to where a pen sees it.

An operation changes nothing that matters: it sets what is there already, or has a victim of its own.
"""

import array
import ctypes
import json
import mmap
import os
import select
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

STREAM, PACKETS = socket.SOCK_STREAM, socket.SOCK_SEQPACKET
GIVER = (
    ("/tmp/giver", STREAM),
    ("/tmp/giver-packets", PACKETS),
    ("\0giver", STREAM),
    ("giver.socket", STREAM),
)
"""Where the giver listens. The last one is in the workspace."""
RECEIVER = (("/tmp/receiver", STREAM), ("/tmp/receiver-packets", PACKETS), ("\0receiver", STREAM))
MOST = 100
"""Descriptors in one message."""
UP = "/.." * 12
"""To the root, from wherever the rig is."""
VICTIMS = ("read", "write", "truncate", "chmod", "chown", "utimes", "setxattr", "unlink", "rename", "link")
"""Operations on a file; each has one of its name in every directory of targets."""
LIBC = ctypes.CDLL(None, use_errno=True)
_OPEN_BY_HANDLE = {"x86_64": (303, 304)}.get(os.uname().machine, (264, 265))
_PTRACE_ATTACH, _PTRACE_SEIZE, _PTRACE_DETACH = 16, 0x4206, 17
_PIDFD_GETFD = 438
_PIDFD_GET_MNT_NAMESPACE = 0xFF03


class Place(NamedTuple):
    """A path, from a directory that is held or from the root."""

    path: str
    directory: int | None = None

    def named(self) -> str:
        """For calls that know no directory."""
        return self.path if self.directory is None else f"/proc/self/fd/{self.directory}/{self.path}"

    def sibling(self, name: str) -> "Place":
        return Place(
            f"{os.path.dirname(self.path)}/{name}".lstrip("/" if self.directory else ""), self.directory
        )

    def child(self, name: str) -> "Place":
        return Place(f"{self.path}/{name}", self.directory)


def _open(place: Place, flags: int) -> int:
    return os.open(place.path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=place.directory)


def _status(place: Place) -> os.stat_result:
    return os.stat(place.path, dir_fd=place.directory)


def _read(place: Place) -> str:
    # Closed at once: who has another's mountinfo open holds its mounts, and would find them whole.
    with os.fdopen(_open(place, os.O_RDONLY), "rb", buffering=0) as file:
        return file.read(64).decode()


def _write(place: Place) -> None:
    os.close(_open(place, os.O_WRONLY))


def _truncate(place: Place) -> None:
    os.truncate(place.named(), _status(place).st_size)


def _chmod(place: Place) -> None:
    os.chmod(place.path, stat.S_IMODE(_status(place).st_mode), dir_fd=place.directory)


def _chown(place: Place) -> None:
    os.chown(place.path, os.getuid(), os.getgid(), dir_fd=place.directory)


def _utimes(place: Place) -> None:
    os.utime(place.path, ns=(1, 1), dir_fd=place.directory)


def _setxattr(place: Place) -> None:
    os.setxattr(place.named(), "user.rig", b"x")


def _unlink(place: Place) -> None:
    os.unlink(place.path, dir_fd=place.directory)


def _rename(place: Place) -> None:
    where = place.sibling("renamed").path
    os.rename(place.path, where, src_dir_fd=place.directory, dst_dir_fd=place.directory)


def _link(place: Place) -> None:
    where = place.sibling("linked").path
    os.link(place.path, where, src_dir_fd=place.directory, dst_dir_fd=place.directory)


def _create(place: Place) -> None:
    os.close(_open(place.child("created"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def _mkdir(place: Place) -> None:
    os.mkdir(place.child("made").path, dir_fd=place.directory)


def _symlink(place: Place) -> None:
    os.symlink("nowhere", place.child("pointing").path, dir_fd=place.directory)


def _list(place: Place) -> str:
    handle = _open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return " ".join(sorted(os.listdir(handle)))
    finally:
        os.close(handle)


def which(path: str, directory: int | None = None) -> str:
    """Which directory is there."""
    status = os.stat(path, dir_fd=directory)
    return f"{status.st_dev}:{status.st_ino}"


def _is(own: str, place: Place) -> None:
    """Whether it is the machine's own, and may be looked at."""
    _list(place)
    if which(place.path, place.directory) != own:
        raise FileNotFoundError


ON_FILES: dict[str, Callable[[Place], Any]] = {
    "read": _read,
    "write": _write,
    "truncate": _truncate,
    "chmod": _chmod,
    "chown": _chown,
    "utimes": _utimes,
    "setxattr": _setxattr,
    "unlink": _unlink,
    "rename": _rename,
    "link": _link,
}
ON_DIRECTORIES: dict[str, Callable[[Place], Any]] = {
    "list": _list,
    "create": _create,
    "mkdir": _mkdir,
    "symlink": _symlink,
}


class Targets(NamedTuple):
    """What is tried: directories with a victim for each operation on a file, and places of the machine."""

    work: str
    directories: list[str]
    machine: list[str]
    """Each with which one it is."""

    def each(self) -> Iterator[tuple[str, str, Callable[[Place], Any]]]:
        """The operation's name, the path, and what does it."""
        for directory in self.directories:
            yield from ((name, directory, act) for name, act in ON_DIRECTORIES.items())
            yield from ((name, f"{directory}/{name}", act) for name, act in ON_FILES.items())
        for path, _, own in (each.partition(" ") for each in self.machine):
            yield "machine", path, partial(_is, own)


def outcome(act: Callable[[], Any]) -> str | None:
    """What it gave as text, empty if nothing; None if it was refused."""
    try:
        return str(act() or "")
    except (OSError, UnicodeDecodeError):
        return None


def is_more(name: str, by_path: str | None, by_way: str | None) -> bool:
    """Whether a way gave what the path does not."""
    if by_way is None:
        return False
    if name == "list":
        return not set(by_way.split()) <= set((by_path or "").split())
    return by_path is None or by_path != by_way


# The giver


def holdings(targets: Targets) -> dict[str, int]:
    """All kinds of descriptors that it can have, by what the receiver does with them."""
    held: dict[str, int] = {}

    def take(name: str, path: str, flags: int) -> None:
        with suppress(OSError):
            held[name] = os.open(path, flags | os.O_NONBLOCK)

    home = os.path.dirname(targets.work)
    for path in ("/", targets.work, home, f"{targets.work}/.git"):
        take(f"directory {path}", path, os.O_RDONLY | os.O_DIRECTORY)
    take("directory /.", "/", os.O_PATH | os.O_DIRECTORY)
    for directory in targets.directories:
        path = f"{directory}/read"
        for mode, flags in (("r", os.O_RDONLY), ("rw", os.O_RDWR), ("path", os.O_PATH)):
            take(f"file {mode} {path}", path, flags)
    take("process", "/proc/self", os.O_PATH)
    held["pidfd"] = os.pidfd_open(os.getpid())
    return held


def send(way: socket.socket, held: dict[str, int]) -> None:
    every = list(held.items())
    with suppress(OSError), way:
        for start in range(0, len(every), MOST):
            part = every[start : start + MOST]
            names = json.dumps([name for name, _ in part]).encode()
            message = struct.pack("=I", len(names)) + names
            way.sendmsg(
                [message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", dict(part).values()))]
            )


def listeners(places: Iterable[tuple[str, int]]) -> list[socket.socket]:
    found = []
    for path, kind in places:
        listener = socket.socket(socket.AF_UNIX, kind)
        with suppress(OSError):
            if path[0] != "\0":
                with suppress(FileNotFoundError):
                    os.unlink(path)
            listener.bind(path)
            listener.listen()
            found.append(listener)
    return found


def connected(places: Iterable[tuple[str, int]]) -> Iterator[tuple[str, socket.socket]]:
    for path, kind in places:
        way = socket.socket(socket.AF_UNIX, kind)
        try:
            way.connect(path)
        except OSError:
            way.close()
        else:
            yield repr(path), way


def give(targets: Targets, signs: str) -> None:
    held = holdings(targets)
    maps = []
    for name, descriptor in held.items():
        if name.startswith("file r "):
            with suppress(OSError, ValueError):
                maps.append(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))
    listening = listeners(GIVER)
    poll = select.poll()
    for listener in listening:
        poll.register(listener, select.POLLIN)
    by_number = {listener.fileno(): listener for listener in listening}
    print("ready", os.getpid(), flush=True)
    has_called = False
    while not os.path.exists(f"{signs}/end"):
        for number, _ in poll.poll(5):
            send(by_number[number].accept()[0], held)
        if not has_called and os.path.exists(f"{signs}/call"):
            for _, way in connected(RECEIVER):
                send(way, held)
            has_called = True
            print("called", flush=True)
    if os.path.exists(f"{signs}/kill"):
        os.kill(os.getppid(), 9)  # what started it: its pen ends under it
    os._exit(0)


# The receiver


def received(way: socket.socket) -> Iterator[tuple[str, int]]:
    with way:
        while True:
            data, ancillary, _, _ = way.recvmsg(1 << 16, socket.CMSG_SPACE(4 * MOST))
            if not data:
                return
            (length,) = struct.unpack_from("=I", data)
            while len(data) < 4 + length:
                data += way.recv(1 << 16)
            descriptors = array.array("i")
            for _, _, part in ancillary:
                descriptors.frombytes(part[: len(part) // 4 * 4])
            yield from zip(json.loads(data[4 : 4 + length]), descriptors, strict=False)


def lent(listening: list[socket.socket]) -> tuple[dict[str, int], list[str]]:
    """What was got, and by which sockets. However it comes, a descriptor is the same."""
    found: dict[str, int] = {}
    by: list[str] = []
    ways = []
    for listener in listening:
        listener.setblocking(False)
        with suppress(OSError):
            ways.append((repr(listener.getsockname()), listener.accept()[0]))
    for place, way in (*ways, *connected(GIVER)):
        way.setblocking(True)
        with suppress(OSError):
            for name, descriptor in received(way):
                if name in found:
                    os.close(descriptor)
                else:
                    found[name] = descriptor
                by.append(place)
    return found, sorted(set(by))


def taken(giver: int, most: int = 120) -> dict[str, int]:
    """What pidfd_getfd gives of the giver."""
    found: dict[str, int] = {}
    with suppress(OSError):
        handle = os.pidfd_open(giver)
        for number in range(most):
            descriptor = LIBC.syscall(_PIDFD_GETFD, handle, number, 0)
            if descriptor >= 0 and stat.S_ISDIR(os.fstat(descriptor).st_mode):
                found[f"pidfd_getfd directory {os.readlink(f'/proc/self/fd/{descriptor}')}"] = descriptor
    return found


Way = Callable[[str], Place | None]
"""From a target's path to where it is found by this way, if it can be."""


def from_directory(descriptor: int, path: str) -> dict[str, Way]:
    """Down from a directory, and up from it first: beyond a mount's root there may be another's tree."""
    up = "../" * (path.count("/") + 1)

    def down(target: str) -> Place | None:
        inside = os.path.relpath(target, path)
        return None if inside.startswith("..") else Place(inside, descriptor)

    return {
        "down": down,
        "by its number": lambda target: (place := down(target)) and Place(place.named()),
        "up": lambda target: Place(up + target[1:], descriptor),
    }


def ways_of(name: str, descriptor: int) -> dict[str, Way]:
    _, _, path = name.partition("directory ")
    if path:
        found = from_directory(descriptor, os.path.normpath(path))
        return {f"{name} {how}": way for how, way in found.items()}
    if name.endswith("process"):
        return through_process(f"/proc/self/fd/{descriptor}", f"{name} ")
    return {}


def through_process(process: str, label: str = "") -> dict[str, Way]:
    """By the links that /proc has of a process."""
    ways: dict[str, Way] = {}
    for link in ("root", "cwd", *(f"fd/{number}" for number in range(3, 16))):
        ways[f"{label}{link} down"] = partial(_below, f"{process}/{link}")
        ways[f"{label}{link} up"] = partial(_below, f"{process}/{link}{UP}")
    ways[f"{label}root of a thread"] = partial(_below, f"{process}/task/{os.path.basename(process)}/root")
    return ways


def _below(base: str, target: str) -> Place:
    return Place(base + target)


def with_file(descriptor: int, mode: str) -> dict[str, Callable[[], Any]]:
    """What may be done to a file that is held, by the operation that would do it by path."""
    name = f"/proc/self/fd/{descriptor}"
    place = Place(name)
    acts: dict[str, Callable[[], Any]] = {
        "read": lambda: os.pread(descriptor, 64, 0).decode() if mode != "path" else _read(place),
        "write": lambda: _write(place),
        "truncate": lambda: _truncate(place),
        "chmod": lambda: _chmod(place),
        "chown": lambda: _chown(place),
        "utimes": lambda: _utimes(place),
        "setxattr": lambda: _setxattr(place),
    }
    if mode == "rw":
        acts["write"] = lambda: os.pwrite(descriptor, os.pread(descriptor, 1, 0), 0) and None
        acts["truncate"] = lambda: os.ftruncate(descriptor, os.fstat(descriptor).st_size)
    return acts


def reached_into(giver: int) -> Iterator[str]:
    """By which calls another process was reached that none may reach."""

    def tried(name: str, act: Callable[[], Any]) -> Iterator[str]:
        if outcome(act) not in (None, "-1"):
            yield name

    process = f"/proc/{giver}"
    for number in (_PTRACE_SEIZE, _PTRACE_ATTACH):
        if LIBC.ptrace(number, giver, 0, 0) == 0:
            yield "ptrace"
            LIBC.ptrace(_PTRACE_DETACH, giver, 0, 0)
    for name in ("root", "cwd", "exe", "fd/3", "ns/mnt"):
        yield from tried(f"link {name}", partial(os.readlink, f"{process}/{name}"))
    for name in ("map_files", "fd", "fdinfo"):
        yield from tried(f"list {name}", partial(os.listdir, f"{process}/{name}"))
    for name in ("mem", "environ", "maps", "mountinfo", "mounts", "mountstats"):
        yield from tried(name, partial(_read, Place(f"{process}/{name}")))
    space = ctypes.create_string_buffer(8)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(space), 8)
    yield from tried("process_vm_readv", lambda: LIBC.process_vm_readv(giver, vector, 1, vector, 1, 0))
    handle = os.pidfd_open(giver)
    yield from tried("pidfd namespace", lambda: LIBC.ioctl(handle, _PIDFD_GET_MNT_NAMESPACE, 0))
    yield from tried("setns", lambda: LIBC.setns(handle, 0x00020000))


def opened_by_handle(directory: int, target: str) -> Callable[[], Any]:
    """open_by_handle_at, from the mount of a directory that is held."""

    def act() -> str:
        handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 136)
        mount = ctypes.c_int()
        name, opening = _OPEN_BY_HANDLE
        if LIBC.syscall(name, directory, target.encode(), handle, ctypes.byref(mount), 0):
            raise OSError(ctypes.get_errno(), "name_to_handle_at")
        descriptor = LIBC.syscall(opening, directory, handle, os.O_RDONLY)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "open_by_handle_at")
        return os.read(descriptor, 64).decode()

    return act


class Trial:
    """One receiver's: what it may do by path, and what else it could do."""

    def __init__(self, targets: Targets) -> None:
        self.targets = targets
        self.found: list[str] = []
        self.tried = 0
        self.by_path = {
            (name, path): outcome(partial(act, Place(path))) for name, path, act in targets.each()
        }
        # Looked at once the other operations have left what they leave.
        for directory in targets.directories:
            self.by_path["list", directory] = outcome(partial(_list, Place(directory)))

    def note(self, way: str, name: str, path: str, got: str | None) -> None:
        self.tried += 1
        if is_more(name, self.by_path[name, path], got):
            self.found.append(f"{way}: {name} {path}")

    def try_ways(self, when: str, ways: dict[str, Way]) -> None:
        for label, way in ways.items():
            for name, path, act in self.targets.each():
                may = self.by_path[name, path]
                place = way(path)
                # What may be done by path is not done again, but for looks that may show more.
                if place is not None and (may is None or name in ("read", "list")):
                    self.note(f"{when} {label}", name, path, outcome(partial(act, place)))

    def try_files(self, when: str, held: dict[str, int]) -> None:
        for label, descriptor in held.items():
            _, is_file, rest = label.partition("file ")
            if is_file:
                mode, _, path = rest.partition(" ")
                directory = os.path.dirname(path)
                for name, act in with_file(descriptor, mode).items():
                    if self.by_path[name, f"{directory}/{name}"] is None:
                        self.note(f"{when} {label}", name, f"{directory}/{name}", outcome(act))

    def try_held(self, when: str, held: dict[str, int]) -> None:
        for label, descriptor in held.items():
            self.try_ways(when, ways_of(label, descriptor))
            if label.endswith("directory /"):
                for directory in self.targets.directories:
                    path = f"{directory}/read"
                    if self.by_path["read", path] is None:
                        act = opened_by_handle(descriptor, path[1:])
                        self.note(f"{when} {label} by handle", "read", path, outcome(act))
        self.try_files(when, held)


def wait_for(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.002)
    with open(path) as file:
        return file.read()


def receive(targets: Targets, signs: str) -> None:
    trial = Trial(targets)
    listening = listeners(RECEIVER)
    print("listening", flush=True)
    giver = int(wait_for(f"{signs}/go"))
    held, by = lent(listening)
    reached = []
    if giver:
        held = {**taken(giver), **held}
        reached = sorted(set(reached_into(giver)))
        trial.try_ways("alive", through_process(f"/proc/{giver}"))
    trial.try_held("alive", held)
    print("tried", flush=True)
    wait_for(f"{signs}/ended")
    trial.try_held("ended", held)
    tell(trial, lent=len(held), by=by, reached=reached)


def hold(targets: Targets, signs: str) -> None:
    """Has all kinds of descriptors before something is hidden, and tries them then."""
    held = holdings(targets)
    print("holding", flush=True)
    later = wait_for(f"{signs}/go")
    while outcome(lambda: _read(Place(later))) is not None:
        time.sleep(0.002)
    trial = Trial(targets)
    trial.try_held("held", held)
    trial.try_ways("own", through_process("/proc/self"))
    tell(trial)


def tell(trial: Trial, **more: object) -> None:
    may = sorted(f"{name} {path}" for (name, path), got in trial.by_path.items() if got is not None)
    told = {**more, "found": trial.found, "tried": trial.tried, "may": may}
    print("told", json.dumps(told), flush=True)


ROLES = {"give": give, "receive": receive, "hold": hold}

if __name__ == "__main__":
    role, work, directories, machine, signs = sys.argv[1:]
    ROLES[role](Targets(work, directories.split("\n"), machine.split("\n")), signs)
