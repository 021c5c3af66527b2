"""Namespaces and mounts, made by a child that ends right after."""

import errno
import os
import signal
import socket
import struct
from pathlib import Path

import pytest

from pinfold.kernel import capabilities, files, mounts, namespaces, netlink
from pinfold.model.machine import Machine
from tests.kernel.child import USERS, errno_of, in_child

FENCE = (
    namespaces.CLONE_NEWUSER
    | namespaces.CLONE_NEWNS
    | namespaces.CLONE_NEWPID
    | namespaces.CLONE_NEWNET
    | namespaces.CLONE_NEWIPC
    | namespaces.CLONE_NEWUTS
)
NOBODYS = f"pinfold-test-{os.getpid()}"
"""A name that nobody else has on this machine."""


@pytest.fixture(autouse=True)
def needs_user_namespaces(machine: Machine) -> None:
    if not machine.user_namespace.works or not machine.mount_namespace.works:
        pytest.skip(f"no user namespaces: {machine.user_namespace.reason or machine.mount_namespace.reason}")


def enter() -> None:
    uid, gid = os.getuid(), os.getgid()
    namespaces.unshare(FENCE)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)


@USERS
def test_ids_are_mapped(uid: int) -> None:
    def action() -> tuple[int, int]:
        enter()
        return os.getuid(), os.getgid()

    assert in_child(action, uid)[0] == uid


@USERS
def test_fork_with_clone_parent_is_a_sister(uid: int) -> None:
    """Her parent is ours, so that her death signal follows the keeper."""

    def action() -> tuple[int, int, bytes, int]:
        reader, writer = os.pipe()
        builder = os.fork()
        if builder == 0:
            enter()
            child = namespaces.fork(namespaces.CLONE_PARENT)
            if child == 0:
                os.write(writer, f"{os.getpid()} {os.getppid()}".encode())
                os._exit(7)
            os.write(writer, f"{child};".encode())
            os._exit(0)
        os.waitpid(builder, 0)
        first = os.read(reader, 100)
        while b" " not in first:
            first += os.read(reader, 100)
        pid, status = os.waitpid(-1, 0)
        return pid, os.waitstatus_to_exitcode(status), first, builder

    pid, code, said, builder = in_child(action, uid)
    assert code == 7
    assert pid != builder
    # She is the first of her pid namespace, and sees no parent in it. The two lines race.
    assert b"1 0" in said
    assert f"{pid};".encode() in said


@USERS
def test_fork_renews_what_libc_knows_of_the_thread(uid: int) -> None:
    def action() -> int:
        child = namespaces.fork()
        if child == 0:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
            signal.raise_signal(signal.SIGUSR1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        return os.WTERMSIG(status)

    assert in_child(action, uid) == signal.SIGUSR1


@USERS
def test_setns_by_pidfd(uid: int) -> None:
    def action() -> tuple[str, str]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            enter()
            os.write(writer, b"x")
            signal.pause()
        os.read(reader, 1)
        theirs = os.readlink(f"/proc/{child}/ns/mnt")
        namespaces.setns(os.pidfd_open(child), namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
        ours = os.readlink("/proc/self/ns/mnt")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return ours, theirs

    ours, theirs = in_child(action, uid)
    assert ours == theirs


@USERS
def test_a_read_only_tree_with_a_hole(uid: int) -> None:
    def action() -> tuple[int, ...]:
        enter()
        everything = mounts.OPEN_TREE_CLONE | mounts.OPEN_TREE_CLOEXEC | mounts.AT_RECURSIVE
        tree = mounts.open_tree(mounts.AT_FDCWD, "/", everything)
        mounts.mount_setattr(tree, flags=mounts.AT_RECURSIVE, turn_on=mounts.MOUNT_ATTR_RDONLY)
        mounts.move_mount(tree, mounts.AT_FDCWD, "/mnt")
        tmp = mounts.new_mount("tmpfs", {"size": "1m", "mode": "0777"}, mounts.MOUNT_ATTR_NOSUID)
        mounts.move_mount(tmp, mounts.AT_FDCWD, "/mnt/tmp")
        os.chdir("/mnt")
        mounts.pivot_root(".", ".")
        mounts.umount(".", mounts.MNT_DETACH)
        os.chdir("/")
        return (
            errno_of(lambda: os.mkdir(f"/var/tmp/{NOBODYS}")),
            errno_of(lambda: os.mkdir(f"/dev/shm/{NOBODYS}")),
            errno_of(lambda: os.mkdir(f"/tmp/{NOBODYS}")),
        )

    assert in_child(action, uid) == (errno.EROFS, errno.EROFS, 0)


@USERS
def test_a_file_over_a_file(uid: int) -> None:
    def action() -> str:
        enter()
        mounts.bind("/dev/null", "/etc/passwd")
        with open("/etc/passwd") as file:
            return file.read()

    assert in_child(action, uid) == ""


@USERS
def test_a_file_system_says_what_it_did_not_like(uid: int) -> None:
    def action() -> None:
        enter()
        mounts.new_mount("tmpfs", {"colour": "blue"})

    with pytest.raises(OSError, match=r"fsconfig: Invalid argument .tmpfs.*colour"):
        in_child(action, uid)


@USERS
def test_loopback_and_a_local_route(uid: int) -> None:
    def action() -> tuple[str, int]:
        enter()
        with socket.socket() as early:
            before = errno_of(lambda: early.connect(("198.18.3.4", 8080)))
        netlink.set_up()
        netlink.add_local_route("198.18.0.0", 15)
        with socket.socket() as server:
            server.bind(("0.0.0.0", 8080))
            server.listen()
            with socket.socket() as client:
                client.connect(("198.18.3.4", 8080))
                accepted, _ = server.accept()
                with accepted:
                    return accepted.getsockname()[0], before

    assert in_child(action, uid) == ("198.18.3.4", errno.ENETUNREACH)


@USERS
def test_streams_over_loopback_in_large_pieces(uid: int) -> None:
    size = 524_280

    def action() -> bool:
        enter()
        netlink.set_up()
        try:
            netlink.set_largest_piece(size)
        except OSError as error:
            return error.errno == errno.EINVAL  # before 5.19
        said = netlink._exchange(18, 1, struct.pack("=BxHiII", 0, 0, netlink.LOOPBACK, 0, 0))[1]
        return struct.pack("=HHI", 8, 41, size) in said

    assert in_child(action, uid)


@USERS
def test_netlink_tells_the_errno(uid: int) -> None:
    def action() -> None:
        enter()
        netlink.set_up(99)

    with pytest.raises(OSError, match="RTM_NEWLINK: No such device"):
        in_child(action, uid)


def bounding() -> int:
    """What an exec would give back to uid 0."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd:"))


@USERS
def test_no_capability_survives(uid: int) -> None:
    def action() -> tuple[bool, capabilities.Sets, int, int]:
        enter()
        had = capabilities.capget().effective != 0
        capabilities.drop_all()
        return (
            had,
            capabilities.capget(),
            bounding() if os.getuid() == 0 else 0,
            errno_of(lambda: mounts.mount("tmpfs", "/mnt", "tmpfs")),
        )

    assert in_child(action, uid) == (True, capabilities.Sets(), 0, errno.EPERM)


@USERS
def test_one_capability_can_be_kept(uid: int) -> None:
    kept = 1 << capabilities.CAP_SYS_PTRACE

    def action() -> capabilities.Sets:
        enter()
        capabilities.drop_all(keep=kept)
        return capabilities.capget()

    assert in_child(action, uid) == (kept, kept, 0)


@USERS
def test_a_rename_over_a_mount_is_busy(uid: int) -> None:
    def action() -> int:
        enter()
        mounts.mount("tmpfs", "/mnt", "tmpfs")
        for name in ("a", "b"):
            os.close(os.open(f"/mnt/{name}", os.O_CREAT | os.O_WRONLY))
        mounts.bind("/mnt/a", "/mnt/a")
        return errno_of(lambda: files.renameat2(files.AT_FDCWD, "/mnt/b", files.AT_FDCWD, "/mnt/a"))

    assert in_child(action, uid) == errno.EBUSY


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "255.255.255.255", "224.0.0.1"])
def test_addresses_of_this_machine(address: str) -> None:
    assert netlink.is_own_address(address)


def test_an_address_of_this_machine_that_a_route_made() -> None:
    def probe() -> tuple[bool, bool, bool]:
        namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET)
        netlink.set_up()
        before = netlink.is_own_address("198.18.3.4")
        netlink.add_local_route("198.18.0.0", 15)
        return before, netlink.is_own_address("198.18.3.4"), netlink.is_own_address("192.0.2.1")

    assert in_child(probe) == (False, True, False)
