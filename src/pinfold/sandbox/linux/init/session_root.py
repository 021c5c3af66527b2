"""The session's rooms: the little tree from which all its pens are furnished, built once by its init.

    /host      the machine's root, as it is        /new    where a pen's root is put together
    /proc      of this pid namespace, for init     /dev    a few devices, pts, shm
    /pens-proc another of it, for the pens
    /closed    as /host, with root's own files closed, where commands are root's and it can be had
    /scratch         /tmp, /var/tmp and /dev/shm   /dev/.empty, /dev/.void   mounted over hidden files
    /bound     which sockets were bound in the session; in no pen, for the wardens alone

It is a tmpfs that exists in this mount namespace alone: nothing of it is ever in the user's tree, and it goes
with the last process of the session.

Facts, tried on 6.18:
- A mount namespace made together with a user namespace has every mount locked to its parent: a bind must be
  recursive, and pivot_root away from the old root is allowed.
- proc can be mounted only by a process inside the pid namespace, and only while another proc that nothing
  covers is in the mount namespace (a masked /proc, as in Docker, refuses it: EPERM), and only if it tells
  times of reading as that one does.
- What a fresh proc shows of the machine (sys, irq, bus ...) is open to uid 0 even without capabilities. So is
  what it shows of pid 1, such as the niceness of its scheduling group (autogroup), which is the keeper's too.
- proc shows the mounts of every process to everybody (mountinfo asks for no right), and so what another pen
  hides and grants. With hidepid=ptraceable (5.8) it shows a process only to those that may trace it. Each
  mount of proc has its own such option.
- devpts asks gid=5 to be mapped, so it is mounted without. A machine has 3,072 terminals for all
  mounts of it but the first.
- /proc/sys/kernel/pid_max belongs to the pid namespace since 6.14, and bounds uid 0 too, which NPROC does
  not.
- A tmpfs may take half of the machine's memory, and as many inodes as that half has pages, unless its mount
  says less. The size counts pages of content alone; an inode takes about a kilobyte of the kernel's memory.
"""

import contextlib
import os
import stat

from pinfold.kernel import mounts
from pinfold.sandbox.linux.init.closed_tree import ClosedTree
from pinfold.sandbox.linux.protocol.command import MOST_PROCESSES

HOST, CLOSED, NEW, BOUND = "/host", "/closed", "/new", "/bound"
EMPTY, VOID = "/dev/.empty", "/dev/.void"
"""In /dev, since a pen has that at the same place: what is hidden late needs a stand-in too."""
OWN = "pinfold"
"""What mount tables name as the source of a session's own file systems."""
SCRATCH = "/scratch"
PENS_PROC = "/pens-proc"
PIECES = {"proc": PENS_PROC, "dev": "/dev", **{name: f"{SCRATCH}/{name}" for name in ("tmp", "var-tmp")}}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
SAFE = mounts.MS_NOSUID | mounts.MS_NODEV
PROC = SAFE | mounts.MS_NOEXEC
DEVICE = mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC | mounts.MOUNT_ATTR_RDONLY
"""A device node is the machine's own inode: root inside could change its mode. Input and output work."""
SAME_NUMBERS = os.ST_NOATIME | os.ST_NODIRATIME
"""To statvfs(3) and to mount(2)."""
TERMINALS = 256
"""Of one session: others of the machine want some too."""
PID_MAX = "/proc/sys/kernel/pid_max"
GENEROUS = 4 << 30
"""Bytes of scratch files that a session may have where the machine has twice as much memory."""
PAGES_PER_INODE = 4
"""A session may have as many scratch files as would fill its scratch memory with 16 KiB each."""

TELLS_OF_KEYS = ("keys", "key-users")
WATCHES = {
    "/proc/sys/fs/inotify/max_user_instances": "/proc/sys/user/max_inotify_instances",
    "/proc/sys/fs/inotify/max_user_watches": "/proc/sys/user/max_inotify_watches",
}
"""What a user has, and what a user namespace may have of it."""


def build_session_root(closed: ClosedTree | None) -> int | None:
    """Leaves this process with the rooms as its root; pid_max of the pid namespace, if it is ours to write.

    `closed`: the machine's tree as its root cannot read it; None for others than root.

    Preconditions: new user, mount and pid namespaces, and this is pid 1 of the last.
    """
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    mounts.mount(OWN, "/proc", "tmpfs", SAFE, "mode=0755")  # any directory: pivot_root uncovers it
    os.chdir("/proc")
    for name in (HOST, NEW, BOUND, PENS_PROC, "/proc", "/dev", *((CLOSED,) if closed else ())):
        os.mkdir(name[1:], 0o755)
    mounts.pivot_root(".", HOST[1:])
    os.chdir("/")
    if closed:
        mounts.move_mount(closed.tree, mounts.AT_FDCWD, CLOSED)
        os.close(closed.tree)
    pid_max = _own_proc()
    _own_scratch()
    _pens_proc()
    _own_dev()
    _close_proc()
    _cover(closed.covered if closed else [])
    return pid_max


def _cover(found: list[tuple[str, bool]]) -> None:
    for path, is_directory in found:
        # What has gone, or lies in a directory that root without its powers cannot search either.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            put(EMPTY if is_directory else VOID, f"{CLOSED}{path}", mounts.MOUNT_ATTR_RDONLY)


def _own_proc() -> int | None:
    mounts.mount("proc", "/proc", "proc", PROC | _telling_times_as(f"{HOST}/proc"))
    pid_max = _bound_processes()
    _bound_watches()
    return pid_max


def _pens_proc() -> None:
    flags = PROC | _telling_times_as(f"{HOST}/proc")
    mounts.mount("proc", PENS_PROC, "proc", flags, "hidepid=ptraceable")
    with os.scandir(PENS_PROC) as entries:
        found = [entry for entry in entries if not entry.name.isdigit() and not entry.is_symlink()]
    for entry in found:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o222:
            put(entry.path, entry.path, mounts.MOUNT_ATTR_RDONLY)
    put(f"{PENS_PROC}/1", f"{PENS_PROC}/1", mounts.MOUNT_ATTR_RDONLY)


def _close_proc() -> None:
    """What only root may read, and what tells each user of its own keys."""
    with os.scandir(PENS_PROC) as entries:
        files = [
            entry for entry in entries if not entry.name.isdigit() and entry.is_file(follow_symlinks=False)
        ]
    for entry in files:
        if entry.name in TELLS_OF_KEYS or not entry.stat().st_mode & stat.S_IROTH:
            put(VOID, entry.path, mounts.MOUNT_ATTR_RDONLY)


def _telling_times_as(place: str) -> int:
    flags = os.statvfs(place).f_flag
    strict = not flags & (os.ST_NOATIME | os.ST_RELATIME)
    return flags & SAME_NUMBERS | (mounts.MS_STRICTATIME if strict else 0)


def _bound_processes() -> int | None:
    # Before 6.14 it is the machine's, and not ours to write. Then NPROC and cgroups bound what they can.
    with contextlib.suppress(OSError):
        pid_max = os.open(PID_MAX, os.O_WRONLY | os.O_CLOEXEC)
        os.write(pid_max, str(MOST_PROCESSES).encode())
        return pid_max
    return None


def _bound_watches() -> None:
    """Half of what the user has: the rest is for the wardens, other sessions and the machine's programs."""
    for of_all, of_session in WATCHES.items():
        with contextlib.suppress(OSError), open(of_all) as told, open(of_session, "w") as bound:
            bound.write(str(int(told.read()) // 2))


def scratch_pages() -> int:
    """What the scratch files of one session may take: a quarter of the machine's memory, but up to `GENEROUS`
    where that leaves half for everything else."""
    memory = os.sysconf("SC_PHYS_PAGES")
    return min(memory // 2, max(memory // 4, GENEROUS // os.sysconf("SC_PAGE_SIZE")))


def _own_scratch() -> None:
    """A file system apart from the rooms: a command that fills it keeps no pen from being built."""
    pages = scratch_pages()
    os.mkdir(SCRATCH)
    options = f"mode=0755,nr_blocks={pages},nr_inodes={pages // PAGES_PER_INODE}"
    mounts.mount(OWN, SCRATCH, "tmpfs", SAFE, options)
    for name in ("tmp", "var-tmp", "shm"):
        os.mkdir(f"{SCRATCH}/{name}")
        os.chmod(f"{SCRATCH}/{name}", 0o1777)  # noqa: S103


def _own_dev() -> None:
    mounts.mount(OWN, "/dev", "tmpfs", mounts.MS_NOSUID, "mode=0755,size=64k")
    for name in DEVICES:
        if os.path.exists(f"{HOST}/dev/{name}"):
            os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_CLOEXEC, 0o666))
            put(f"{HOST}/dev/{name}", f"/dev/{name}", DEVICE)
    os.mkdir(EMPTY, 0o555)
    # It is unreadable: a hidden file that looked empty would be copied and committed as an empty one.
    os.close(os.open(VOID, os.O_CREAT | os.O_CLOEXEC, 0o000))
    for name, target in LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/pts")
    options = f"newinstance,ptmxmode=0666,mode=0620,max={TERMINALS}"
    mounts.mount("devpts", "/dev/pts", "devpts", mounts.MS_NOSUID | mounts.MS_NOEXEC, options)
    os.mkdir("/dev/shm")  # noqa: S108
    put(f"{SCRATCH}/shm", "/dev/shm", 0)  # noqa: S108
    mounts.mount_setattr(mounts.AT_FDCWD, "/dev", turn_on=mounts.MOUNT_ATTR_RDONLY)


def put(source: str, target: str, attributes: int) -> None:
    """Copies a mount tree to another path, with these attributes. For paths that no other process can
    change."""
    tree = mounts.open_tree(mounts.AT_FDCWD, source, clone())
    try:
        mounts.mount_setattr(tree, flags=mounts.AT_RECURSIVE, turn_on=attributes)
        mounts.move_mount(tree, mounts.AT_FDCWD, target)
    finally:
        os.close(tree)


def clone() -> int:
    return mounts.OPEN_TREE_CLONE | mounts.OPEN_TREE_CLOEXEC | mounts.AT_RECURSIVE
