"""Reading the bytes of an address."""

import socket

import pytest

from pinfold.sandbox.linux.warden.socket_address import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    Peer,
    family_of,
    internet_peer,
    is_inside,
    length_of,
    unix_address,
    unix_path,
    with_port,
)

PATHS = [
    # paths, up to the first NUL or the end
    (b"\1\0/a\0", b"/a"),
    (b"\1\0/a", b"/a"),
    (b"\1\0/a\0rest", b"/a"),
    (b"\1\0" + b"x" * 108, b"x" * 108),
    (b"\1\0\xff", b"\xff"),
    # unix, but no path
    (b"\1\0", None),
    (b"\1\0\0", None),
    (b"\1\0\0/a", None),
    (b"\1\0\0abstract\0with\0nul", None),
    (b"\1\0" + b"x" * 109, None),
    # other families, with any content
    (b"\2\0/a", None),
    (b"\0\0/a", None),
    (b"\1\1/a", None),
    (b"\x10\0/a", None),
    # no address at all
    (b"", None),
    (b"\1", None),
]


@pytest.mark.parametrize(("address", "path"), PATHS)
def test_the_path_of_an_address(address: bytes, path: bytes | None) -> None:
    assert unix_path(address) == path


LENGTHS = [(0, 0), (2, 2), (110, 110), (128, 128), (129, None), (0xFFFFFFFF, None), (1 << 31, None)]
# The call takes an int: the upper half of the register does not count.
HIGH = 0xABCD_0000_0000


@pytest.mark.parametrize(("argument", "length"), [*LENGTHS, *((HIGH | low, found) for low, found in LENGTHS)])
def test_the_length_of_an_address(argument: int, length: int | None) -> None:
    assert length_of(argument) == length


def test_an_address_and_back() -> None:
    assert unix_path(unix_address(b"/a b")) == b"/a b"
    assert family_of(unix_address(b"x")) == AF_UNIX == socket.AF_UNIX
    assert family_of(b"\1") is None


PEERS = [
    (b"\2\0\1\xbb\x01\x02\x03\x04" + bytes(8), Peer(AF_INET, "1.2.3.4", 443)),
    (b"\x0a\0\0\x50" + bytes(4) + bytes(15) + b"\1" + bytes(4), Peer(AF_INET6, "::1", 80)),
    # IPv4, mapped
    (b"\x0a\0\0\x50" + bytes(14) + b"\xff\xff\x01\x02\x03\x04" + bytes(4), Peer(AF_INET, "1.2.3.4", 80)),
    # without the scope, as old programs have it
    (b"\x0a\0\0\x50" + bytes(4) + bytes(15) + b"\1", Peer(AF_INET6, "::1", 80)),
    # too short, another family, none
    (b"\2\0\1\xbb\x01\x02\x03\x04", None),
    (b"\x0a\0\0\x50" + bytes(19), None),
    (b"\1\0" + bytes(30), None),
    (b"", None),
]


@pytest.mark.parametrize(("address", "peer"), PEERS)
def test_the_peer_of_an_internet_address(address: bytes, peer: Peer | None) -> None:
    assert internet_peer(address) == peer


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", True), ("::", True),
        ("198.18.0.1", True), ("198.18.1.0", False), ("1.2.3.4", False), ("128.0.0.1", False),
        ("::2", False), ("10.0.0.1", False), ("fe80::1", False),
    ],
)  # fmt: skip
def test_which_addresses_are_the_sessions_own(host: str, inside: bool) -> None:
    assert is_inside(host) is inside


def test_another_port() -> None:
    address = b"\2\0\1\xbb\x01\x02\x03\x04" + bytes(8)
    assert internet_peer(with_port(address, 80)) == Peer(AF_INET, "1.2.3.4", 80)
