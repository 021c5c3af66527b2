"""What holds of the cgroups of pens, limits apart; each function runs in a child."""

import _socket
import errno
import os
import signal
import sys

from pinfold.kernel import cgroups
from pinfold.model.errors import ConfinementError
from pinfold.model.machine import Layer
from pinfold.model.policy import Limits, PolicyType, SandboxPolicy
from pinfold.sandbox.backend import StartRequest
from pinfold.sandbox.linux.host.backend import ask_machine
from pinfold.sandbox.linux.host.keeper_client import KeeperClient
from pinfold.sandbox.linux.host.session import LinuxSession
from pinfold.sandbox.linux.keeper.cgroups import NAME
from pinfold.sandbox.linux.protocol.keeper import KeeperRequest, NewPen
from pinfold.sandbox.linux.protocol.operations import Group
from tests.patience import wait_until
from tests.probe_module import probes_of, run

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)


class Grouping(KeeperClient):
    """Asks for a group that limits nothing with each pen: for which no controller is needed."""

    def ask(self, request: KeeperRequest, ways: int = 1) -> tuple[int, int, list[_socket.socket]]:
        if isinstance(request, NewPen):
            session, operations, *rest = request.values()
            request = NewPen(session, (*operations, Group(None, None)), *rest)
        return super().ask(request, ways)


def _opened(keeper: KeeperClient, *, works: bool = False) -> LinuxSession:
    machine = ask_machine()._replace(cgroup=Layer(works))
    return LinuxSession(keeper, machine, [os.getcwd()], None, ())


def _place() -> str:
    place = cgroups.find(())
    if place.trouble:
        print(f"no cgroup of ours: {place.trouble}")
        sys.exit(77)
    return place.path


def _groups(parent: str, keeper: int) -> list[str]:
    return [name for name in cgroups.names(parent) if name.startswith(f"{NAME}{keeper}-")]


def _members(parent: str, name: str) -> list[int]:
    try:
        with open(f"{parent}/{name}/cgroup.procs") as file:
            return [int(line) for line in file]
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):  # it may go while it is read
            raise
        return []


def a_pen_is_in_its_group_and_the_group_ends_with_it() -> None:
    parent = _place()
    session = _opened(Grouping())
    running = session.start(StartRequest("setsid sleep 1002 & sleep 1003", POLICY, os.getcwd()))
    (name,) = _groups(parent, session.keeper.pid)
    pid = session.pens[0][1].pid
    wait_until(lambda: len(_members(parent, name)) >= 3)
    assert pid in _members(parent, name) and session.keeper.pid not in _members(parent, name)
    running.cancel()
    running.wait()
    wait_until(lambda: _members(parent, name) == [pid])
    session.close()
    assert _groups(parent, session.keeper.pid) == []
    session.keeper.end()


def what_a_pen_left_running_keeps_its_group_until_the_session_ends() -> None:
    parent = _place()
    session = _opened(Grouping())
    assert session.run(StartRequest("sleep 1004 & true", POLICY, os.getcwd())).exit_code == 0
    session.close_idle(1e-9)
    assert len(_groups(parent, session.keeper.pid)) == 1
    session.close()
    assert _groups(parent, session.keeper.pid) == []
    session.keeper.end()


def what_a_killed_keeper_left_is_removed_by_the_next() -> None:
    parent = _place()
    session = _opened(Grouping())
    assert session.run(StartRequest("true", POLICY, os.getcwd())).exit_code == 0
    keeper = session.keeper.pid
    os.kill(keeper, signal.SIGKILL)
    os.waitpid(keeper, 0)
    # Whoever else of this user makes a group meanwhile may be the next.
    wait_until(lambda: not any(_members(parent, name) for name in _groups(parent, keeper)))
    session = _opened(Grouping())
    assert session.run(StartRequest("true", POLICY, os.getcwd())).exit_code == 0
    assert _groups(parent, keeper) == [] and len(_groups(parent, session.keeper.pid)) == 1
    session.keeper.end()
    assert _groups(parent, session.keeper.pid) == []


def a_group_that_cannot_be_made_stops_the_run() -> None:
    """The machine seemed to have the controllers, and has not."""
    place = cgroups.find()
    if not place.trouble:
        print(f"this machine limits groups: {place.path}")
        sys.exit(77)
    session = _opened(KeeperClient(), works=True)
    policy = SandboxPolicy(type=POLICY.type, limits=Limits(memory=1 << 30))
    try:
        session.run(StartRequest("touch made", policy, os.getcwd()))
    except ConfinementError as error:
        assert "no cgroup for the limits" in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError("it ran without its limit")
    assert not os.path.exists("made")
    session.keeper.end()


def a_pen_changes_no_group() -> None:
    session = _opened(KeeperClient())
    line = (
        "for group in $(find /sys/fs/cgroup -name cgroup.procs 2>/dev/null | head -50); do"
        " { echo $$ > $group; } 2>/dev/null && echo moved; mkdir ${group%/*}/x 2>/dev/null && echo made;"
        " done; mount -t cgroup2 none /tmp 2>/dev/null && echo mounted; true"
    )
    result = session.run(StartRequest(line, POLICY, os.getcwd()))
    assert (result.exit_code, result.stdout) == (0, b""), result
    session.keeper.end()


PROBES = probes_of(globals())

if __name__ == "__main__":
    run(globals())
