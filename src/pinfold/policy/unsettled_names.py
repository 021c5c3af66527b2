"""Names of which the line itself changes what they are: by links, moves and unpacked trees. Pure.

A decision is made by the disk as it is before the line runs. After `ln -s .. x`, `x/f` is another file than
the disk says. So where a path leads that another command of the line may have changed is not known.

Only programs whose files are judged one by one are looked at. One that is allowed with whatever it does
(`npm`, `make`) might read and write the same by itself.
"""

import re
from collections.abc import Iterator

from pinfold.model.facts import Facts
from pinfold.model.script import Command
from pinfold.policy.operand_paths import bases, leads_to, written_places

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
    parts: tuple[Command, ...], facts: Facts, *, is_fenced: bool
) -> tuple[tuple[str, ...], ...]:
    """For each command of a line the names that others have changed by then.

    Inside the sandbox only links count, which no line makes by the way: there only the workspace can be lost.
    """
    changed = [_names(part, facts) if not is_fenced or part.program == LINKS else () for part in parts]
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
    directories = bases(part, facts)
    if part.program != "mv" and not (part.writes and part.program in ("cp", LINKS, "rsync")):
        yield from (f"{base}/" for base in directories or ())
    moved = part.program == "mv"
    for word in (*part.writes, *part.deletes):
        real = leads_to(word, directories, facts)
        for place in (*(real or ()), *written_places(word, directories, facts)):
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
