"""What a session's pid 1 answers, asked without a session."""

import resource
from collections.abc import Callable

from pinfold.sandbox.linux import channel
from pinfold.sandbox.linux.init import send_socket
from pinfold.sandbox.linux.replies import LEFT
from tests.kernel.child import in_child


def answer_of(prepare: Callable[[], None]) -> tuple[bytes, list[int]]:
    def action() -> tuple[bytes, list[int]]:
        ours, theirs = channel.pair()
        prepare()
        send_socket(theirs)
        return channel.receive_bytes(ours, LEFT.size)

    return in_child(action)


def test_a_socket_is_given() -> None:
    data, descriptors = answer_of(lambda: None)
    assert data == LEFT.pack(0, 0, 0) and len(descriptors) == 1


def test_where_there_is_no_room_for_one_the_answer_is_empty() -> None:
    assert answer_of(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))) == (LEFT.pack(0, 0, 0), [])
