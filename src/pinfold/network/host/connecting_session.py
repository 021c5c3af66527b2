"""The session whose commands connect, as far as the gate's mediation needs it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pinfold.approval.broker import Desk
    from pinfold.model.settings import Settings


class ConnectionBook(Protocol):
    """Where connections are journaled."""

    def connected(self, outcome: Mapping[str, object], entry: int) -> None: ...

    def trouble(self, text: str) -> None: ...


class ConnectingSession(Protocol):
    id: str
    environ: Mapping[str, str]

    @property
    def settings(self) -> "Settings":
        """Those in force at the time when a connection is made."""

    @property
    def settings_files(self) -> tuple[str, ...]:
        """Every path that settings are read from, or would be if it were there."""

    @property
    def desk(self) -> "Desk": ...

    @property
    def last_ledger(self) -> ConnectionBook:
        """It is there for a session that is being closed too."""
