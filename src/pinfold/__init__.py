"""Pinfold: AI coding agents run terminal commands inside a fence that the kernel holds."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinfold.model.decision import Decision, Reason, Verdict
    from pinfold.model.errors import (
        ConfinementError,
        InternalError,
        PinfoldError,
        PolicyError,
        SandboxUnavailable,
        SandboxViolation,
    )
    from pinfold.model.events import Exited, Output
    from pinfold.model.permission import Answer, PermissionNeeded
    from pinfold.model.policy import SandboxPolicy
    from pinfold.model.request import CallTool, Connect, ReadFile, RunCommand, UseBrowser, WriteFile
    from pinfold.session import Session
    from pinfold.session.asynchronous import AsyncSession
    from pinfold.session.execution import Execution
    from pinfold.session.result import Result

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AsyncSession",
    "CallTool",
    "ConfinementError",
    "Connect",
    "Decision",
    "Execution",
    "Exited",
    "InternalError",
    "Output",
    "PermissionNeeded",
    "PinfoldError",
    "PolicyError",
    "ReadFile",
    "Reason",
    "Result",
    "RunCommand",
    "SandboxPolicy",
    "SandboxUnavailable",
    "SandboxViolation",
    "Session",
    "UseBrowser",
    "Verdict",
    "WriteFile",
]

_HOMES = (
    *("session", "model.decision", "model.errors", "model.permission", "model.policy", "model.request"),
    *("session.asynchronous", "session.execution", "session.result", "model.events"),
)


def __getattr__(name: str) -> object:
    # Found when asked for: the session brings the whole middle row along, and hooks need not wait for it.
    if name in __all__:
        from importlib import import_module

        for home in map(import_module, (f"pinfold.{home}" for home in _HOMES)):
            if name in vars(home):
                return vars(home)[name]
    raise AttributeError(f"module `pinfold` has no attribute `{name}`")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
