"""What the user's sessions have done, read from where they write it down."""

import os
from collections.abc import Mapping

from pinfold.audit.history import EVERY, Deed, deeds, forget
from pinfold.model.errors import PinfoldError
from pinfold.session.state import journal_file

__all__ = ["EVERY", "Deed", "forget_before", "last_deeds"]


def last_deeds(environ: Mapping[str, str], most: int = EVERY, session: str | None = None) -> list[Deed]:
    """The last things that were done or refused, by all sessions or by one; the newest last."""
    path = journal_file(environ)
    return deeds(path, most, session) if _is_begun(path) else []


def forget_before(environ: Mapping[str, str], moment: float) -> int:
    """How many rows of the journal from before that moment are gone."""
    path = journal_file(environ)
    return forget(path, moment) if _is_begun(path) else 0


def _is_begun(path: str) -> bool:
    """Where there was no room for its first page, an empty file stays."""
    try:
        return os.stat(path).st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise PinfoldError(f"the journal {path} cannot be read: {error.strerror}") from None
