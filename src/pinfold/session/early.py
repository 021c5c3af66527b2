"""Lets the fence make itself ready while the rest of the program is loaded."""

import sys


def prepare_fence() -> None:
    if sys.platform == "linux":
        from pinfold.sandbox.linux.host.spawn_keeper import start_early

        start_early()
