"""What the keeper keeps of a process that a helper has left."""

import os
import socket

import pytest

from pinfold.sandbox.linux.keeper.forked_helpers import finish
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.keeper import Ready


def said_and_gone(ours: socket.socket, theirs: socket.socket) -> None:
    """A spawner that a command has killed when it was just ready."""
    channel.name_senders(ours, True)
    pid = os.fork()
    if pid == 0:
        channel.send(theirs, Ready(), (theirs.fileno(),))
        os._exit(0)
    os.waitpid(pid, 0)


def test_nothing_stays_open_of_one_that_was_killed_meanwhile() -> None:
    before = len(os.listdir("/proc/self/fd"))
    ours, theirs = channel.pair()
    with ours, theirs:
        said_and_gone(ours, theirs)
        with pytest.raises(ProcessLookupError):
            finish(ours)
        assert ours.fileno() >= 0, "whoever has it closes it"
    assert len(os.listdir("/proc/self/fd")) == before
