"""Runs a probe in a child process, as root or as an ordinary user, in a workspace that user owns."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from pinfold.state.conversation_tmp import scratch_prefix

TOP = Path(__file__).parent.parent
ORDINARY = 54321
"""A uid that no account has."""
USERS = ("root", "ordinary")
FOR_EACH_USER = [
    pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's"),
    pytest.mark.parametrize("user", USERS),
]
"""The marks of a module whose tests are all done by probes."""


def interpreter(user: str) -> str:
    """A Python of our version that the user may execute."""
    own = os.path.realpath(sys.executable)
    if user == "root" or os.geteuid() or _reachable(own):
        return sys.executable
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not os.path.exists(system):
        pytest.skip(f"no Python that an ordinary user may execute: {own} and {system} are out of reach")
    return system


def _reachable(path: str) -> bool:
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & 0o001:
            return False
    return True


@contextmanager
def house(user: str) -> Iterator[Path]:
    """A directory outside /tmp that the user owns, for its home and its workspace."""
    path = Path(tempfile.mkdtemp(prefix="pinfold-test-", dir="/var/lib" if not os.geteuid() else Path.home()))
    path.chmod(0o755)
    for name in ("home", "work"):
        (path / name).mkdir()
    if user == "ordinary" and not os.geteuid():
        for name in ("", "home", "work"):
            os.chown(path / name, ORDINARY, ORDINARY)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        for uid in (os.geteuid(), ORDINARY):
            for left in Path("/tmp").glob(f"pinfold-{uid}/{prefix_in(str(path / 'home'))}*"):
                shutil.rmtree(left, ignore_errors=True)


def prefix_in(home: str) -> str:
    """How the directories begin that conversations have as /tmp, of a user with this home."""
    return scratch_prefix({"HOME": home})


def run_at_home(user: str, probe: str, module: str) -> str:
    """The same as `run_as`, in a house of its own."""
    with house(user) as where:
        return run_as(user, probe, where, module)


def run_as(user: str, probe: str, where: Path, module: str, *, timeout: float = 90) -> str:
    """What the probe wrote. Fails with that if it does not end well; exit 77 skips, for its last line."""
    if user == "root" and os.geteuid():
        pytest.skip("only root can test as root")
    other = user == "ordinary" and not os.geteuid()
    libraries = os.path.dirname(os.path.dirname(msgspec.__file__))
    done = subprocess.run(
        [interpreter(user), "-W", "error", "-m", module, probe],
        user=ORDINARY if other else None,
        group=ORDINARY if other else None,
        extra_groups=[] if other else None,
        cwd=where / "work",
        env={
            "HOME": str(where / "home"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{TOP}/src:{TOP}:{libraries}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().rpartition("\n")[2])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
