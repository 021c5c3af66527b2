"""The root of the file system as a project: no pen can be made that writes there.

The pen says so when it is made, which is after the project was looked through for ignore files: seconds,
where that is the whole machine. Whoever has a person waiting asks here first.
"""

from pinfold.model.policy import PolicyType
from pinfold.model.request import RunCommand
from pinfold.model.settings import IfUnavailable, Settings
from pinfold.sandbox.plan import require_possible

ANY = RunCommand("")


def require_pen_or_way_out(roots: tuple[str, ...], settings: Settings, command: RunCommand = ANY) -> None:
    """Raises if no pen can be made for the command, and it cannot run otherwise. What may run outside of the
    fence, or asks for a policy of its own, is left to the decision. Precondition: `/` is among the roots."""
    sandbox = settings.sandbox
    may_leave = (
        not sandbox.enabled
        or sandbox.if_unavailable is not IfUnavailable.REFUSE
        or sandbox.excluded_commands
        or settings.mcp.cli
        or command.disable_sandbox
    )
    if sandbox.policy is PolicyType.WORKSPACE_READWRITE and command.policy is None and not may_leave:
        require_possible(roots)
