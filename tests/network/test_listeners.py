"""Who listens on this machine's own loopback."""

import socket
import sys

import pytest

from pinfold.network.listeners import is_heard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc/net")


@pytest.mark.parametrize("host", ["127.0.0.1", "", "::1", "::", "::ffff:127.0.0.1"])
def test_a_listener_is_heard(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((host, 0))
        port = sock.getsockname()[1]
        assert not is_heard(port)
        sock.listen()
        assert is_heard(port)
    assert not is_heard(port)


def test_another_address_is_not_loopback() -> None:
    with socket.create_server(("127.0.0.2", 0)) as sock:
        assert not is_heard(sock.getsockname()[1])
