"""What a session's pid 1 answers, asked without a session."""

import os
import resource
import socket
from collections.abc import Callable

from tests.kernel.child import in_child

from pinfold.kernel.socket_info import sockets_of
from pinfold.sandbox.linux.init.main import send_socket
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.command import DIAGNOSIS, LEFT, STREAM


def answer_of(prepare: Callable[[], None], wanted: int = STREAM) -> tuple[bytes, list[int]]:
    def action() -> tuple[bytes, list[int]]:
        ours, theirs = channel.pair()
        prepare()
        send_socket(theirs, wanted)
        return channel.receive_bytes(ours, LEFT.size)

    return in_child(action)


def test_a_socket_is_given() -> None:
    data, descriptors = answer_of(lambda: None)
    assert data == LEFT.pack(0, 0, 0) and len(descriptors) == 1


def test_where_there_is_no_room_for_one_the_answer_is_empty() -> None:
    assert answer_of(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))) == (LEFT.pack(0, 0, 0), [])


def test_what_sockets_take_is_told_to_who_has_the_socket_for_it() -> None:
    def action() -> tuple[int, int]:
        ours, theirs = channel.pair()
        send_socket(theirs, DIAGNOSIS)
        data, (descriptor,) = channel.receive_bytes(ours, LEFT.size)
        assert data == LEFT.pack(0, DIAGNOSIS, 0)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(fileno=descriptor) as link:
            client, (accepted, _) = socket.create_connection(server.getsockname()), server.accept()
            client.send(b"x" * 1000)
            accepted.recv(1, socket.MSG_PEEK)
            taken = {each.inode: each.memory for each in sockets_of(link, socket.IPPROTO_TCP)}
            return taken[os.fstat(server.fileno()).st_ino], taken[os.fstat(accepted.fileno()).st_ino]

    idle, filled = in_child(action)
    assert idle == 0 and filled > 1000
