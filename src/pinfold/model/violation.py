"""What a command tried and was refused, as the pen's warden or the gate saw it."""

from collections.abc import Iterable

from msgspec import Struct

from pinfold.model.codes import AskedAt, ViolationCode
from pinfold.model.escape_text import visible

MOST_SHOWN = 50
WARDEN = "warden"
"""In the place of a system call: the pen's warden itself has ended."""
LONGEST = 500
"""Characters of one line."""


READ = "read"
"""The operation of what would have been read, had it not been hidden."""


AGENT = "ssh-agent"
"""The beginning of the operation of what a granted ssh agent was asked for and may not do."""


class Violation(Struct, frozen=True):
    """One thing that a command wanted and did not get."""

    operation: str
    """The system call, such as `open` or `rename`; or `read`."""
    path: str
    """Where it led in the pen, every link followed; of a connect, the host and its port."""
    rule: str
    """The protected name that stood in the way; empty if the place as such is closed."""
    why: str
    program: str
    """What the process called itself."""
    pid: int
    """Outside of the pen."""
    grantable: bool
    """Whether a person may let it through."""
    code: ViolationCode
    times: int = 1
    """How often it was tried, at least."""
    answered: str = ""
    """What came of asking while it waited, which `why` tells too: who said no, as `Settlement.by` has it, or
    why nobody may be asked. It is not asked for again in this run. Empty if there was nobody to ask."""
    asked_at: AskedAt = AskedAt.NOWHERE
    """Where it was asked about while it waited."""
    is_git_writes: bool = False
    """Whether git's writes as a whole were in the way, which `filesystem.git_writes` opens."""
    command: str = ""
    """The line that was run."""
    origin: str = ""
    """Where the rule is written: a file and its line, or a layer of the settings."""
    remedy: str = ""
    """What would allow it; empty if nothing does."""

    @property
    def summary(self) -> str:
        """What was refused and why, on one line that is safe to draw."""
        if self.operation == WARDEN or not (self.operation or self.path):
            return visible(self.why)
        deed = " ".join(part for part in (self.operation, self.path) if part)
        return visible(f"refused {deed}: {self.why}")


def violations_text(violations: Iterable[Violation]) -> str:
    """The block that an agent can be shown; empty if there is nothing to tell.

    Paths and names are whatever a program chose: nothing in them can end the block, or a line of it.
    """
    every = tuple(violations)
    if not every:
        return ""
    lines = [_line(each) for each in every[:MOST_SHOWN]]
    if len(every) > MOST_SHOWN:
        lines.append(f"and {len(every) - MOST_SHOWN} more")
    return "\n".join(("<sandbox_violations>", *lines, "</sandbox_violations>"))


def _line(violation: Violation) -> str:
    each = violation
    who = f"{each.program}[{each.pid}]" if each.program else ""
    told = (
        " ".join(part for part in (who, each.operation, each.path) if part and each.operation != WARDEN),
        f"{each.why} (rule `{each.rule}`)" if each.rule else each.why,
        f"written in {each.origin}" if each.origin else "",
        f"to allow it: {each.remedy}" if each.remedy else "",
        f"tried {each.times} times" if each.times > 1 else "",
    )
    line = visible("; ".join(part for part in told if part)).replace("<", "\\x3c").replace(">", "\\x3e")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
