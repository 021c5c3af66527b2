"""The agent's file tools, over directories that are held open.

`held_dirs` resolves a path without ever leaving the held directories and walks below them, `text_format`
keeps a file's encoding and line ends, `atomic_write` puts a new file in another's place, and `tools` joins
them. The maker of the tools decides whether something may be read or written; the kernel decides where it is.
"""

from pinfold.files.held_dirs import HeldDirectories
from pinfold.files.tools import TOOLS, Access, DirectoryEntry, FileText, FileTools, SearchHit, WriteResult

__all__ = [
    "TOOLS",
    "Access",
    "DirectoryEntry",
    "FileText",
    "FileTools",
    "HeldDirectories",
    "SearchHit",
    "WriteResult",
]
