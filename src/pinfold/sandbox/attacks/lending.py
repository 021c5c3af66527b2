"""Getting from a command of another sandbox what one's own does not give: a directory, with its mounts.

Two commands under different policies run each attack. The first leaves a process that sends a directory to
any client, or whose /proc entries can be read. The second is the attack.
"""

import os
import socket
from contextlib import suppress

from pinfold.sandbox.attacks.attack import LENDS, Stage, World, attack, prepare
from pinfold.sandbox.attacks.network import TIMEOUT, near

SECONDS = 30
"""That the first command's process waits for the second."""
PID = "lender-pid"


def lend(path: str, directory: str, told: str) -> None:
    """Leaves a process that listens at a path, or an abstract name, and sends a directory."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    listener.settimeout(SECONDS)
    if pid := os.fork():
        with open(told, "w") as file:
            file.write(str(pid))
        return
    os.setsid()
    with suppress(OSError):
        connection, _ = listener.accept()
        socket.send_fds(connection, [b"x"], [os.open(directory, os.O_RDONLY)])
    os._exit(0)


def take(path: str) -> str | None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(TIMEOUT)
        client.connect(path)
        _, lent, _, _ = socket.recv_fds(client, 1, 1)
    return "was sent a directory" if lent else None


def lent_by(world: World, path: str) -> str | None:
    told = f"{world.work}/{PID}"
    if not os.path.exists(told):
        prepare(lambda: lend(path, world.work, told))
        return None
    return take(path)


@attack("be sent a directory of another sandbox, over a socket with a path", LENDS, stage=Stage.OTHER)
def take_by_path(world: World) -> str | None:
    return lent_by(world, near(f"{world.work}/lender"))


@attack("be sent a directory of another sandbox, over an abstract socket", LENDS, stage=Stage.OTHER)
def take_by_abstract_name(world: World) -> str | None:
    return lent_by(world, f"\0{world.abstract}-lender")


@attack("see what another sandbox hides, in its table of mounts", LENDS, stage=Stage.OTHER)
def read_others_mounts(world: World) -> str | None:
    told = f"{world.work}/{PID}"
    if not os.path.exists(told):
        prepare(lambda: lend(f"\0{world.abstract}-mounts", world.work, told))
        return None
    with open(told) as file, open(f"/proc/{int(file.read())}/mountinfo") as mounts:
        return "read it" if mounts.read() else None
