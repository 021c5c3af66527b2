"""What was found in an agent's settings, and what it comes to here."""

from enum import StrEnum
from typing import NamedTuple


class Fit(StrEnum):
    """How well pinfold's words say it; the one that is not taken over stands first."""

    NONE = "none"
    """There is no equivalent, or it would open too much."""
    WIDER = "wider"
    """It would let more through here than it did there: taken over only if asked for."""
    NARROWER = "narrower"
    """It lets less through here."""
    SAME = "same"
    NEEDLESS = "needless"
    """It holds here anyway."""


class Finding(NamedTuple):
    source: str
    """The file."""
    text: str
    """As it stands there."""
    fit: Fit
    key: str = ""
    """The setting, such as `commands.deny`."""
    value: str | bool = ""
    """An entry of a list, or the value of a scalar."""
    why: str = ""


class Found:
    """Gathers findings of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.all: list[Finding] = []

    def add(self, text: str, fit: Fit, key: str, value: str | bool, why: str = "") -> None:
        self.all.append(Finding(self.source, text, fit, key, value, why))

    def none(self, text: str, why: str) -> None:
        self.all.append(Finding(self.source, text, Fit.NONE, why=why))

    def needless(self, text: str, why: str) -> None:
        self.all.append(Finding(self.source, text, Fit.NEEDLESS, why=why))
