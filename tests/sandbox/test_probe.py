"""IS_SANDBOX is weighed against what the kernel says, and against a write outside."""

import os
import subprocess
import sys

import pytest

from pinfold.sandbox import probe
from pinfold.session import Session

CLAIMED = (
    "import os; from pinfold.sandbox.probe import is_inside_sandbox as inside; print(inside(os.environ))"
)

OUTSIDE = {"/proc/self/status": ["Seccomp:\t0", "NoNewPrivs:\t1"], "/proc/self/uid_map": ["0 0 4294967295"]}
FILTERED = {**OUTSIDE, "/proc/self/status": ["Seccomp:\t2", "NoNewPrivs:\t0"]}
NAMESPACED = {**OUTSIDE, "/proc/self/uid_map": ["0 1000 1"]}


@pytest.mark.parametrize(
    ("environ", "kernel", "inside"),
    [
        ({}, FILTERED, False),
        ({"IS_SANDBOX": ""}, FILTERED, False),
        ({"IS_SANDBOX": "1"}, OUTSIDE, False),
        ({"IS_SANDBOX": "1"}, {}, False),
        ({"IS_SANDBOX": "1"}, FILTERED, True),
        ({"IS_SANDBOX": "yes"}, NAMESPACED, True),
    ],
)
def test_is_inside_sandbox(
    environ: dict[str, str], kernel: dict[str, list[str]], inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_lines", lambda path: kernel.get(path, []))
    monkeypatch.setattr(probe, "_is_confined", lambda _: True)
    assert probe.is_inside_sandbox(environ) is inside


def test_the_kernel_is_really_asked() -> None:
    assert any(line.startswith("Seccomp:") for line in probe._lines("/proc/self/status"))
    assert probe._lines("/nonexistent") == []


@pytest.mark.parametrize("options", ["-Ur", "-Urm", "-Urmpf", "-Urn", "-Urmuin"])
def test_claimed_sandbox_is_probed(options: str) -> None:
    """A user namespace of one's own confines no file."""
    environ = {**os.environ, "IS_SANDBOX": "1"}
    words = ["unshare", options, sys.executable, "-I", "-c", CLAIMED]
    run = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    if run.returncode and "unshare" in run.stderr:
        pytest.skip(run.stderr)
    assert (run.stdout, run.stderr) == ("False\n", "")


def test_a_pen_is_believed(tmp_path: os.PathLike[str]) -> None:
    with Session([str(tmp_path)], settings={}, cwd=str(tmp_path)) as session:
        ran = session.run([sys.executable, "-I", "-c", CLAIMED])
    assert (ran.stdout, ran.stderr) == ("True\n", "")
