"""Runs attacks, in the pen, and says how each went: a line of JSON for each.

Several are run by children of one process, since starting Python anew for each would take most of the time.

Every attack there is, in the order in which they are tried.
"""

import json
import os
import sys

from pinfold.sandbox.attacks import files, hidden, network, privileges, processes, protected
from pinfold.sandbox.attacks.attack import ENTERED, Attack, Untried, World

THROUGH, HELD, UNTRIED = "through", "held", "untried"


def main() -> None:
    """The attacks are our arguments, the world our standard input."""
    world = World(**json.load(sys.stdin))
    names = sys.argv[1:]
    for name in names:
        if len(names) == 1 or os.fork() == 0:
            _say(name, world)
        else:
            _, status = os.wait()
            if os.WIFSIGNALED(status):
                _write(name, HELD, f"it was ended by signal {os.WTERMSIG(status)}")


def _say(name: str, world: World) -> None:
    _write(name, *tried(name, world))
    os._exit(0)


def _write(name: str, outcome: str, detail: str) -> None:
    os.write(1, json.dumps({"name": name, "outcome": outcome, "detail": detail}).encode() + b"\n")


def tried(name: str, world: World) -> tuple[str, str]:
    try:
        got = ATTACKS[name].run(world)
    except Untried as reason:
        return UNTRIED, str(reason)
    except OSError as error:
        return HELD, error.strerror or str(error)
    return (HELD, "nothing came of it") if got is None else (THROUGH, got)


MODULES = (files, protected, hidden, processes, privileges, network)
ATTACKS: dict[str, Attack] = {
    name: attack
    for module in MODULES
    for name, attack in ENTERED.items()
    if attack.run.__module__ == module.__name__
}
