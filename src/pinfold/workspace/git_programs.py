"""Which programs a repository's own configuration would make git run.

An allowlist that says `git status` means git's own work. A repository can make git run something
else on the way, and its author is not the author of the allowlist. Any doubt counts as a program: a file that
cannot be read, a line that is not understood.

Facts about git (git-config(1), githooks(5), config.c):
- `git status` and `git diff` look into repositories inside the working tree that the index links to.
- `post-index-change` runs when `git status` refreshes the index.
- Variables such as `GIT_DIR` take the place of the search for a repository (`repository`).

What this means for us: the search goes through directories for repositories, `node_modules` last and as far
as the time lasts; repositories that the index links to are always read. A repository under another name than
`.git` has come with other files: the user did not put hooks into it for git to run.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain, islice

from pinfold.model.errors import PolicyError
from pinfold.model.git_files import LARGEST, linked_repositories, parse_config
from pinfold.model.git_repositories import is_git_by_name
from pinfold.model.home import home_of, scratch_top
from pinfold.model.symlinks import real_path
from pinfold.policy.paths import is_covered
from pinfold.settings.files import read_text
from pinfold.workspace.repository import Repository, RepositorySearch, read_bytes

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
    "gc.recentobjectshook",
    "gpg.program",
    "gpg.*.program",
    "gpg.*.defaultkeycommand",
    "guitool.*.cmd",
    "hook.*",
    "gitcvs.*",
    "imap.tunnel",
    "include.path",
    "init.templatedir",
    "instaweb.*",
    "includeif.*",
    "interactive.difffilter",
    "mailmap.*",
    "lfs.customtransfer.*",
    "lfs.extension.*",
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
    "submodule.*.gitdir",
    "submodule.*.update",
    "svn.authorsprog",
    "tar.*.command",
    "trailer.*.cmd",
    "trailer.*.command",
    "uploadpack.packobjectshook",
    "url.*",
)
HARMLESS_VALUES = {"core.fsmonitor": ("true", "false", ""), "core.pager": ("cat", "less")}
MOST_DIRECTORIES = 20_000
MOST_REPOSITORIES = 1_000
LARGEST_INDEX = 1 << 28
UNPROTECTED = "any key, since commands can write this repository"
LEADING = (
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"),
    *("GIT_CONFIG_PARAMETERS", "GIT_EXTERNAL_DIFF"),
)
NAMING = {
    "GIT_CONFIG_GLOBAL": "",
    "GIT_CONFIG_SYSTEM": "",
    "XDG_CONFIG_HOME": "/git/config",
    "HOME": "/.gitconfig",
}
"""Variables that name a file of git's configuration, and what comes behind their value."""
OF_USER = ("/.config/git/config", "/.gitconfig")
"""The user's own configuration. In a project, commands cannot write it (`policy/data/protected.toml`)."""
MOST_CONFIGURED = 1_000
HOOKS_OF_READING = ("post-index-change", "reference-transaction")


def git_helpers(directory: str, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What the configuration of the repository around `directory` would make git run.

    What a conversation has as /tmp is no project, and nothing in it is protected: commands may change a
    repository there at any time, also between this look and git's own.
    """
    scratch = real_path(scratch_top())
    if is_covered(real_path(directory), (scratch,)):
        return (UNPROTECTED,)
    search = RepositorySearch()
    found = [search.repository_of(directory)]
    places, doubts = _inner_repositories(found[0].top) if found[0] else ([], [])
    found += map(search.repository_of, places)
    known: dict[str, Repository] = {}
    for repository in found:  # which grows meanwhile: what is linked to may link to others
        if repository and repository.directory not in known and len(known) < MOST_REPOSITORIES:
            known[repository.directory] = repository
            linked = _linked(repository, doubts)
            found += map(search.repository_of, linked)
    places = [each for one in known.values() for each in (one.common, one.top)]
    if any(is_covered(real_path(each), (scratch,)) for each in places):
        doubts.append(UNPROTECTED)
    writable = (scratch, *map(real_path, places))
    doubts += (f"the variable {name}" for name in _naming(environ, scratch, writable))
    if len(known) == MOST_REPOSITORIES:
        doubts.append(f"repositories beyond the first {MOST_REPOSITORIES:,}, which were not read")
    doubts += (f"the variable {name}" for name in LEADING if name in environ)
    doubts += _of_variables(environ)
    doubts += (f"{path}, which git's versions may read differently" for path in search.doubts)
    keys = chain.from_iterable(map(_helpers, known.values()))
    return tuple(dict.fromkeys((*keys, *_of_user(known.values(), environ), *doubts)))


def _of_user(found: Iterable[Repository], environ: Mapping[str, str]) -> Iterator[str]:
    """What the user's own configuration makes git run that lies in these working trees."""
    from pinfold.workspace.git_places import GitPlaces

    places = GitPlaces(home_of(environ), environ)
    for repository in found:
        yield from places.of_user_in(repository.top)


def _naming(environ: Mapping[str, str], scratch: str, writable: tuple[str, ...]) -> Iterator[str]:
    """Variables that name a file which commands may write, or which comes with a project."""
    users = [home_of(os.environ) + each for each in OF_USER]
    for name, behind in NAMING.items():
        path = environ.get(name, "") and environ[name] + behind
        if _leads_into(path, (scratch,) if path in users else writable):
            yield name


def _leads_into(path: str, places: tuple[str, ...]) -> bool:
    """Whether a file lies where commands may write; a relative one does, in some directory."""
    return bool(path) and (not os.path.isabs(path) or is_covered(real_path(path), places))


def _of_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """What variables configure that makes git run something. Gemini CLI has an empty `credential.helper`."""
    count = environ.get("GIT_CONFIG_COUNT", "")
    if count and not (count.isascii() and count.isdecimal() and int(count[:9]) <= MOST_CONFIGURED):
        yield "the variable GIT_CONFIG_COUNT"
        return
    for number in range(int(count or 0)):
        key, value = (environ.get(f"GIT_CONFIG_{name}_{number}", "") for name in ("KEY", "VALUE"))
        if value and _runs(key.lower(), value):
            yield f"{key}, by the variable GIT_CONFIG_KEY_{number}"


def _helpers(found: Repository) -> Iterator[str]:
    for place in dict.fromkeys((found.directory, found.common)):
        for name in ("config", "config.worktree"):
            yield from _running_keys(os.path.join(place, name))
    hooks = os.path.join(found.common, "hooks")
    for hook in HOOKS_OF_READING if is_git_by_name(found.common) else _listed(hooks):
        if os.access(os.path.join(hooks, hook), os.X_OK) and not hook.endswith(".sample"):
            yield f"hooks/{hook}"


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _inner_repositories(top: str) -> tuple[list[str], list[str]]:
    """Directories below `top` that are repositories themselves, and what could not be looked at."""
    waiting = [top]
    last: list[str] = []
    found: list[str] = []
    doubts: list[str] = []
    for directory in islice(waiting, MOST_DIRECTORIES):  # `waiting` grows as it is walked, level by level
        for path in _directories_in(directory, found, doubts):
            (last if path.endswith("/node_modules") else waiting).append(path)
    if len(waiting) > MOST_DIRECTORIES:
        doubts.append(f"directories beyond the first {MOST_DIRECTORIES:,}, which were not searched")
    for directory in islice(last, max(0, MOST_DIRECTORIES - len(waiting))):
        last += _directories_in(directory, found, doubts)
    return [path for path in found if path != top], doubts


def _directories_in(directory: str, found: list[str], doubts: list[str]) -> list[str]:
    """Those to be looked through as well. Notes if it has a `.git`, or cannot be read."""
    try:
        with os.scandir(directory) as entries:
            inside = [
                entry for entry in entries if entry.name == ".git" or entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    except OSError:
        doubts.append(f"the contents of {directory}, which cannot be read")
        return []
    if any(entry.name == ".git" for entry in inside):
        found.append(directory)
    return [entry.path for entry in inside if entry.name != ".git"]


def _linked(found: Repository, doubts: list[str]) -> list[str]:
    """What its index links to."""
    index = read_bytes(os.path.join(found.directory, "index"), LARGEST_INDEX)
    if index is None:
        return []
    try:
        if len(index) == LARGEST_INDEX:
            raise ValueError("too large")
        links = linked_repositories(index, 32 if has_long_names(found) else 20)
        return [os.path.join(found.top, os.fsdecode(path)) for path in links]
    except ValueError as error:
        doubts.append(f"what the index of {found.directory} links to: {error}")
        return []


def has_long_names(found: Repository) -> bool:
    """Whether its objects have names of 256 bits."""
    with suppress(ValueError):
        settings = parse_config(read_bytes(os.path.join(found.common, "config"), LARGEST) or b"")
        return ("extensions.objectformat", "sha256") in settings
    return False


def _running_keys(path: str) -> Iterator[str]:
    try:
        settings = list(parse_config((read_text(path) or "").encode()))
    except (PolicyError, ValueError):
        yield f"what {os.path.basename(path)} says, which cannot be read"
        return
    for key, value in settings:
        if _runs(key, value):
            yield key


def _runs(key: str, value: str) -> bool:
    is_harmless = value in HARMLESS_VALUES.get(key, ())
    return not is_harmless and any(fnmatchcase(key, pattern) for pattern in RUNNING_KEYS)
