"""In which directories the commands of a line may run: what `cd`, `pushd` and the like change.

A way is a list of directories that the shell changed into one after another. Pure: a set of ways goes in, the
sets of ways after success and after failure come out. `None` is "anywhere".
"""

from collections.abc import Sequence

from msgspec import Struct

from pinfold.model.script import Computed, Glob, Home, Word
from pinfold.model.text_positions import Span
from pinfold.shell.findings import LineFacts, Places

MAX_WAYS = 4
_FORGETS = frozenset(("pushd", "popd", "dirs", "eval", "source", ".", "shopt", "trap"))
"""Commands after which the directory may be any, if the line changes the directory at all."""
_HOME = Word("~", Span(0, 0), (Home(),))
MOVERS = frozenset(("cd", "pushd", "popd", "source", "."))


class After(Struct, frozen=True):
    """The ways after a command succeeded, and after it failed."""

    ok: Places
    bad: Places

    @property
    def either(self) -> Places:
        return unite(self.ok, self.bad)


def unite(*sets: Places) -> Places:
    ways: list[tuple[Word, ...]] = []
    for places in sets:
        if places is None:
            return None
        ways.extend(way for way in places if way not in ways)
    return tuple(ways) if len(ways) <= MAX_WAYS else None


def stays(places: Places) -> After:
    return After(places, places)


def anywhere(facts: LineFacts, places: Places) -> Places:
    """Where a text runs that may run at any time: a function's body, a trap."""
    return None if facts.changes_directory else places


def after_command(words: Sequence[Word], places: Places, facts: LineFacts) -> After:
    """The ways after a simple command."""
    words = without_prefix(words)
    if not words:
        return stays(places)
    name = words[0].literal
    if name is None:
        return stays(places if words[0].file_name else None)  # a file is none of the shell's own commands
    if name in facts.defined or name in _FORGETS:
        return stays(anywhere(facts, places))
    if name in ("exit", "return"):
        return stays(())
    if name == "cd":
        return After(_moved(words[1:], places, facts), places)
    return stays(places)


def without_prefix(words: Sequence[Word]) -> Sequence[Word]:
    """The words after `command` and `builtin`, which run the shell's own commands too."""
    while words and words[0].literal in ("command", "builtin"):
        words = words[1:]
        while words and words[0].literal in ("-p", "--"):
            words = words[1:]
    return words


def _moved(words: Sequence[Word], places: Places, facts: LineFacts) -> Places:
    operands = list(words)
    while operands and operands[0].literal in ("-L", "-P", "-e", "-@"):
        operands.pop(0)
    if operands and operands[0].literal == "--":
        operands.pop(0)
    if places is None or len(operands) > 1:
        return None
    if not operands:
        if facts.is_assigned("HOME"):
            return None
        operands = [_HOME]
    target = operands[0]
    if any(isinstance(part, Glob | Computed) for part in target.parts) or target.start.startswith("-"):
        return None
    if facts.is_assigned("CDPATH") and not target.start.startswith(("/", "./", "../")):
        return None
    return unite(tuple((*way, target) for way in places))
