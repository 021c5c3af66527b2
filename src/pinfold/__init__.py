"""Pinfold: AI coding agents run terminal commands inside a fence that the kernel holds."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinfold.session import Session as Session

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The session brings the whole middle row along, which `pinfold --version` and hooks need not wait for.
    if name == "Session":
        from pinfold.session import Session

        return Session
    raise AttributeError(f"module `pinfold` has no attribute `{name}`")
