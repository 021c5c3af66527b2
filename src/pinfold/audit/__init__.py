"""What happened, kept: the journal, which is written before anything is done."""

from pinfold.audit.journal import Journal, JournalError
from pinfold.audit.tail_file import JournalEntry

__all__ = ["Journal", "JournalEntry", "JournalError"]
