"""Runs a probe in a child process, as root or as an ordinary user, in a workspace that user owns."""

import atexit
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

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
SECONDS = 240
"""How long a probe may take."""
VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": f"{TOP}/src:{TOP}:{os.path.dirname(os.path.dirname(msgspec.__file__))}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
}
"""What a probe has in its environment besides HOME."""


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


def run_at_home(user: str, probe: str, module: str, fresh: bool = False) -> str:
    """What the probe wrote, run in a house of its own. See `run_as`."""
    with house(user) as where:
        return run_as(user, probe, where, module, fresh)


def run_as(
    user: str, probe: str, where: Path, module: str, fresh: bool = False, patience: float = SECONDS
) -> str:
    """What the probe wrote. Fails with that if it does not end well; exit 77 skips, for its last line.

    `fresh`: in an interpreter of its own, not in a child of a `ProbeServer`.
    """
    if user == "root" and os.geteuid():
        pytest.skip("only root can test as root")
    variables = {**VARIABLES, "HOME": str(where / "home")}
    run = run_fresh if fresh else run_forked
    code, written = run(user, probe, module, str(where / "work"), variables, patience)
    if code == 77:
        pytest.skip(written.strip().rpartition("\n")[2])
    assert code == 0, written
    return written


def identity(user: str) -> dict[str, Any]:
    """The arguments of `Popen` that make a process the user's."""
    other = user == "ordinary" and not os.geteuid()
    return {"user": ORDINARY, "group": ORDINARY, "extra_groups": []} if other else {}


def run_fresh(
    user: str, probe: str, module: str, directory: str, variables: Mapping[str, str], patience: float
) -> tuple[int, str]:
    """Exit code and output of a probe in an interpreter of its own."""
    done = subprocess.run(
        [interpreter(user), "-W", "error", "-m", module, probe],
        cwd=directory,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=patience,
        **identity(user),
    )
    return done.returncode, done.stdout


def run_forked(
    user: str, probe: str, module: str, directory: str, variables: Mapping[str, str], patience: float
) -> tuple[int, str]:
    """Exit code and output of a probe in a child of the user's server."""
    server = server_of(user)
    try:
        return server.run([module, probe, directory, variables], patience)
    except BaseException:
        server.close()
        server_of.cache_clear()
        raise


@functools.cache
def server_of(user: str) -> "ProbeServer":
    return ProbeServer(user)


class ProbeServer:
    """A Python of the user that forks a child for each probe: see `tests/probe_server.py`."""

    def __init__(self, user: str) -> None:
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(SECONDS)
        code = f"import socket, tests.probe_server as s; s.main(socket.socket(fileno={theirs.fileno()}))"
        self.process = subprocess.Popen(
            [interpreter(user), "-W", "error", "-c", code],
            cwd="/",
            env={**VARIABLES, "HOME": "/"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[theirs.fileno()],
            **identity(user),
        )
        theirs.close()
        atexit.register(self.close)

    def run(self, request: list[object], patience: float) -> tuple[int, str]:
        reader, writer = os.pipe()
        with open(reader, "rb", buffering=0) as output:
            try:
                socket.send_fds(self.ours, [json.dumps(request).encode()], [writer])
            finally:
                os.close(writer)
            pid = int(self.ours.recv(64))
            try:
                return self._finish(output, patience)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise

    def _finish(self, output: FileIO, patience: float) -> tuple[int, str]:
        written, end = b"", time.monotonic() + patience
        while select.select([output], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (piece := output.read(65536)):
                return int(self.ours.recv(64)), written.decode(errors="replace")
            written += piece
        raise AssertionError(
            f"it took more than {patience} seconds and wrote: {written.decode(errors='replace')}"
        )

    def close(self) -> None:
        atexit.unregister(self.close)
        self.ours.close()
        self.process.kill()
        self.process.wait()
