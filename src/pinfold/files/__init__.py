"""The agent's file tools, over directories that are held open.

`ground` finds what a path means without ever leaving the held directories, `text` keeps a file's encoding and
line ends, `editing` and `finding` are pure, `replacing` puts a new file in another's place, and `tools` puts
them together. Whether something may be read or written is asked of whoever made the tools; where it is, is
the kernel's word.
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
