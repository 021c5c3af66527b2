"""The cgroups of a keeper's pens: one for each pen whose policy has limits, named after the keeper.

The keeper moves the pen's spawner there when it is ready, before its first command: so all that it starts is
born there. Its warden stays outside, so that commands that use up the memory do not end it.

When memory runs out the kernel ends the largest process, as it does anywhere; it is not told to end the whole
group, since the spawner is in it, and has to say how the command ended.

A command may leave processes behind that outlive their pen: then the group stays until they are gone. What a
keeper that was killed left is empty, since all of its processes ended with it; the next keeper removes it.
"""

import os

from pinfold.kernel import cgroups
from pinfold.sandbox.linux.protocol.child_process import BuildError

NAME = "pinfold-"
KEEPER = "pinfold-keeper"
"""What such a process is called."""


class PenCgroups:
    def __init__(self) -> None:
        self.made: dict[int, str] = {}
        self.left: list[str] = []
        """Groups of closed pens, with processes still in them."""

    def hold(self, number: int, spawner: int, memory: int | None, processes: int | None) -> None:
        """A group with these limits for a pen."""
        limits = dict(zip(cgroups.CONTROLLERS, (memory, processes), strict=True))
        place = cgroups.find([name for name, value in limits.items() if value is not None])
        if place.trouble:
            raise BuildError(f"no cgroup for the limits: {place.trouble}")
        if not self.made:
            remove_stale(place.path)
        # The spawner counts too.
        most = None if processes is None else processes + 1
        path = cgroups.make(place.path, f"{NAME}{os.getpid()}-{number}", memory, most)
        self.made[number] = path
        cgroups.add(path, spawner)

    def release(self, number: int) -> None:
        """A pen or a session is closed."""
        if path := self.made.pop(number, ""):
            self.left.append(path)
        self.left = [path for path in self.left if not cgroups.remove(path)]


def remove_stale(parent: str) -> None:
    """Removes the groups of keepers that are gone."""
    for name in cgroups.names(parent):
        keeper = name.removeprefix(NAME).partition("-")[0]
        if name.startswith(NAME) and keeper.isdecimal() and not _is_keeper(keeper):
            cgroups.remove(f"{parent}/{name}")


def _is_keeper(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # a name is any bytes
            return file.read() == KEEPER.encode() + b"\n"
    except OSError:
        return False
