"""Pinfold: AI coding agents run terminal commands inside a fence that the kernel holds."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinfold.model.decision import Decision, Reason, Verdict
    from pinfold.model.errors import ConfinementError, InternalError, PinfoldError, PolicyError
    from pinfold.model.policy import SandboxPolicy
    from pinfold.model.request import CallTool, Connect, ReadFile, RunCommand, UseBrowser, WriteFile
    from pinfold.session import Session

__version__ = "0.1.0"

__all__ = [
    "CallTool",
    "ConfinementError",
    "Connect",
    "Decision",
    "InternalError",
    "PinfoldError",
    "PolicyError",
    "ReadFile",
    "Reason",
    "RunCommand",
    "SandboxPolicy",
    "Session",
    "UseBrowser",
    "Verdict",
    "WriteFile",
]

_HOMES = ("session", "model.decision", "model.errors", "model.policy", "model.request")


def __getattr__(name: str) -> object:
    # Found when asked for: the session brings the whole middle row along, and hooks need not wait for it.
    if name in __all__:
        from importlib import import_module

        for home in map(import_module, (f"pinfold.{home}" for home in _HOMES)):
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module `pinfold` has no attribute `{name}`")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
