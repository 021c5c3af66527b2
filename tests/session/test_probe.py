"""IS_SANDBOX is weighed against what the kernel says."""

import pytest

from pinfold.session import probe

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
def test_is_inside_fence(
    environ: dict[str, str], kernel: dict[str, list[str]], inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_lines", lambda path: kernel.get(path, []))
    assert probe.is_inside_fence(environ) is inside


def test_the_kernel_is_really_asked() -> None:
    assert any(line.startswith("Seccomp:") for line in probe._lines("/proc/self/status"))
    assert probe._lines("/nonexistent") == []
