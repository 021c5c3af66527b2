"""What is written for whoever debugs a policy: see `audit.debug`."""

from collections.abc import Callable
from contextlib import suppress

from msgspec import Raw
from msgspec.structs import asdict

from pinfold.audit.debug_output import DebugOutput
from pinfold.audit.tail_file import storable
from pinfold.model.errors import PinfoldError
from pinfold.model.policy import SandboxPolicy
from pinfold.policy.json_format import to_executor, to_json
from pinfold.sandbox.backend import Request
from pinfold.session.execution import End

After = Callable[[int, End], bool]


class Debugging:
    """Of one run."""

    def __init__(self, policy: SandboxPolicy, request: Request) -> None:
        self.output = DebugOutput(policy.debug_output_dir or "")
        self.policy = policy
        self.request = request

    def after(self, after: After, plan: str) -> After:
        """The same as `after`, with the debug output besides."""

        def both(entry: int, end: End) -> bool:
            is_first = after(entry, end)
            if is_first:
                with suppress(PinfoldError):  # the command has run: its result must not be lost with this
                    self._write(entry, end, plan)
            return is_first

        return both

    def _write(self, entry: int, end: End, plan: str) -> None:
        told = {
            "id": entry,
            "command": storable(self.request.line),
            "cwd": storable(self.request.cwd),
            "enforced": bool(plan),
        }
        self.output.log({**told, **asdict(end)})
        self.output.run(
            entry,
            {
                **told,
                "policy": Raw(to_json(self.policy).encode()),
                "converted": to_executor(self.policy),
                "plan": storable(plan).splitlines(),
                "end": asdict(end),
            },
        )
