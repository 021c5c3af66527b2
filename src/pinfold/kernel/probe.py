"""Asks this machine what it can enforce, by trying it in a child that ends right after.

Facts about asking:
- Nothing else tells the truth. A namespace may be refused by a sysctl, an LSM, a limit, an outer filter, or
  be made and then be worth nothing (AppArmor on Ubuntu 24.04: unshare works, any capability in it is EPERM).
- A fresh proc is EPERM where the visible one is masked in parts (Docker), since it would show them.
- overlayfs in a user namespace came with 5.11; its upper directory may not be on every file system.
- A process that an outer filter with a listener holds gets EBUSY for a second one.

Each child is given `SECONDS` for all it is asked; what it has not answered by then counts as no.
"""

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Callable, Sequence

from pinfold.kernel import cgroups, landlock, mounts, namespaces, process, seccomp
from pinfold.kernel.syscall import NUMBERS
from pinfold.model.machine import Layer, Machine

SECONDS = 5.0
Step = tuple[str, Callable[[], object]]

_ALLOW_ALL = seccomp.pack([(0x06, 0, 0, seccomp.RET_ALLOW)])


def probe() -> Machine:
    """What this machine can enforce. Leaves nothing behind.

    Preconditions: this process has one thread (it forks).
    """
    uname = os.uname()
    steps = (_FILTERS, _LANDLOCK, _FENCES)
    if uname.machine in NUMBERS:
        layers = {name: layer for each in steps for name, layer in _ask(each).items()}
    else:
        no = Layer(False, f"no system calls known for {uname.machine}")
        layers = {name: no for each in steps for name, _ in each}
    held = layers.pop("landlock")
    place = cgroups.find()
    restricted = _number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0)
    return Machine(
        release=uname.release,
        architecture=uname.machine,
        superuser=os.geteuid() == 0,
        landlock=landlock.abi_version() if held.works else 0,
        landlock_reason=held.reason,
        landlock_errno=held.errno,
        cgroup=Layer(not place.trouble, place.trouble),
        cgroup_path=place.path,
        yama=_number("/proc/sys/kernel/yama/ptrace_scope", -1),
        apparmor_restricts_user_namespaces=restricted > 0,
        most_user_namespaces=_number("/proc/sys/user/max_user_namespaces", -1),
        user_namespaces_are_roots=_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0,
        container=_container(),
        **layers,
    )


def _listen(flags: int) -> None:
    os.close(seccomp.install(_ALLOW_ALL, seccomp.FILTER_FLAG_NEW_LISTENER | flags))


def _flag(flags: int) -> None:
    if not seccomp.has_flags(flags):
        raise OSError(errno.EINVAL, "seccomp: this kernel does not know the flag")


_FILTERS: list[Step] = [
    ("no_new_privs", process.set_no_new_privs),
    (
        "wait_killable",
        lambda: _flag(seccomp.FILTER_FLAG_NEW_LISTENER | seccomp.FILTER_FLAG_WAIT_KILLABLE_RECV),
    ),
    ("notification", lambda: _listen(0)),
    ("seccomp", lambda: seccomp.install(_ALLOW_ALL)),
]


def _restrict() -> None:
    process.set_no_new_privs()
    version = landlock.abi_version()
    if not version:
        raise OSError(
            errno.EOPNOTSUPP, "landlock: not in this kernel, or not in its list of security modules"
        )
    landlock.restrict_self(landlock.create_ruleset(landlock.known(version).files))


_LANDLOCK: list[Step] = [("landlock", _restrict)]


def _enter_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(namespaces.CLONE_NEWUSER)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)


def _enter_mount_namespace() -> None:
    namespaces.unshare(namespaces.CLONE_NEWNS)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)


def _mount_proc() -> None:
    """In a child of the child: the pid namespace begins with it."""
    answer = _ask([("proc", lambda: mounts.mount("proc", "/proc", "proc"))])["proc"]
    if not answer.works:
        raise OSError(answer.errno or errno.EPERM, answer.reason)


def _mount_overlay() -> None:
    mounts.mount("tmpfs", "/proc", "tmpfs")
    for name in ("upper", "work", "merged"):
        os.mkdir(f"/proc/{name}")
    mounts.mount(
        "overlay", "/proc/merged", "overlay", 0, "lowerdir=/usr,upperdir=/proc/upper,workdir=/proc/work"
    )


# In one child, in this order: each needs those before it, and the overlay covers the child's /proc.
_FENCES: list[Step] = [
    ("user_namespace", _enter_user_namespace),
    ("mount_namespace", _enter_mount_namespace),
    ("net_namespace", lambda: namespaces.unshare(namespaces.CLONE_NEWNET)),
    ("ipc_namespace", lambda: namespaces.unshare(namespaces.CLONE_NEWIPC)),
    ("uts_namespace", lambda: namespaces.unshare(namespaces.CLONE_NEWUTS)),
    ("cgroup_namespace", lambda: namespaces.unshare(namespaces.CLONE_NEWCGROUP)),
    ("pid_namespace", lambda: namespaces.unshare(namespaces.CLONE_NEWPID)),
    ("fresh_proc", _mount_proc),
    ("overlay", _mount_overlay),
]


def _ask(steps: Sequence[Step]) -> dict[str, Layer]:
    """Takes the steps in a child; what became of each."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _answer(steps, writer)
    os.close(writer)
    text = _read_until(reader, time.monotonic() + SECONDS)
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    said = {name: Layer(False, "it did not answer") for name, _ in steps}
    for line in text.splitlines():
        name, tab, answer = line.partition("\t")
        number, end, reason = answer.partition("\t")
        if tab and end:
            said[name] = Layer(number == "0", reason, int(number))
    return said


def _answer(steps: Sequence[Step], writer: int) -> None:
    try:
        process.set_parent_death_signal(signal.SIGKILL)
        for name, step in steps:
            number, reason = 0, ""
            try:
                step()
            except OSError as error:
                number, reason = error.errno or errno.EPERM, error.strerror or str(error)
            os.write(writer, f"{name}\t{number}\t{reason}\n".encode())
    finally:
        os._exit(0)


def _read_until(reader: int, deadline: float) -> str:
    text = b""
    while select.select([reader], [], [], max(0, deadline - time.monotonic()))[0]:
        piece = os.read(reader, 4096)
        if not piece:
            break
        text += piece
    return text.decode()


def _container() -> str:
    """What the container's maker left to be found."""
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if os.path.exists("/.dockerenv"):
        return "docker"
    return (_lines("/run/systemd/container") or [""])[0]


def _lines(path: str) -> list[str]:
    with contextlib.suppress(OSError), open(path) as file:
        return file.read().splitlines()
    return []


def _number(path: str, otherwise: int) -> int:
    with contextlib.suppress(ValueError):
        return int((_lines(path) or [""])[0])
    return otherwise
