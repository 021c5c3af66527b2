"""A waiting builder makes a warden ahead and drops it, which must not close descriptors later."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox backend is for Linux")

# Python forgets what was rehearsed, cycles and all, only after its descriptors' numbers are others'.
REHEARSED = """
import gc, os, sys
from pinfold.kernel.process import close_all_but
from pinfold.policy.shipped_protected import name_rules
from pinfold.sandbox.linux.keeper import build_pen
from pinfold.sandbox.linux.protocol.operations import Landlock, LandlockRule, Seccomp
from pinfold.sandbox.linux.warden import config, mount_guard
from pinfold.sandbox.linux.warden.peer_wardens import PeerWardens

gc.disable()
config.HOST, config.BOUND = "", os.getcwd()
mount_guard.EMPTY = mount_guard.VOID = os.getcwd()
rule = LandlockRule(os.getcwd(), ("write", "make", "remove"))
operations = (Landlock((rule,)), Seccomp("x", watched=True, asks=True))
peers = PeerWardens()
build_pen.rehearse(operations, name_rules(()), peers)
made = [number for number in range(3, 64) if os.path.exists(f"/proc/self/fd/{number}")]
close_all_but({0, 1, 2, *peers.descriptors})
others = [os.open("/dev/null", os.O_RDONLY) for _ in range(40)]
gc.collect()
for number in others:
    os.fstat(number)
print("left", len(made) - len(peers.descriptors))
"""


def test_a_dropped_warden_closes_no_later_descriptor(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REHEARSED], cwd=str(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("left ") and done.stdout != "left 0\n", "nothing was rehearsed"
