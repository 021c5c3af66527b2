"""A command that failed since it was refused what could not wait for a person: what it needed, and the same
once more with that.

Calls that the warden sees wait for their answer, and nothing is run again (`elevation`). What is left is what
it only notes, what nobody does on a caller's behalf, and runs that nobody could be asked about.

INVARIANT: a command is run again once at most, inside of the fence, with just what was granted added to its
policy. What was put to somebody while it waited (`Violation.settled`) is not asked for in this way, and
whatever is not enough is not asked for at all.
"""

import os
import stat
from collections.abc import Sequence

from msgspec.structs import replace

from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.policy import SandboxPolicy
from pinfold.model.violation import Violation
from pinfold.policy.violations import sufficient

STEP = "again"


def needed(violations: Sequence[Violation], anybody: bool) -> SandboxPolicy | None:
    """What a policy would have to add; None if that would not be enough, or is not to be asked for.

    Where there is `anybody` to ask, connections have been asked about while they waited.
    """
    answered = any(each.settled or (anybody and each.operation == "connect") for each in violations)
    return None if answered else sufficient(violations, os.path.exists)


def told(decision: Decision, violations: Sequence[Violation]) -> Decision:
    """The same decision, with why it is asked."""
    more = f" and {len(violations) - 1} more" if len(violations) > 1 else ""
    first = " ".join((violations[0].operation, violations[0].path))
    said = f"it failed: it was refused `{first}`{more}, and would be run again with leave for that"
    reason = Reason(STEP, said, Verdict.ASK)
    return replace(decision, reasons=(reason, *decision.reasons))


def is_repeatable(stdin: bytes | int | None) -> bool:
    """Whether a second run would read the same: of a pipe or a file, the first has taken its part."""
    if not isinstance(stdin, int):
        return True
    try:
        return stat.S_ISCHR(os.fstat(stdin).st_mode)
    except OSError:
        return False
