"""Attacks that gain privileges: capabilities, namespaces, mounts, devices, and rarely used parts of the
kernel.

Calls that would change the machine get arguments that cannot: a module from no descriptor, the host's present
name. An error that comes after the check of privileges (EBADF and the like) then counts as success.
"""

import errno
import fcntl
import os
import socket
import stat
import termios
from collections.abc import Callable
from contextlib import suppress

from pinfold.kernel import mounts, namespaces
from pinfold.kernel.process import has_no_new_privs
from pinfold.kernel.syscall import address_of, buffer, system_call
from pinfold.sandbox.attacks.attack import (
    APPROVES,
    DEVICES,
    MODULES,
    PROTECTED,
    SHARES,
    Targets,
    Untried,
    attack,
)

BEYOND = (errno.EBADF, errno.EFAULT, errno.EINVAL, errno.ENOEXEC)
"""Errors that come after the kernel's check of privileges."""
PROCESS_KEYRING = -2
USER_MODE_ONLY = 1
HANDLE_BYTES = 128
IPPROTO_MPTCP = 262
"""Part of the kernel itself if it exists at all: a module that the attack loaded would stay loaded."""
SO_ATTACH_FILTER = 26


def past(call: Callable[[], object]) -> str:
    """Runs a call that succeeds, or fails by its arguments alone, once it is past the check of privileges."""
    try:
        call()
    except OSError as error:
        if error.errno is None or error.errno not in BEYOND:
            raise
    return "it was let in"


@attack("have a capability, or get one by an exec")
def have_capabilities(_: Targets) -> str | None:
    with open("/proc/self/status") as file:
        held = dict(line.split(":\t") for line in file if line.startswith("Cap"))
    return "some are left" if any(int(value, 16) for value in held.values()) else None


@attack("gain rights by a setuid program")
def use_setuid(_: Targets) -> str | None:
    return None if has_no_new_privs() else "an exec may gain rights"


@attack("make a user namespace, which has every capability")
def make_user_namespace(_: Targets) -> str:
    namespaces.unshare(namespaces.CLONE_NEWUSER)
    return "made it"


@attack("make a mount namespace and mount over a protected directory", PROTECTED)
def mount_over(targets: Targets) -> str:
    flags = namespaces.CLONE_NEWNS | (namespaces.CLONE_NEWUSER if os.geteuid() else 0)
    namespaces.unshare(flags)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    mounts.mount("none", f"{targets.work}/.vscode", "tmpfs")
    return "mounted it"


@attack("make a protected directory writable again by a remount", PROTECTED)
def remount(targets: Targets) -> str:
    path = f"{targets.work}/.vscode"
    if os.geteuid() == 0:
        # Where nothing is mounted yet, and no other process sees it.
        namespaces.unshare(namespaces.CLONE_NEWNS)
    else:
        namespaces.unshare(namespaces.CLONE_NEWNS | namespaces.CLONE_NEWUSER)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    mounts.mount(path, path, None, mounts.MS_BIND)
    mounts.mount(None, path, None, mounts.MS_BIND | mounts.MS_REMOUNT)
    os.close(os.open(f"{path}/tasks.json", os.O_WRONLY))
    return "remounted it"


@attack("mount by the newer calls")
def mount_by_fsopen(_: Targets) -> str:
    if os.geteuid():
        namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
    os.close(system_call("fsopen", b"tmpfs", 0))
    return "began a mount"


@attack("join a namespace", needs_root=True)
def join_namespace(_: Targets) -> str:
    descriptor = os.open("/proc/self/ns/uts", os.O_RDONLY)
    namespaces.setns(descriptor)
    return "joined it"


@attack("change the root directory", needs_root=True)
def change_root(_: Targets) -> str:
    os.chroot("/")
    return "changed it"


@attack("share the machine's ipc namespace: its queues and shared memory")
def share_ipc(targets: Targets) -> str | None:
    return _shared("ipc", targets)


@attack("share the machine's network namespace")
def share_network(targets: Targets) -> str | None:
    return _shared("net", targets)


@attack("share the machine's uts namespace, which holds its name")
def share_uts(targets: Targets) -> str | None:
    return _shared("uts", targets)


@attack("share the machine's cgroup namespace")
def share_cgroup(targets: Targets) -> str | None:
    return _shared("cgroup", targets)


def _shared(kind: str, targets: Targets) -> str | None:
    return "it is the same" if os.readlink(f"/proc/self/ns/{kind}") == targets.namespaces[kind] else None


@attack("move to another cgroup, out of every limit", needs_root=True)
def escape_cgroup(_: Targets) -> str:
    for path in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs"):
        if os.path.exists(path):
            os.close(os.open(path, os.O_WRONLY))
            return f"opened {path}"
    raise Untried("no cgroup v2 is mounted")


@attack("set up an io_uring, whose requests no filter sees")
def set_up_io_uring(_: Targets) -> str:
    os.close(system_call("io_uring_setup", 1, buffer(b"", 120)))
    return "set it up"


@attack("load a program into the kernel by bpf", needs_root=True)
def load_bpf(_: Targets) -> str:
    program = buffer(bytes([0xB7, 0, 0, 0, 0, 0, 0, 0, 0x95]) + bytes(7))
    licence = buffer(b"GPL")
    head = [1, 2, address_of(program), address_of(licence)]
    attributes = b"".join(
        value.to_bytes(size, "little") for value, size in zip(head, (4, 4, 8, 8), strict=True)
    )
    os.close(system_call("bpf", 5, buffer(attributes + bytes(104)), 128))
    return "loaded it"


@attack("count what the kernel does, by perf_event_open", needs_root=True)
def open_perf(_: Targets) -> str:
    attributes = buffer((1).to_bytes(4, "little") + (112).to_bytes(4, "little"), 112)
    os.close(system_call("perf_event_open", attributes, -1, 0, -1, 0))
    return "opened a counter"


@attack("hold the kernel still by userfaultfd")
def open_userfaultfd(_: Targets) -> str:
    os.close(system_call("userfaultfd", os.O_CLOEXEC | USER_MODE_ONLY))
    return "opened it"


@attack("put a key on a keyring of the user")
def add_key(_: Targets) -> str:
    system_call("add_key", b"user", b"pinfold-selftest", b"x", 1, PROCESS_KEYRING)
    return "put it there"


@attack("list the keyring of the user's session")
def read_keyring(_: Targets) -> str:
    system_call("keyctl", 0, -3, 0)
    return "found it"


@attack("open a file by its inode, past everything that covers it", needs_root=True)
def open_by_handle(targets: Targets) -> str | None:
    handle = buffer(HANDLE_BYTES.to_bytes(4, "little") + bytes(4 + HANDLE_BYTES))
    where = buffer(bytes(4))
    system_call("name_to_handle_at", -100, os.fsencode(f"{targets.outside}/file"), handle, where, 0)
    directory = os.open(targets.outside, os.O_RDONLY)
    os.close(system_call("open_by_handle_at", directory, handle, os.O_RDONLY))
    return "opened it"


@attack("load a module into the kernel", needs_root=True)
def load_module(_: Targets) -> str:
    return past(lambda: system_call("finit_module", -1, b"", 0))


@attack("give the machine another name", needs_root=True)
def rename_machine(_: Targets) -> str:
    name = os.uname().nodename.encode()
    system_call("sethostname", name, len(name))
    return "gave it its own"


@attack("read the kernel's log", needs_root=True)
def read_kernel_log(_: Targets) -> str:
    os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    return "opened it"


@attack("open a device of the machine: a disk, its memory, a virtual machine", needs_root=True)
def open_device(_: Targets) -> str | None:
    names = ("vda", "sda", "nvme0n1", "mem", "kvm", "fuse", "loop-control", "net/tun")
    for path in (f"/dev/{name}" for name in names):
        with suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
            return f"opened {path}"
    return None


@attack("change the mode of a device of the machine", DEVICES, needs_root=True)
def change_device(_: Targets) -> str:
    mode = stat.S_IMODE(os.stat("/dev/full").st_mode)
    os.chmod("/dev/full", mode)  # to its present mode
    return "changed it"


@attack("make a socket of a protocol that is a module of the kernel's", MODULES)
def load_protocol(_: Targets) -> str:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP).close()
    return "made it"


@attack("put a filter on a socket, which the kernel compiles", SHARES, needs_root=True)
def filter_socket(_: Targets) -> str:
    allow = buffer(bytes([6, 0, 0, 0, 0xFF, 0xFF, 0, 0]))
    program = (1).to_bytes(8, "little") + address_of(allow).to_bytes(8, "little")
    with socket.socket() as filtered:
        filtered.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
    return "put it there"


@attack("make a device in the workspace and open it", needs_root=True)
def make_device(targets: Targets) -> str:
    path = f"{targets.work}/device"
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    os.close(os.open(path, os.O_RDONLY))
    return "opened it"


@attack("type on a terminal by TIOCSTI", APPROVES, needs_root=True)
def type_on_terminal(_: Targets) -> str:
    _on_own_terminal(lambda terminal: fcntl.ioctl(terminal, termios.TIOCSTI, b"x"))
    return "typed"


@attack(
    "type on a terminal by TIOCSTI, with bits above those that a filter compares", APPROVES, needs_root=True
)
def type_with_high_bits(_: Targets) -> str:
    high = 1 << 32
    letter = buffer(b"x")
    _on_own_terminal(lambda terminal: system_call("ioctl", terminal, termios.TIOCSTI | high, letter))
    return "typed"


@attack("change a line discipline, which is a driver")
def set_line_discipline(_: Targets) -> str:
    _on_own_terminal(lambda terminal: fcntl.ioctl(terminal, termios.TIOCSETD, (0).to_bytes(4, "little")))
    return "changed it"


def _on_own_terminal(work: Callable[[int], object]) -> None:
    """On a new terminal that controls a session of ours: no other process reads what is typed there."""
    _, slave = os.openpty()  # its other end stays open: closing it would end this very session
    if os.getsid(0) != os.getpid():
        os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    work(slave)
