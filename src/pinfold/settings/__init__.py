"""Which settings are in force.

`load` reads every layer, checks it, merges them by the key table (`keys`) and builds
`model.settings.Settings`.
This package may import `model` and nothing else of ours; what the text of a rule means, and whether a text
names hosts, is handed in.
"""

from collections.abc import Callable

from pinfold.model.script import Shape
from pinfold.model.settings import Settings
from pinfold.settings.build import build
from pinfold.settings.defaults import default_layer
from pinfold.settings.live import LiveSettings
from pinfold.settings.policy import cap_of, policy_of, secrets
from pinfold.settings.sources import Sources, read_layers

__all__ = ["LiveSettings", "Sources", "cap_of", "load", "policy_of", "secrets"]


def load(
    sources: Sources, shape: Callable[[str], Shape], check_host: Callable[[str, str], None] | None = None
) -> Settings:
    """The settings in force, or a `PolicyError`: a broken file is never read as an empty one.

    `shape` and `check_host` raise `ValueError` for a text that is no rule, or names no hosts; the latter is
    given the list that it is in.
    """
    return build([*read_layers(sources), default_layer()], shape, check_host, sources.held)
