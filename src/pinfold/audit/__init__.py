"""What happened, kept: the journal, which is written before anything is done."""

from pinfold.audit.entry import Entry
from pinfold.audit.journal import Journal, JournalError

__all__ = ["Entry", "Journal", "JournalError"]
