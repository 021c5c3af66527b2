"""Where contenders work: a place of their own for each work, as fresh as this user can have it.

Facts about ext4 (fs/ext4/ialloc.c, and tried): an inode deleted within the last minutes is not given out
again, and finding one that may be costs a walk over all of those. Making 10,000 files where as many were just
deleted took 0.6 to 19 seconds, bare, against 0.1 on a new file system; a new directory does not help. So
root, who may mount, gets a new ext4 in memory for each place; anyone else gets a directory, and the report
says which.

Root's mounts are made in a mount namespace of this process, so they end with it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contenders import Place
from pinfold.kernel import mounts, namespaces

IMAGE_SIZE, INODES = 1 << 29, 60_000


class Ground:
    """Precondition: the process has one thread, for root leaves the mount namespace."""

    def __init__(self, inodes: int = INODES) -> None:
        self.inodes = inodes
        """How many files an ext4 of ours has room for."""
        self.top = tempfile.mkdtemp(
            prefix="pinfold-bench-", dir=os.environ.get("TMPDIR") or os.path.expanduser("~")
        )
        self.number = 0
        self.mounted = False
        if os.geteuid() == 0:
            try:
                namespaces.unshare(namespaces.CLONE_NEWNS)
                mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
                mounts.mount("tmpfs", self.top, "tmpfs", 0, "mode=0755")
                self.mounted = True
                with self.place():
                    pass
            except OSError:
                self.mounted = False
        self.home = f"{self.top}/home"
        os.mkdir(self.home)

    @property
    def kind(self) -> str:
        if self.mounted:
            return "a new ext4 in memory for each"
        return "a new directory for each; an ext4 slows down a program that makes files in it again, bare too"

    @contextmanager
    def place(self) -> Iterator[Place]:
        self.number += 1
        place = Place(f"{self.top}/{self.number}")
        os.mkdir(place.top)
        image = self._mount(place.top) if self.mounted else ""
        try:
            os.mkdir(place.work)
            os.mkdir(place.tmp)
            yield place
        finally:
            if image:
                # Lazily: a pen that is still ending holds a copy of the mount for a moment.
                mounts.umount(place.top, mounts.MNT_DETACH)
                os.unlink(image)
            shutil.rmtree(place.top, ignore_errors=True)

    def _mount(self, path: str) -> str:
        image = f"{path}.ext4"
        with open(image, "wb") as file:
            file.truncate(IMAGE_SIZE)
        made_at_once = "lazy_itable_init=0,lazy_journal_init=0"
        for words in (
            ["mkfs.ext4", "-q", "-F", "-N", str(self.inodes), "-E", made_at_once, image],
            ["mount", "-o", "loop", image, path],
        ):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OSError(f"{words[0]}: {done.stderr.strip()}")
        return image

    def close(self) -> None:
        if os.path.ismount(self.top):
            mounts.umount(self.top, mounts.MNT_DETACH)
        shutil.rmtree(self.top, ignore_errors=True)
