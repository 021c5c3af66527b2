"""Where the words of a command lead: into the workspace, out of it, to something hidden or protected.

Lexical reasoning is done here; what only the disk can tell comes from `Facts.files`.
"""

from collections.abc import Iterator
from posixpath import join, normpath

from pinfold.model.facts import Facts
from pinfold.model.script import Command, Word
from pinfold.policy.paths import contains


def bases(command: Command, facts: Facts) -> tuple[str, ...] | None:
    """The directories the command may run in, or None if that cannot be known."""
    if command.directories is None:
        return None
    found: list[str] = []
    for way in command.directories:
        base = facts.cwd
        for step in way:
            to = step.known(variables(base, facts))
            if to is None:
                return None
            base = normpath(join(base, to))
        found.append(base)
    return tuple(dict.fromkeys(found))


def variables(base: str, facts: Facts) -> dict[str, str]:
    """What is known of the shell's variables in a command that runs in `base`."""
    return {"HOME": facts.home, "PWD": base}


def leads_to(word: Word, command: Command, facts: Facts) -> tuple[str, ...] | None:
    """The real paths a word may stand for; None where that cannot be known."""
    directories = bases(command, facts)
    if directories is None:
        # An absolute path means the same everywhere.
        directories = (facts.cwd,) if word.start.startswith("/") else None
    if directories is None:
        return None
    found: list[str] = []
    for base in directories:
        paths = _paths(word, base, facts)
        if paths is None:
            return None
        found.extend(paths)
    return tuple(dict.fromkeys(found))


def _paths(word: Word, base: str, facts: Facts) -> tuple[str, ...] | None:
    known = variables(base, facts)
    if word.has_glob:
        pattern = word.pattern(known)
        return None if pattern is None else facts.files.expand(join(base, pattern))
    value = word.known(known)
    return None if value is None else (facts.files.real(normpath(join(base, value))),)


def absolute(path: str, facts: Facts) -> str:
    """A path as an agent gives it, seen from where it starts, `~` filled in."""
    if path == "~" or path.startswith("~/"):
        path = facts.home + path[1:]
    return normpath(join(facts.cwd, path))


def in_workspace(path: str, facts: Facts) -> bool:
    """Whether a path lies where the user's policy lets commands write."""
    return any(contains(root, path) for root in (*facts.roots, *facts.policy.additional_readwrite_paths))


def relative_to_root(path: str, facts: Facts) -> str | None:
    """The path below the innermost root it lies in, or None."""
    holders = [root for root in facts.roots if contains(root, path)]
    if not holders:
        return None
    return path[len(max(holders, key=len)) :].lstrip("/")


def is_dotfile(path: str, facts: Facts) -> bool:
    relative = relative_to_root(path, facts)
    below = path if relative is None else relative
    return any(part.startswith(".") for part in below.split("/"))


def ruinous_targets(command: Command, facts: Facts) -> Iterator[tuple[Word, str]]:
    """Words whose deletion would take the root, the home, a top-level directory or the workspace along."""
    if command.program == "rm" and "-r" not in command.flags:
        return
    directories = bases(command, facts)
    for word in command.deletes:
        # In an unknown directory `*` may be anything, and `cd "$X"` with an empty X goes nowhere.
        for base in directories or (facts.cwd,):
            target = _emptied_target(word, base, facts)
            if _is_ruinous(target, facts) or _is_ruinous(facts.files.real(target), facts):
                yield word, target
                break


def _emptied_target(word: Word, base: str, facts: Facts) -> str:
    """What would be deleted if everything unknown in the word were empty."""
    target = word.emptied(variables(base, facts))
    if not target:
        # `rm -rf "$X"` with an empty X deletes nothing.
        return join(base, "\0")
    head, _, last = target.rpartition("/")
    if last and word.has_glob and not last.strip("*.?[]!^{},"):
        # Everything in a directory is as good as the directory.
        target = head or ("/" if target.startswith("/") else ".")
    return normpath(join(base, target))


def _is_ruinous(target: str, facts: Facts) -> bool:
    if "\0" in target:
        return False
    return (
        target.count("/") <= 1
        or contains(target, facts.home)
        or any(contains(target, root) for root in facts.roots)
    )
