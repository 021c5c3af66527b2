"""What the user's sessions have done, read from where they write it down."""

from collections.abc import Mapping

from pinfold.audit.history import EVERY, Deed, deeds, forget
from pinfold.state.directory import journal_file

__all__ = ["EVERY", "Deed", "forget_before", "last_deeds"]


def last_deeds(environ: Mapping[str, str], most: int = EVERY, session: str | None = None) -> list[Deed]:
    """The last things that were done or refused, by all sessions or by one; the newest last."""
    return deeds(journal_file(environ), most, session)


def forget_before(environ: Mapping[str, str], moment: float) -> int:
    """How many rows of the journal from before that moment are gone."""
    return forget(journal_file(environ), moment)
