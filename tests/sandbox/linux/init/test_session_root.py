"""The rooms of a session, built by a process that is pid 1 of its own namespaces."""

import errno
import io
import os
from unittest import mock

import pytest
from tests.kernel.child import USERS, errno_of, in_child

from pinfold.kernel import namespaces
from pinfold.kernel.probe import probe
from pinfold.sandbox.linux.init import session_root

GIB = 1 << 30
NEW = namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS | namespaces.CLONE_NEWPID | namespaces.CLONE_NEWNET


@pytest.mark.parametrize(
    ("memory", "scratch"), [(2 * GIB, GIB), (8 * GIB, 4 * GIB), (16 * GIB, 4 * GIB), (64 * GIB, 16 * GIB)]
)
def test_scratch_files_get_a_share_of_the_memory(memory: int, scratch: int) -> None:
    page = 4096
    told = {"SC_PHYS_PAGES": memory // page, "SC_PAGE_SIZE": page}
    with mock.patch.object(os, "sysconf", told.__getitem__):
        assert session_root.scratch_pages() == scratch // page


@USERS
def test_full_scratch_leaves_room_for_another_pen(uid: int) -> None:
    """Both ways: by content, and by number."""
    found = in_child(probe)
    if not found.user_namespace.works or not found.fresh_proc.works:
        pytest.skip(f"no pens here: {found.user_namespace.reason or found.fresh_proc.reason}")

    def action() -> list[int]:
        become_pid_one()
        with mock.patch.object(session_root, "scratch_pages", lambda: 64):
            session_root.build_session_root(None)
        errors = []
        with open("/scratch/tmp/large", "wb", buffering=0) as large:
            errors.append(errno_of(lambda: write_for_ever(large)))
        errors.append(errno_of(lambda: make_directories("/scratch/shm")))
        errors.append(errno_of(lambda: make_directories(session_root.NEW)))
        return errors

    assert in_child(action, uid) == [errno.ENOSPC, errno.ENOSPC, 0]


def become_pid_one() -> None:
    """Of new namespaces; the process that was ours waits for us, and says nothing itself."""
    uid, gid = os.getuid(), os.getgid()
    namespaces.unshare(NEW)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    if child := os.fork():
        os.waitpid(child, 0)
        os._exit(0)


def write_for_ever(file: io.FileIO) -> None:
    while True:
        file.write(bytes(4096))


def make_directories(place: str) -> None:
    for number in range(64):
        os.mkdir(f"{place}/{number}")
