"""Every attack there is, in the order in which they are tried."""

from pinfold.sandbox.attacks import files, hidden, lending, network, privileges, processes, protected
from pinfold.sandbox.attacks.attack import ENTERED, Attack

MODULES = (files, protected, hidden, lending, processes, privileges, network)
ATTACKS: dict[str, Attack] = {
    name: attack
    for module in MODULES
    for name, attack in ENTERED.items()
    if attack.run.__module__ == module.__name__
}
