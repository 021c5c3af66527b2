"""What can be told of an agent by its process."""

import os
import pty
import signal
import subprocess

from pinfold.service.agent_process import has_terminal
from tests.patience import wait_until


def test_an_agent_at_a_terminal_is_known() -> None:
    pid, terminal = pty.fork()
    if not pid:
        signal.pause()
    try:
        wait_until(lambda: has_terminal(pid))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as alone:
        assert not has_terminal(alone.pid)
        alone.kill()
    assert not has_terminal(alone.pid)
