"""Violations: what a command tried and was denied, as the pen's warden or the gate reports it."""

from collections.abc import Iterable

from msgspec import Struct

from pinfold.model.codes import AskedAt, ViolationCode
from pinfold.model.escape_text import visible

MOST_SHOWN = 50
WARDEN = "warden"
"""The operation of a violation that says that the pen's warden itself has ended."""
LONGEST = 500
"""Characters of one line."""


READ = "read"
"""The operation of a violation about a hidden file that the command tried to read."""


AGENT = "ssh-agent"
"""How the operation of a violation begins that is about a request to a granted ssh agent."""


class Violation(Struct, frozen=True):
    """One thing that a command tried and was denied."""

    operation: str
    """The system call, such as `open` or `rename`; or `read`."""
    path: str
    """The path in the pen, every link followed; for a connect, the host and its port."""
    rule: str
    """The protected name that the path met; empty if the policy closes the place as such."""
    why: str
    program: str
    """The name of the process."""
    pid: int
    """The process id outside of the pen."""
    grantable: bool
    """Whether a person may grant it."""
    code: ViolationCode
    times: int = 1
    """How often the command tried it, at least."""
    answered: str = ""
    """The answer to the question that was open while the call waited, which `why` has too: who said no, as in
    `Settlement.by`, or why no one may be asked. This run does not ask again. Empty if no approver could
    answer."""
    asked_at: AskedAt = AskedAt.NOWHERE
    """Where that question was asked."""
    is_git_writes: bool = False
    """Whether the policy denies git's writes as a whole, which `filesystem.git_writes` allows."""
    command: str = ""
    """The line that ran."""
    origin: str = ""
    """Where the rule is written: a file and its line, or a layer of the settings."""
    remedy: str = ""
    """What would allow it; empty if nothing would."""

    @property
    def summary(self) -> str:
        """What was denied and why, on one line that is safe to print on a terminal."""
        if self.operation == WARDEN or not (self.operation or self.path):
            return visible(self.why)
        attempt = " ".join(part for part in (self.operation, self.path) if part)
        return visible(f"refused {attempt}: {self.why}")


def violations_text(violations: Iterable[Violation]) -> str:
    """The block of violations for an agent to read; empty if there are none.

    Programs choose paths and names freely: nothing in them can end the block, or a line of it.
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
    process = f"{each.program}[{each.pid}]" if each.program else ""
    parts = (
        " ".join(part for part in (process, each.operation, each.path) if part and each.operation != WARDEN),
        f"{each.why} (rule `{each.rule}`)" if each.rule else each.why,
        f"written in {each.origin}" if each.origin else "",
        f"to allow it: {each.remedy}" if each.remedy else "",
        f"tried {each.times} times" if each.times > 1 else "",
    )
    line = visible("; ".join(part for part in parts if part)).replace("<", "\\x3c").replace(">", "\\x3e")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
