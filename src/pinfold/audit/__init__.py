"""What happened, kept: the journal, which is written before anything is done."""

from pinfold.audit.journal import Entry, Journal, JournalError

__all__ = ["Entry", "Journal", "JournalError"]
