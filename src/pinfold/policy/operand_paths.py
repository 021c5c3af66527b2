"""Which paths the words of a command mean, and which of them the line itself may change before use.

This module reasons about text; facts of the disk come from `Facts.files`.
"""

import re
from collections.abc import Iterator
from posixpath import join, normpath

from pinfold.model.facts import Facts
from pinfold.model.script import Command, Computed, Variable, Word
from pinfold.policy.paths import contains, normalised

ROOT_OR_HOME = r"(?<![\w.$~/])(?:/|~|\$HOME|\$\{HOME[^}]*\})(?=$|[\s;&|)'\"`}])"
"""The root or the home as a word of its own, anywhere in a line."""
WORKING_DIRECTORY = r"\$\(pwd\)|`pwd`|\$\{?PWD\}?|\$\(git rev-parse --show-toplevel\)"
"""The working directory, or the top of its repository."""
OWN_PROCESS = ("self", "thread-self")
MOST_TARGETS = 16
"""Directories that `cd` steps may lead to, by each reading of the links on the path."""
NEARLY_ANY_CHARACTER = r"\[(?:[!^]|[^/]*(?:a-z|A-Z|\[:(?:alnum|alpha|graph|lower|print|word):\]))[^/]*\]"
"""A character set that matches nearly every first character."""
OPEN_STREAM = r"/dev/(?:stdin|stdout|stderr|fd/[0-9]+)"
"""Streams that the line itself has opened, which were judged already."""


def working_directories(command: Command, facts: Facts) -> tuple[str, ...] | None:
    """The directories the command may run in, or None if that cannot be known."""
    if command.directories is None:
        return None
    found: list[str] = []
    for way in command.directories:
        ends: tuple[str, ...] = (facts.cwd,)
        for step in way:
            further = _after(step, ends, facts)
            if further is None:
                return None
            ends = further
        if any(is_unsettled(end, facts) for end in ends):
            return None
        found += map(facts.files.real, ends)
    return tuple(dict.fromkeys(found))


def is_unsettled(path: str, facts: Facts) -> bool:
    """Whether the line itself may change where a path leads, before it is used."""
    if not facts.unsettled:
        return False
    ways = dict.fromkeys((normpath(path), facts.files.real(path)))
    return any(
        contains(name, way) and not (name.endswith("/") and way == normalised(name))
        for name in facts.unsettled
        for way in ways
    )


def lexical_paths(word: Word, directories: tuple[str, ...] | None, facts: Facts) -> tuple[str, ...]:
    """The paths of a word as written, without following links; empty if unknown."""
    values = ((base, word.known(variables(base, facts))) for base in directories or ())
    return tuple(normpath(join(base, value)) for base, value in values if value is not None)


def _after(step: Word, starts: tuple[str, ...], facts: Facts) -> tuple[str, ...] | None:
    """Where a step leads from each of these.

    Facts: a shell's `cd ..` takes the last name off the path by which it came, links included (`cd -P` does
    not); `make -C ..` leads up from where the links led. Which is meant is not asked: both count.
    """
    found: list[str] = []
    for start in starts:
        to = step.known(variables(start, facts))
        if to is None or _is_process_own(join(start, to), facts):
            return None
        path = join(start, to)
        found += (normpath(path), facts.files.real(path))
    ends = tuple(dict.fromkeys(found))
    return ends if len(ends) <= MOST_TARGETS else None


def variables(base: str, facts: Facts) -> dict[str, str]:
    """What is known of the shell's variables in a command that runs in `base`."""
    return {"HOME": facts.home, "PWD": base}


def real_paths(word: Word, directories: tuple[str, ...] | None, facts: Facts) -> tuple[str, ...] | None:
    """The real paths that a word may mean in these directories; None if unknown."""
    if directories is None:
        if not word.start.startswith("/"):
            return None
        directories = (facts.cwd,)  # an absolute path means the same everywhere
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
        if pattern is None or is_own_process(join(base, pattern)):
            return None
        start = join(base, re.split(r"[^/]*[*?\[(]", pattern, maxsplit=1)[0])
        if is_unsettled(start, facts) or any(contains(start, name) for name in facts.unsettled):
            return None
        return facts.files.expand(join(base, pattern))
    value = word.known(known)
    if value is None or _is_process_own(join(base, value), facts) or is_unsettled(join(base, value), facts):
        return None
    return (facts.files.real(join(base, value)),)


def _is_process_own(path: str, facts: Facts) -> bool:
    if re.fullmatch(OPEN_STREAM, path):
        return False
    return is_own_process(path) or facts.files.is_process_own(path)


def is_own_process(path: str) -> bool:
    """Whether the path is in `/proc/self` or a like directory, which differs for each process that opens
    it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return (
        parts[:1] == ["proc"]
        and len(parts) > 1
        and (parts[1].isdigit() or parts[1] in OWN_PROCESS or ".." in parts)
    )


def absolute(path: str, facts: Facts) -> str:
    """A path as an agent gives it, seen from where it starts, `~` filled in."""
    if path == "~" or path.startswith("~/"):
        path = facts.home + path[1:]
    return join(facts.cwd, path)


def writable_roots(facts: Facts) -> tuple[str, ...]:
    """Where the user's policy lets commands write: the workspace, and what settings add to it."""
    return (*facts.roots, *facts.policy.additional_readwrite_paths)


def in_workspace(path: str, facts: Facts) -> bool:
    return any(contains(root, path) for root in writable_roots(facts))


def relative_to_root(path: str, facts: Facts) -> str | None:
    """The path below the innermost writable root it lies in, or None."""
    holders = [root for root in writable_roots(facts) if contains(root, path)]
    return path[len(max(holders, key=len)) :].lstrip("/") if holders else None


def is_dotfile(path: str, facts: Facts) -> bool:
    relative = relative_to_root(path, facts)
    below = path if relative is None else relative
    return any(part.startswith(".") for part in below.split("/"))


def ruinous_targets(command: Command, facts: Facts) -> Iterator[tuple[Word, str]]:
    """Words whose deletion would delete the root, the home, a top-level directory or the workspace, or the
    target of a link that the line makes."""
    if command.program == "rm" and "-r" not in command.flags:
        return
    # `cd $X` with an empty X goes home, `cd "$X"` goes nowhere; both must be borne in mind.
    directories = working_directories(command, facts) or (facts.cwd, facts.home)
    for word in command.deletes:
        facts.deadline.require_time()
        if _is_wholly_unknown(word) and (named := re.search(ROOT_OR_HOME, facts.script.text)):
            # Values are not followed; a line that names the root or the home beside such a word may mean it.
            yield word, "/" if named[0] == "/" else facts.home
            continue
        if _is_wholly_unknown(word) and (place := _workspace_named_by(word, directories, facts)):
            yield word, place
            continue
        if _is_wholly_unknown(word) and (place := _listed_whole(word, directories, facts)):
            yield word, place
            continue
        if word.has_glob and (place := next(_ruinous_matches(word, directories, facts), "")):
            yield word, place
            continue
        for target in (_emptied_target(word, base, facts) for base in directories):
            if target and (is_ruinous(target, facts) or is_unsettled(target, facts)):
                yield word, target
                break


def _is_wholly_unknown(word: Word) -> bool:
    return all(isinstance(part, Computed | Variable) for part in word.parts)


def _workspace_named_by(word: Word, directories: tuple[str, ...], facts: Facts) -> str:
    """The workspace, where `$(pwd)` is it, or a variable: `x=$PWD; rm -r $x`."""
    end = r"/*[\"']?(?=$|[\s;&|)])"
    if re.fullmatch(rf"[\"']?(?:{WORKING_DIRECTORY}){end}", word.source):
        return next((place for place in directories if is_ruinous(place, facts)), "")
    names = "|".join(re.findall(r"\$\{?(\w+)", word.source))
    places = "|".join((WORKING_DIRECTORY, *map(re.escape, facts.roots)))
    given = names and re.search(rf"(?<!\w)(?:{names})=[\"']?({places}){end}", facts.script.text)
    if not given:
        return ""
    place = given[1] if given[1].startswith("/") else facts.cwd
    return place if is_ruinous(place, facts) else ""


def _listed_whole(word: Word, directories: tuple[str, ...], facts: Facts) -> str:
    """The directory of which the word may be any file, if that is the workspace or the like; else empty."""
    # Imported here: few lines delete what they do not name.
    from pinfold.policy.piped_deletions import HOME, directories_listed

    found = directories_listed(word, facts.script.text)
    places = (facts.home if each == HOME else join(base, each) for each in found for base in directories)
    return next((place for place in map(facts.files.real, places) if is_ruinous(place, facts)), "")


def _ruinous_matches(word: Word, directories: tuple[str, ...], facts: Facts) -> Iterator[str]:
    """What a pattern matches on the way to the home or the workspace: `/home/[u]`. One that takes everything
    empties the directory it is in, which says more."""
    for base in directories:
        pattern = word.pattern(variables(base, facts)) or ""
        directory = re.split(r"[^/]*[*?\[(]", pattern, maxsplit=1)[0]
        if pattern and _takes_all(pattern[len(directory) :].split("/")):
            continue
        above = facts.files.real(join(base, directory))
        if any(above != place and contains(above, place) for place in (facts.home, *facts.roots)):
            found = facts.files.expand(join(base, pattern)) or ()
            yield from (place for place in found if is_ruinous(place, facts))


def _emptied_target(word: Word, base: str, facts: Facts) -> str:
    """Where the deletion would strike if everything unknown in the word were empty; empty if nowhere.

    Everything in a directory is as good as the directory, and so is any pattern in the home or the root.
    """
    target = word.emptied(variables(base, facts))
    if not target:
        return ""
    if is_own_process(join(base, target)):
        return base  # of all that `/proc/self` holds, the working directory is what can be lost
    steps = target.split("/")
    wild = next(
        (at for at, step in enumerate(steps) if word.has_glob and any(c in step for c in "*?[(")), None
    )
    if wild is None:
        return facts.files.real(join(base, target))
    directory = facts.files.real(join(base, "/".join(steps[:wild]) + "/" if wild else "."))
    if _takes_all(steps[wild:]) or directory in ("/", facts.home):
        return directory
    return join(directory, *steps[wild:])


def _takes_all(steps: list[str]) -> bool:
    """Whether these steps of a pattern match nearly every name."""
    return all(not re.sub(NEARLY_ANY_CHARACTER, "", step).strip("*.?[]!^{},()@+|") for step in steps)


def is_ruinous(target: str, facts: Facts) -> bool:
    """Whether deleting this path would be a catastrophe."""
    return (
        target.count("/") <= 1
        or contains(target, facts.home)
        or any(contains(target, root) for root in facts.roots)
    )


LINKS = "ln"
MOVES = frozenset({"mv", "rsync"})
UNPACKS = frozenset({"tar", "bsdtar", "cpio", "unzip", "unrar", "7z", "7za", "patch"})
COPIES_LINKS = frozenset({"-a", "-d", "-P", "-R", "-r", "-s", "--preserve"})
CHECKS_OUT = frozenset(
    {
        "am", "apply", "checkout", "cherry-pick", "clone", "merge", "pull", "read-tree", "rebase", "reset",
        "restore", "revert", "stash", "submodule", "switch", "worktree", "mv",
    }
)  # fmt: skip
IN_ANY_ORDER = r"\b(?:for|while|until|select|coproc|trap|function)\b|\(\s*\)|[|&]"
"""What may make a later command of a text run before or beside an earlier one, `&&` and `||` taken out."""


def unsettled_names(
    parts: tuple[Command, ...], facts: Facts, *, is_sandboxed: bool
) -> tuple[tuple[str, ...], ...]:
    """For each command of a line the names that other commands of it have changed by then.

    A decision uses the disk as it is before the line runs. After `ln -s .. x`, `x/f` is another file than the
    disk says, so the target of a path that another command of the line may have changed is unknown.

    Only programs whose files are judged one by one are examined. A program that is allowed with everything it
    does (`npm`, `make`) could read and write the same files anyway.

    Inside the sandbox only links count, which no line makes by the way: there only the workspace can be lost.
    """
    changed = [_names(part, facts) if not is_sandboxed or part.program == LINKS else () for part in parts]
    if not any(changed):
        return ((),) * len(parts)
    text = re.sub(r"&&|\|\|", "", facts.script.text)
    in_any_order = re.search(IN_ANY_ORDER, text) is not None or any(part.via for part in parts)
    return tuple(
        _united((*changed[:at], *(changed[at + 1 :] if in_any_order else ()))) for at in range(len(parts))
    )


def _united(changed: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in changed for name in names))


def _names(part: Command, facts: Facts) -> tuple[str, ...]:
    facts.deadline.require_time()
    return tuple(_changed(part, facts)) if _changes_names(part) else ()


def _changed(part: Command, facts: Facts) -> Iterator[str]:
    """Names that are others after this command; with a slash at the end, all that lies below one."""
    directories = working_directories(part, facts)
    if part.program != "mv" and not (part.writes and part.program in ("cp", LINKS, "rsync")):
        yield from (f"{base}/" for base in directories or ())
    moved = part.program == "mv"
    for word in (*part.writes, *part.deletes):
        real = real_paths(word, directories, facts)
        for place in (*(real or ()), *lexical_paths(word, directories, facts)):
            is_kept = facts.files.is_directory(place) and (not moved or word in part.writes[-1:])
            yield f"{place}/" if is_kept else place


def _changes_names(part: Command) -> bool:
    if part.program == "git":
        return bool(part.operands) and part.operands[0].literal in CHECKS_OUT
    if part.program == "cp":
        return bool(COPIES_LINKS & {*part.flags})
    if part.program in ("tar", "bsdtar"):
        return "-x" in part.flags
    return part.program == LINKS or part.program in MOVES | UNPACKS
