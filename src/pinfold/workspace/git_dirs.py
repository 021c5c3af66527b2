"""Git directories that a working tree has elsewhere: what of them commands have to write, what stays closed.

Facts about git (gitrepository-layout(5), git-worktree(1), git-submodule(1)):
- A linked worktree has a file `.git` with `gitdir: MAIN/.git/worktrees/NAME`; that directory leads back by
  its file `gitdir`. Its HEAD, index and logs are its own; objects, refs and packed-refs are MAIN's, and so
  are config and hooks.
- A submodule's `.git` leads to SUPER/.git/modules/NAME, whose `core.worktree` leads back.
- A ref is deleted under `packed-refs.lock`, even if it was never packed.
- The rest of MAIN/.git is the state of another working tree: its index, its HEAD, a rebase under way, whose
  plan may have commands in it.

What this means for us: a `.git` file is a mere claim, and may come with an archive. Only a directory that
leads back is opened, and of a shared directory only what a commit needs.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from pinfold.model.git_files import LARGEST, parse_config
from pinfold.model.protected_names import CONTENTS, NESTS, NameMatcher, NameRule
from pinfold.model.symlinks import real_path
from pinfold.policy.paths import is_covered
from pinfold.policy.shipped_protected import name_rules
from pinfold.workspace.repository import find_repository, read_bytes, told_common

PREFIX = ".git/"
SHARED = ("objects", "refs", "logs", "packed-refs", "packed-refs.lock", "packed-refs.new", "worktrees")
"""What commits of a linked worktree write in the directory it shares."""
ALTERNATES = "objects/info/alternates"
ELSEWHERE = "it belongs to another working tree"
Nested = dict[str, list[str]]
"""Names of git directories that have rules of their own, by the directory that they lie in."""


class OutsideGitDir(Struct, frozen=True):
    """What comes of one `.git` that is no directory."""

    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    names: tuple[NameRule, ...] = ()


def outside_git_dir(git: str, tops: tuple[str, ...], rules: Iterable[NameRule]) -> OutsideGitDir:
    """What a `.git` leads to, if it lies outside of the roots."""
    top = os.path.dirname(git)
    found = find_repository(top)
    if found is None or found.top != top:
        return OutsideGitDir()
    directory, common = real_path(found.directory), real_path(found.common)
    if any(is_covered(place, tops) for place in (directory, common)):
        # In a root the rules hold by themselves; a directory by another name than `.git` counts as bare.
        return OutsideGitDir()
    names = tuple(_closed(directory, rules))
    if directory == common:
        own = _is_submodule(top, directory)
        return OutsideGitDir((directory,), _existing(names), names) if own else OutsideGitDir()
    if not _is_worktree(git, directory, common):
        return OutsideGitDir()
    return _shared(directory, common, (*names, NameRule(f"{common}/{ALTERNATES}", ELSEWHERE)))


def is_open_to_git(path: str, roots: Sequence[str], protected: tuple[str, ...] = ()) -> bool:
    """Whether git's writes, once they are open, reach a path outside, to which the `.git` of a root leads."""
    tops, rules = tuple(map(real_path, roots)), name_rules(protected)
    for found in (outside_git_dir(f"{top}/.git", tops, rules) for top in tops):
        if is_covered(path, found.writable):
            names = NameMatcher((*rules, *found.names), (*tops, *found.writable))
            return not any(not match.rest for match in names.matches(path))
    return False


def bare_repositories(
    directories: Sequence[str],
    tops: tuple[str, ...],
    rules: Iterable[NameRule],
    gits: Sequence[str] = (),
    *,
    git_writes: bool,
) -> OutsideGitDir:
    """Repositories that are their own directories, wherever they lie: closed as a `.git` is.

    So is what they share, whose configuration git obeys, whether or not that is there yet; and where a link
    is on the way, the place that a directory would have instead. One of a linked worktree lies in another,
    and is open for git's writes as that is. `gits` are what is called `.git`: beside each is a working tree.
    """
    nested: Nested = {}
    for place, name in map(os.path.split, directories if git_writes else ()):
        nested.setdefault(place, []).append(name)
    told = [told_common(each) for each in directories]
    shared = [place for place in map(real_path, told) if is_covered(place, tops)]
    closed = dict.fromkeys((*directories, *shared))
    instead = [place for place in map(os.path.normpath, told) if is_covered(place, tops)]
    names = tuple(rule for each in closed for rule in _closed(each, rules, nested))
    later = tuple(rule for each in dict.fromkeys(instead) for rule in _closed(each, rules, nested))
    names += tuple(_blocked(directories, (*tops, *map(os.path.dirname, gits)), rules))
    return OutsideGitDir(protected=_existing(names), names=(*names, *later))


def _blocked(
    directories: Iterable[str], trees: Sequence[str], rules: Iterable[NameRule]
) -> Iterator[NameRule]:
    """The rule about git's writes as a whole, if there is one, for git directories of other names.

    Working trees may lie in one, as in a bare clone whose worktrees are kept in it: they stay open. What only
    was a repository, or looks like one, has no HEAD: those may be any program's `objects`, `refs` and
    `config`.
    """
    for rule in (each for each in rules if each.is_git_writes):
        for directory in (each for each in directories if os.path.lexists(f"{each}/HEAD")):
            inside = (tree[len(directory) + 1 :] for tree in trees if tree.startswith(f"{directory}/"))
            kept_in_it = {path.partition("/")[0] for path in inside} - CONTENTS
            yield rule._replace(name=directory, except_for=tuple(sorted(kept_in_it)))


def _closed(directory: str, rules: Iterable[NameRule], nested: Nested | None = None) -> Iterator[NameRule]:
    """The rules for a `.git`, for a git directory of another name."""
    for rule in rules:
        if rule.name.startswith(PREFIX):
            yield rule._replace(name=f"{directory}/{rule.name[len(PREFIX) :]}")
    for nest in (f"{directory}/{each}" for each in NESTS):
        yield NameRule(nest, ELSEWHERE, except_for=tuple((nested or {}).get(nest, ())))


def _existing(names: Iterable[NameRule]) -> tuple[str, ...]:
    """What is there of these: of a directory that is closed but for some names, each of the others."""
    found: list[str] = []
    for rule in names:
        if rule.except_for:
            found += (f"{rule.name}/{each}" for each in {*_listed(rule.name)}.difference(rule.except_for))
        elif os.path.lexists(rule.name):
            found.append(rule.name)
    return tuple(found)


def _shared(directory: str, common: str, names: tuple[NameRule, ...]) -> OutsideGitDir:
    worktrees, name = os.path.split(directory)
    closed = (
        NameRule(common, ELSEWHERE, except_for=SHARED),
        NameRule(worktrees, ELSEWHERE, except_for=(name,)),
        *names,
    )
    return OutsideGitDir((common,), _existing(closed), closed)


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []  # pruned just now, and nothing is left in it


def _is_worktree(git: str, directory: str, common: str) -> bool:
    back = os.fsdecode(read_bytes(f"{directory}/gitdir", LARGEST) or b"").removesuffix("\n")
    leads_back = back != "" and real_path(os.path.join(directory, back)) == git
    return leads_back and os.path.dirname(directory) == f"{common}/worktrees"


def _is_submodule(top: str, directory: str) -> bool:
    try:
        settings = list(parse_config(read_bytes(f"{directory}/config", LARGEST) or b""))
    except ValueError:
        return False
    told = [value for key, value in settings if key == "core.worktree"]
    return bool(told) and real_path(os.path.join(directory, told[-1])) == top
