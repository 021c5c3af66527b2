"""Reading a caller that tries to mislead. The caller here is a child that asks about itself."""

import os

from tests.kernel.child import in_child

from pinfold.kernel.process import set_name
from pinfold.sandbox.linux.warden.affinity import CallerAffinity
from pinfold.sandbox.linux.warden.notification import Caller


def test_a_threads_name_cannot_fake_its_process_id() -> None:
    def action() -> tuple[int, int]:
        set_name("Tgid:\t1")
        caller = Caller(-1, os.open("/proc", os.O_PATH), CallerAffinity(), (0, os.getpid(), 0, 0, 0))  # type: ignore[arg-type]
        return caller.process(), os.getpid()

    found, own_fds = in_child(action)
    assert found == own_fds
