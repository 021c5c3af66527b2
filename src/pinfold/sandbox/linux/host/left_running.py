"""What commands left running in a session's other pens. The first result under other rules reports it.

Such a process keeps the rules that it began with. A later command may ask it to do what that command may
not do itself, by a port of loopback or a file. No command of another pen sees it in /proc or reaches its unix
sockets. So the result names it, with its number.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from pinfold.model.escape_text import quoted
from pinfold.sandbox.linux.host.init_client import PidOne
from pinfold.sandbox.linux.host.pen import Pen

MOST = 10
LONGEST = 200
"""Characters of a line."""


def left_running(others: Iterable[Pen], pid_one: PidOne) -> tuple[str, ...]:
    begun = [pen for pen in others if pen.begun]
    if not begun:
        return ()
    carried = pid_one.carried()
    return tuple(islice((line for pen in begun for line in _left_in(pen, carried)), MOST))


def is_left(pen: Pen, pid_one: PidOne) -> bool:
    """Whether any command of the pen has something running."""
    return bool(pen.begun) and any(_left_in(pen, pid_one.carried()))


def _left_in(pen: Pen, carried: dict[int, int]) -> Iterator[str]:
    for tag, command in list(pen.begun.items()):
        if tag in carried:
            line = command if isinstance(command, str) else " ".join(map(quoted, command))
            line = line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
            yield (
                f"`{line}` still runs in another sandbox of this session, under the rules that it began "
                f"with; to end it: `kill {carried[tag]}`"
            )
        else:
            pen.begun.pop(tag, None)
