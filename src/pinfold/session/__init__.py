"""One agent's work: judge, ask, journal, start. The one place that knows the order of the stages.

It may import every package of the middle row; none of them imports it.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pinfold.session.session import Session

__all__ = ["Session"]


def __getattr__(name: str) -> object:
    # Found when asked for: `prepare_sandbox` must not wait for what a session brings along.
    if name == "Session":
        from pinfold.session.session import Session

        return Session
    raise AttributeError(f"module `pinfold.session` has no attribute `{name}`")


def prepare_sandbox() -> None:
    """Lets the sandbox make itself ready while the rest of the program is loaded."""
    if sys.platform == "linux":
        from pinfold.sandbox.linux.host.spawn_keeper import start_early

        start_early()
