"""What is written for whoever debugs a policy: see `audit.debug`."""

from collections.abc import Callable

from msgspec import Raw

from pinfold.audit.debug import DebugOutput
from pinfold.audit.journal import storable
from pinfold.model.policy import SandboxPolicy
from pinfold.policy.convert import to_executor, to_json
from pinfold.sandbox.backend import Request
from pinfold.session.execution import End

After = Callable[[int, End], None]


def debugged(after: After, policy: SandboxPolicy, request: Request, plan: str) -> After:
    """The same as `after`, with the debug output besides. The directory is made now, while it can stop us."""
    output = DebugOutput(policy.debug_output_dir or "")
    line = request.command if isinstance(request.command, str) else " ".join(request.command)

    def both(entry: int, end: End) -> None:
        after(entry, end)
        told = {"id": entry, "command": storable(line), "cwd": storable(request.cwd), "enforced": bool(plan)}
        output.log({**told, **end._asdict()})
        output.run(
            entry,
            {
                **told,
                "policy": Raw(to_json(policy).encode()),
                "converted": to_executor(policy),
                "plan": storable(plan).splitlines(),
                "end": end._asdict(),
            },
        )

    return both
