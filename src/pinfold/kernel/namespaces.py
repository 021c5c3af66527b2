"""Namespaces: leaving the old ones, joining others, and having a child in new ones.

Facts about namespaces (unshare(2), setns(2), user_namespaces(7), clone(2)):
- unshare(CLONE_NEWPID) and setns to a pid namespace move the caller's next children, not the caller.
- A first write to uid_map and gid_map by the process itself may map one id, its own; gid_map asks for `deny`
  in setgroups first, unless the writer has CAP_SETGID in the parent namespace.
- setns(pidfd, flags) joins several namespaces of a process at once (5.8).
- With CLONE_PARENT the child's parent, which its PR_SET_PDEATHSIG follows, is the caller's own parent. The
  init of a pid namespace may not use it.

Facts about a raw clone under CPython and glibc, tried:
- os.fork() cannot pass flags. A raw clone without CLONE_VM is a fork as the kernel sees it; missing is what
  libc and Python do around it. PyOS_BeforeFork and PyOS_AfterFork_* do Python's part. Of glibc's part a
  process with one thread needs only its cached thread id renewed, which CLONE_CHILD_SETTID does at the
  address that PR_GET_TID_ADDRESS tells; without it raise() and abort() would signal the parent's id.
"""

import ctypes
import os
import signal
from contextlib import suppress

from pinfold.kernel.syscall import MACHINE, check, failure, libc, number, prctl

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
NEW_NAMESPACES = (
    CLONE_NEWTIME
    | CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
)

CLONE_FS = 0x00000200
"""For unshare: a working directory, root and umask of this thread's own."""
CLONE_PARENT = 0x00008000
CLONE_CHILD_CLEARTID = 0x00200000
CLONE_CHILD_SETTID = 0x01000000
_PR_GET_TID_ADDRESS = 40

_holding_gil = ctypes.PyDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Moves this process into new namespaces (for pid: its next children)."""
    check("unshare", libc.unshare(ctypes.c_int(flags)))


def setns(descriptor: int, flags: int = 0) -> None:
    """Joins the namespace of an /proc/PID/ns file, or with `flags` those of a pidfd's process."""
    check("setns", libc.setns(ctypes.c_int(descriptor), ctypes.c_int(flags)))


def write_id_maps(uid: int, gid: int, *, inside_uid: int, inside_gid: int) -> None:
    """Maps one user and one group into the user namespace that this process has just entered."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{inside_uid} {uid} 1")
    _write("/proc/self/gid_map", f"{inside_gid} {gid} 1")


def mapping(text: str) -> int:
    """A descriptor of a user namespace with this map of users and groups, and without processes.

    Preconditions: this process has one thread, and is root in its user namespace.
    """
    out, into = os.pipe2(os.O_CLOEXEC)
    pid = fork(CLONE_NEWUSER)
    if pid == 0:
        os.close(into)
        os.read(out, 1)
        os._exit(0)
    os.close(out)
    try:
        for name in ("uid_map", "gid_map"):
            _write(f"/proc/{pid}/{name}", text)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(into)
        with suppress(ChildProcessError):  # the kernel reaps it where we ignore SIGCHLD
            os.waitpid(pid, os.WNOHANG)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def fork(flags: int = 0) -> int:
    """os.fork() with clone flags, such as CLONE_PARENT or CLONE_NEW*; 0 in the child.

    Preconditions: this process has one thread, and no flag shares memory (CLONE_VM) or wants a stack.
    With CLONE_PARENT the child is not ours to wait for.
    """
    address = ctypes.c_void_p()
    flags |= signal.SIGCHLD
    if _knows_thread_id(address):
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
    # The last two arguments change places between the architectures.
    tail = (address, None) if MACHINE == "x86_64" else (None, address)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _holding_gil.syscall(ctypes.c_long(number("clone")), ctypes.c_long(flags), None, None, *tail)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    error = failure("clone") if pid == -1 else None
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if error:
        raise error
    return pid


def _knows_thread_id(address: ctypes.c_void_p) -> bool:
    """Whether libc keeps our thread id where the kernel was told to clear it: glibc does, musl does not."""
    try:
        prctl("PR_GET_TID_ADDRESS", _PR_GET_TID_ADDRESS, ctypes.byref(address))
    except OSError:  # a kernel without CONFIG_CHECKPOINT_RESTORE
        return False
    return address.value is not None and ctypes.c_int.from_address(address.value).value == os.getpid()
