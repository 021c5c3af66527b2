"""The list of all attacks, and the program that runs them in the pen: it prints a line of JSON for each.

Children of one process run several attacks, since starting Python anew for each would take most of the time.
"""

import json
import os
import sys

from pinfold.sandbox.attacks import files, hidden, network, privileges, processes, protected
from pinfold.sandbox.attacks.attack import REGISTERED, Attack, Targets, Untried

THROUGH, HELD, UNTRIED = "through", "held", "untried"


def main() -> None:
    """The names of attacks are the arguments; the targets come on standard input."""
    targets = Targets(**json.load(sys.stdin))
    names = sys.argv[1:]
    for name in names:
        if len(names) == 1 or os.fork() == 0:
            _report(name, targets)
        else:
            _, status = os.wait()
            if os.WIFSIGNALED(status):
                _write(name, HELD, f"it was ended by signal {os.WTERMSIG(status)}")


def _report(name: str, targets: Targets) -> None:
    _write(name, *tried(name, targets))
    os._exit(0)


def _write(name: str, outcome: str, detail: str) -> None:
    os.write(1, json.dumps({"name": name, "outcome": outcome, "detail": detail}).encode() + b"\n")


def tried(name: str, targets: Targets) -> tuple[str, str]:
    try:
        got = ATTACKS[name].run(targets)
    except Untried as reason:
        return UNTRIED, str(reason)
    except OSError as error:
        return HELD, error.strerror or str(error)
    return (HELD, "it had no effect") if got is None else (THROUGH, got)


MODULES = (files, protected, hidden, processes, privileges, network)
ATTACKS: dict[str, Attack] = {
    name: attack
    for module in MODULES
    for name, attack in REGISTERED.items()
    if attack.run.__module__ == module.__name__
}
