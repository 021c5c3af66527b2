"""Which programs a repository's own configuration would make git run.

An allowlist that says `git status` means git's own work. A repository can make git run something
else on the way, and whoever wrote the repository is not who wrote the allowlist. Any doubt counts as a
program: a file that cannot be read, a line that is not understood.

Facts about git (git-config(1), githooks(5), setup.c, config.c):
- git climbs from the working directory, links followed, to the first directory with a valid `.git`
  (a directory, or a file with `gitdir: PATH`) or that is itself a valid repository. Valid: `HEAD` names a ref
  or a commit, `objects` and `refs` are directories, the latter two looked for where `commondir` leads.
- `git status` and `git diff` look into repositories inside the working tree that the index links to.
- `post-index-change` runs when `git status` refreshes the index.
"""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice

from msgspec import Struct

from pinfold.model.errors import PolicyError
from pinfold.model.git_config import parse_config
from pinfold.model.links import real_path
from pinfold.settings.files import read_text

RUNNING_KEYS = (
    "alias.*",
    "blame.*",
    "browser.*.cmd",
    "browser.*.path",
    "core.alternaterefscommand",
    "core.askpass",
    "core.attributesfile",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.pager",
    "core.sshcommand",
    "core.worktree",
    "credential.helper",
    "credential.*.helper",
    "diff.external",
    "diff.orderfile",
    "diff.*.command",
    "diff.*.textconv",
    "difftool.*",
    "filter.*.clean",
    "filter.*.process",
    "filter.*.smudge",
    "gpg.program",
    "gpg.*.program",
    "gpg.*.defaultkeycommand",
    "hook.*",
    "include.path",
    "includeif.*",
    "interactive.difffilter",
    "mailmap.*",
    "man.*.cmd",
    "man.*.path",
    "merge.*.driver",
    "mergetool.*",
    "pager.*",
    "protocol.*",
    "remote.*.receivepack",
    "remote.*.uploadpack",
    "remote.*.vcs",
    "sendemail.*",
    "sequence.editor",
    "submodule.*.update",
    "trailer.*.cmd",
    "trailer.*.command",
    "uploadpack.packobjectshook",
    "url.*",
)
HARMLESS_VALUES = {"core.fsmonitor": ("true", "false", ""), "core.pager": ("cat", "less")}
MOST_DIRECTORIES = 20_000
HOOKS_OF_READING = ("post-index-change", "reference-transaction")


class Repository(Struct, frozen=True):
    top: str
    """The working tree's top directory; a bare repository's own."""
    directory: str
    """The git directory of this working tree."""
    common: str
    """The git directory that linked worktrees share: config, hooks, info."""


def git_helpers(directory: str) -> tuple[str, ...]:
    """What the configuration of the repository around `directory` would make git run."""
    found = find_repository(directory)
    if found is None:
        return ()
    places, doubts = _inner_repositories(found.top)
    inner = [find_repository(place) for place in places]
    keys = [key for repository in (found, *inner) if repository for key in _helpers(repository)]
    return tuple(dict.fromkeys((*keys, *doubts)))


def _helpers(found: Repository) -> Iterator[str]:
    for place in dict.fromkeys((found.directory, found.common)):
        for name in ("config", "config.worktree"):
            yield from _running_keys(os.path.join(place, name))
    for hook in HOOKS_OF_READING:
        if os.access(os.path.join(found.common, "hooks", hook), os.X_OK):
            yield f"hooks/{hook}"


def _inner_repositories(top: str) -> tuple[list[str], list[str]]:
    """Directories below `top` that are repositories themselves, and what could not be looked at."""
    waiting, found, doubts = [top], [], []
    for directory in islice(waiting, MOST_DIRECTORIES):  # `waiting` grows as it is walked, level by level
        try:
            with os.scandir(directory) as entries:
                inside = [
                    entry for entry in entries if entry.name == ".git" or entry.is_dir(follow_symlinks=False)
                ]
        except FileNotFoundError:
            continue
        except OSError:
            doubts.append(f"whatever is in {directory}, which cannot be read")
            continue
        if directory != top and any(entry.name == ".git" for entry in inside):
            found.append(directory)
        waiting += [entry.path for entry in inside if entry.name not in (".git", "node_modules")]
    if len(waiting) > MOST_DIRECTORIES:
        doubts.append(f"whatever is beyond the {MOST_DIRECTORIES:,} directories that were looked at")
    return found, doubts


def find_repository(directory: str) -> Repository | None:
    """The repository that git would use in `directory`."""
    directory = real_path(directory)
    while True:
        for candidate in (_git_directory(os.path.join(directory, ".git")), directory):
            # Most directories have no HEAD, and nothing else of them needs to be looked at.
            if candidate and _has_head(candidate):
                repository = _repository(directory, candidate)
                if _is_valid(repository):
                    return repository
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _git_directory(entry: str) -> str:
    """Where a `.git` leads, empty if nowhere."""
    if os.path.isdir(entry):
        return entry
    text = text_of(entry).strip()
    at = text.removeprefix("gitdir:").strip()
    return os.path.join(os.path.dirname(entry), at) if text.startswith("gitdir:") else ""


def _has_head(directory: str) -> bool:
    """Whether there is a HEAD that names something."""
    head = os.path.join(directory, "HEAD")
    if os.path.islink(head):
        return True
    text = text_of(head)
    return text.startswith("ref:") or len(text.strip()) >= 40


def _is_valid(repository: Repository) -> bool:
    return all(os.path.isdir(os.path.join(repository.common, n)) for n in ("objects", "refs"))


def _repository(top: str, directory: str) -> Repository:
    return Repository(top, directory, real_path(told_common(directory)))


def told_common(directory: str) -> str:
    """Where a git directory says that what it shares lies, as it says it; itself if it says nothing."""
    # As git reads it (setup.c, get_common_dir): blanks are part of a name.
    told = text_of(os.path.join(directory, "commondir")).rstrip("\r\n").partition("\0")[0]
    return os.path.join(directory, told)


def text_of(path: str) -> str:
    """What a file says, empty if that cannot be read: bounded, and never waiting for a fifo."""
    try:
        return read_text(path) or ""
    except PolicyError:
        return ""


def _running_keys(path: str) -> Iterator[str]:
    try:
        settings = list(parse_config((read_text(path) or "").encode()))
    except (PolicyError, ValueError):
        yield f"what {os.path.basename(path)} says, which cannot be read"
        return
    for key, value in settings:
        if value in HARMLESS_VALUES.get(key, ()):
            continue
        if any(fnmatchcase(key, pattern) for pattern in RUNNING_KEYS):
            yield key
