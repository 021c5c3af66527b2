"""Which names are those of `.env` files: keys and passwords that a project keeps for itself. Pure.

The standard library alone: a pen's warden uses it too.

- These count: `.env`, `.env.local`, `.env-prod`, `.env_test`, what editors leave beside them (`.env~`,
  `.env.swp`), and `.envrc` with its variants: it exports the same keys, and nothing but direnv reads it.
- Samples do not count, whose last part says so: `.env.example`, `.env.production.sample`. Nor do directories:
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
    """A file, independent of its names."""

    device: int
    inode: int
    birth: tuple[int, int] | None
    """When it was created: file systems soon reuse the number of a deleted inode. None: not known."""


def is_env_file(name: str) -> bool:
    """Whether a file of this name may hold secrets."""
    if name[:4].lower() != START:
        return False
    rest = name[4:].lower().removeprefix("rc")
    if rest and not rest.startswith(MARKS):
        return False
    return rest.replace("-", ".").replace("_", ".").rpartition(".")[2] not in SAMPLES
