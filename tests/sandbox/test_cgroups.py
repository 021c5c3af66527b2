"""The cgroups of pens, as root and as a user to whom a group is delegated. The probes say what holds."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from pinfold.kernel import cgroups
from tests.kernel.child import in_child
from tests.patience import wait_until
from tests.probe_runner import ORDINARY, USERS, house, interpreter, run_as, run_at_home
from tests.sandbox.probes.cgroups import PROBES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", PROBES)
def test_group(probe: str, user: str) -> None:
    run_at_home(user, probe, "tests.sandbox.probes.cgroups")


@contextmanager
def delegated() -> Iterator[str]:
    """A group in a group that belongs to the ordinary user, as systemd would give one."""
    place = cgroups.find(())
    if os.geteuid() or place.trouble:
        pytest.skip(place.trouble or "only root can delegate a group")
    top = f"{place.path}/pinfold-test-{os.getpid()}"
    groups = (top, f"{top}/leaf")
    try:
        for group in groups:
            os.mkdir(group)
            for name in ("", "cgroup.procs", "cgroup.subtree_control"):
                os.chown(f"{group}/{name}", ORDINARY, ORDINARY)
        yield groups[-1]
    finally:
        for group in reversed(groups):
            wait_until(partial(cgroups.remove, group))  # what was killed takes a moment to be gone


@pytest.mark.parametrize("probe", PROBES)
def test_group_of_a_user_to_whom_one_is_delegated(probe: str) -> None:
    interpreter("ordinary")  # skips here, where pytest hears of it
    with delegated() as group, house("ordinary") as where:

        def run() -> None:
            cgroups.add(group, os.getpid())
            run_as("ordinary", probe, where, "tests.sandbox.probes.cgroups", fresh=True)

        in_child(run)
