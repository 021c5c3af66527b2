"""Pinfold: AI coding agents run terminal commands inside a fence that the kernel holds."""

TYPE_CHECKING = False
"""As in `typing`, which costs 3 ms: the keeper starts before that is loaded."""
if TYPE_CHECKING:
    from pinfold.approval.chain import Approver
    from pinfold.audit.journal import JournalError
    from pinfold.model.decision import Decision, Reason, Verdict
    from pinfold.model.errors import (
        ConfinementError,
        FileRefused,
        InternalError,
        PinfoldError,
        PolicyError,
        RequestError,
        SandboxUnavailable,
        SandboxViolation,
    )
    from pinfold.model.events import Event, Exited, Output, Stream
    from pinfold.model.handed_streams import HandedStreams
    from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reach, Reply, Settlement
    from pinfold.model.policy import SandboxPolicy
    from pinfold.model.request import CallTool, Connect, ReadFile, RunCommand, UseBrowser, WriteFile
    from pinfold.model.violation import Violation
    from pinfold.service.client import Client, Question
    from pinfold.service.remote_session import RemoteExecution, RemoteSession, ServiceError
    from pinfold.session.async_session import AsyncExecution, AsyncSession
    from pinfold.session.execution import Execution
    from pinfold.session.result import Result
    from pinfold.session.session import Session

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Approver",
    "AsyncExecution",
    "AsyncSession",
    "CallTool",
    "Capability",
    "Client",
    "ConfinementError",
    "Connect",
    "Decision",
    "Event",
    "Execution",
    "Exited",
    "FileRefused",
    "HandedStreams",
    "InternalError",
    "JournalError",
    "Output",
    "PermissionNeeded",
    "PinfoldError",
    "PolicyError",
    "Question",
    "Reach",
    "ReadFile",
    "Reason",
    "RemoteExecution",
    "RemoteSession",
    "Reply",
    "RequestError",
    "Result",
    "RunCommand",
    "SandboxPolicy",
    "SandboxUnavailable",
    "SandboxViolation",
    "ServiceError",
    "Session",
    "Settlement",
    "Stream",
    "UseBrowser",
    "Verdict",
    "Violation",
    "WriteFile",
]

_HOMES = {
    "model.decision": ("Decision", "Reason", "Verdict"),
    "model.errors": (
        *("ConfinementError", "FileRefused", "InternalError", "PinfoldError", "PolicyError"),
        *("RequestError", "SandboxUnavailable", "SandboxViolation"),
    ),
    "audit.journal": ("JournalError",),
    "model.events": ("Event", "Exited", "Output", "Stream"),
    "model.handed_streams": ("HandedStreams",),
    "model.permission": ("Answer", "Capability", "PermissionNeeded", "Reach", "Reply", "Settlement"),
    "model.policy": ("SandboxPolicy",),
    "model.request": ("CallTool", "Connect", "ReadFile", "RunCommand", "UseBrowser", "WriteFile"),
    "model.violation": ("Violation",),
    "approval.chain": ("Approver",),
    "service.client": ("Client", "Question"),
    "service.remote_session": ("RemoteExecution", "RemoteSession", "ServiceError"),
    "session.session": ("Session",),
    "session.async_session": ("AsyncExecution", "AsyncSession"),
    "session.execution": ("Execution",),
    "session.result": ("Result",),
}


def __getattr__(name: str) -> object:
    # Found when asked for: the session brings the whole middle row along, and hooks need not wait for it.
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"pinfold.{home}"), name)
            return value
    raise AttributeError(f"module `pinfold` has no attribute `{name}`")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
