"""What the host gets from a spawner."""

import errno
import fcntl
import os
import socket
import struct

import pytest

from pinfold.sandbox.linux.host.command import receive_terminal
from pinfold.sandbox.linux.protocol import channel

TIOCSPTLCK = 0x40045431


def test_a_terminal_that_nobody_has_opened_is_at_its_end() -> None:
    """Whose command was killed before it opened its side: it would be read from for good."""
    ours, theirs = channel.pair()
    with ours, theirs:
        made = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        fcntl.ioctl(made, TIOCSPTLCK, struct.pack("=i", 0))
        socket.send_fds(theirs, [b"t"], [made])
        os.close(made)
        master = receive_terminal(ours)
    os.set_blocking(master, False)
    with pytest.raises(OSError, match="Input/output") as raised:
        os.read(master, 1)
    assert raised.value.errno == errno.EIO
    os.close(master)


def test_what_is_no_terminal_is_not_kept() -> None:
    ours, theirs = channel.pair()
    reads, writes = os.pipe()
    with ours, theirs:
        socket.send_fds(theirs, [b"t"], [writes])
        os.close(writes)
        with pytest.raises(OSError, match="ioctl"):
            receive_terminal(ours)
    assert os.read(reads, 1) == b""  # nobody has the other end
    os.close(reads)
