"""Calls that wait for a person's answer, and what happens to files that were opened for them."""

import errno
import os
import socket
from pathlib import Path

import pytest
from tests.kernel.child import in_child
from tests.sandbox.linux.warden.test_open import Unlucky

from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.file_change import FileChange
from pinfold.sandbox.linux.protocol.warden import CallAnswer, CallAsked
from pinfold.sandbox.linux.warden.questions import PendingCall, PendingQuestions

OPENED = FileChange("open", (), (os.O_WRONLY, 0, 0))


@pytest.mark.parametrize("giving", [0, errno.EMFILE, errno.ESRCH])
def test_a_granted_descriptor_that_its_caller_cannot_take_is_closed(giving: int, tmp_path: Path) -> None:
    """The caller was killed meanwhile, or has no room for a descriptor. Repeated, it leaves none open."""

    def action() -> None:
        asking = PendingQuestions(socket.socketpair()[0], (), ())
        proc = os.open("/proc", os.O_PATH)
        before = os.listdir("/proc/self/fd")
        for _ in range(10):
            caller = Unlucky(proc, b"", giving)
            asked = CallAsked(caller.id, 1, 1, "sh", "", "", "", False, OPENED)
            asking.pending[caller.id] = PendingCall(caller, asked, lambda _: None, (), False)
            granted = os.open(tmp_path / "granted", os.O_CREAT | os.O_WRONLY)
            asking.answer(CallAnswer(caller.id, 0), [channel.enclosed(granted)])
            assert caller.answers == ([giving] if giving else [])
        assert os.listdir("/proc/self/fd") == before

    in_child(action)
