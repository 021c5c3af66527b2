"""Who listens on this machine's own loopback."""

import socket
import sys

import pytest

from pinfold.network.listeners import has_listener

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc/net")


@pytest.mark.parametrize("host", ["127.0.0.1", "", "::1", "::", "::ffff:127.0.0.1"])
def test_a_listener_is_heard(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((host, 0))
        port = sock.getsockname()[1]
        assert not has_listener(port)
        sock.listen()
        assert has_listener(port)
    assert not has_listener(port)


def test_another_address_is_not_loopback() -> None:
    with socket.create_server(("127.0.0.2", 0)) as sock:
        assert not has_listener(sock.getsockname()[1])
