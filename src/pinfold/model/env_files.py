"""Which names are those of `.env` files: keys and passwords that a project keeps for itself. Pure.

The standard library alone: a pen's warden asks it too.

- Counted are `.env`, `.env.local`, `.env-prod`, `.env_test`, what editors leave beside them (`.env~`,
  `.env.swp`), and `.envrc` with its kin: it exports the same keys, and nothing but direnv reads it.
- Not counted are samples, whose last part says so: `.env.example`, `.env.production.sample`. Nor directories:
  some virtual environments are called `.env`.
"""

from typing import NamedTuple

START = ".env"
MARKS = (".", "-", "_", "~")
"""What may follow."""
SAMPLES = frozenset(("example", "sample", "template", "tmpl", "tpl", "dist", "defaults"))
PACKAGES = frozenset(("node_modules", "site-packages", "dist-packages"))
"""Packages of others, whose examples and tests hold such files, but no keys."""


class FileIdentity(NamedTuple):
    """A file, whatever name it has."""

    device: int
    inode: int
    birth: tuple[int, int] | None
    """The number of a deleted inode is soon given to a new one. None: the file system does not know."""


def is_env_file(name: str) -> bool:
    """Whether a file of this name may hold secrets."""
    if name[:4].lower() != START:
        return False
    rest = name[4:].lower().removeprefix("rc")
    if rest and not rest.startswith(MARKS):
        return False
    return rest.replace("-", ".").replace("_", ".").rpartition(".")[2] not in SAMPLES
