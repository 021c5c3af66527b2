"""Addresses as bytes, and the file behind a unix socket."""

import errno
import os
import signal
import socket
import tempfile
from pathlib import Path

from pinfold.kernel import capabilities, namespaces, sockets
from tests.kernel.child import USERS, errno_of, in_child


def unix(path: str | Path) -> bytes:
    return b"\1\0" + os.fsencode(path) + b"\0"


def test_connect_and_bind_answer_the_kernels_numbers(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        assert sockets.bind(server.fileno(), unix(tmp_path / "s")) == 0
        assert sockets.bind(server.fileno(), unix(tmp_path / "t")) == errno.EINVAL
        assert sockets.connect(client.fileno(), unix(tmp_path / "s")) == errno.ECONNREFUSED
        server.listen()
        assert sockets.connect(client.fileno(), unix(tmp_path / "s")) == 0
        assert client.getpeername() == str(tmp_path / "s")
    with socket.socket() as inet:
        assert sockets.family(inet.fileno()) == socket.AF_INET
        assert sockets.connect(inet.fileno(), b"\2\0") == errno.EINVAL
        assert sockets.connect(inet.fileno(), b"") == errno.EINVAL
    reader, writer = os.pipe()
    assert sockets.connect(reader, unix("x")) == errno.ENOTSOCK
    assert sockets.family(reader) == -errno.ENOTSOCK
    os.close(reader)
    os.close(writer)
    assert sockets.connect(reader, unix("x")) == errno.EBADF


def test_an_address_may_hold_nul() -> None:
    name = b"\0a\0b" + os.urandom(8).hex().encode()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(name)
        server.listen()
        assert sockets.connect(client.fileno(), b"\1\0" + name) == 0
        assert client.getpeername() == name


def test_a_signal_ends_a_connect_that_waits(tmp_path: Path) -> None:
    def action() -> list[int]:
        server, clients = socket.socket(socket.AF_UNIX), [socket.socket(socket.AF_UNIX) for _ in range(2)]
        server.bind(str(tmp_path / "s"))
        server.listen(0)
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        return [sockets.connect(client.fileno(), unix(tmp_path / "s")) for client in clients]

    assert in_child(action) == [0, errno.EINTR]


@USERS
def test_the_file_of_a_socket_is_found_by_no_name(uid: int) -> None:
    def action() -> tuple[bool, bool, int, list[int | None]]:
        own, group = os.geteuid(), os.getegid()
        namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET)
        namespaces.write_id_maps(own, group, inside_uid=own, inside_gid=group)
        os.chdir(where)
        bound, other = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        bound.bind("s")
        inode = os.stat("s").st_ino
        os.rename("s", "moved")
        other.bind("s")
        file = sockets.bound_file(bound.fileno())
        assert file is not None
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(b"\0x")
        without = [sockets.bound_file(one.fileno()) for one in (abstract, socket.socket())]
        same, closes = os.fstat(file).st_ino == inode, not os.get_inheritable(file)
        capabilities.capset(capabilities.Sets())
        return same, closes, errno_of(lambda: sockets.bound_file(bound.fileno())), without

    with tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o777)
        assert in_child(action, uid) == (True, True, errno.EPERM, [None, None])


def test_a_datagram_socket_tells_who_is_there(tmp_path: Path) -> None:
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        path = tmp_path / str(kind)
        with socket.socket(socket.AF_UNIX, kind) as server:
            server.bind(str(path))
            assert sockets.connect(asking.fileno(), unix(path)) == errno.EPROTOTYPE
        assert sockets.connect(asking.fileno(), unix(path)) == errno.ECONNREFUSED
    asking.close()
