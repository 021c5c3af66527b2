"""How tests wait for what comes about by itself: until it has, and long enough for a machine that is busy."""

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds. Nobody waits that long but a test that fails."""


def wait_until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)
