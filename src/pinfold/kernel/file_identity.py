"""What a file is, whatever its name: told alike by a pen's warden and by the host, which compares."""

import os

from pinfold.kernel.files import AT_FDCWD, birth
from pinfold.model.env_files import FileIdentity


def identity_of(path: str | bytes, directory: int = AT_FDCWD) -> FileIdentity:
    """Of the file itself, be it a link. Raises OSError."""
    start = None if directory == AT_FDCWD else directory
    status = os.stat(path, dir_fd=start, follow_symlinks=False)
    return FileIdentity(status.st_dev, status.st_ino, birth(path, directory))
