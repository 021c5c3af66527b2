"""What the bytes of an address say."""

import socket

import pytest

from pinfold.sandbox.linux.addresses import AF_UNIX, family_of, length_of, unix_address, unix_path

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
    # other families, whatever follows
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
# The call takes an int: what stands above in the register does not count.
HIGH = 0xABCD_0000_0000


@pytest.mark.parametrize(("argument", "length"), [*LENGTHS, *((HIGH | low, found) for low, found in LENGTHS)])
def test_the_length_of_an_address(argument: int, length: int | None) -> None:
    assert length_of(argument) == length


def test_an_address_and_back() -> None:
    assert unix_path(unix_address(b"/a b")) == b"/a b"
    assert family_of(unix_address(b"x")) == AF_UNIX == socket.AF_UNIX
    assert family_of(b"\1") is None
