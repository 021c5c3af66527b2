"""What a command reads, writes and deletes, and what makes it do more than its name says.

This module turns sorted words and a chart into the fields of a `Command`. It knows no program by name and
starts nothing. `unwrap` finds commands inside a command.

For a program without a chart, `flags` holds each cluster whole and its letters (`-rf`: `-rf -r -f`), and
`operands` every word that is no option. Which options take a value is unknown, so the trait UNCHARTED tells
policy that a word right after an option may be a value. A charted program with an option that its chart does
not list has that trait too.
"""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from pinfold.model.script import (
    Command,
    Computed,
    Glob,
    Hazard,
    Text,
    Trait,
    Word,
    drop_start,
    known_text,
    literal_word,
)
from pinfold.model.text_positions import Span
from pinfold.shell.canonical_names import FORMS
from pinfold.shell.options import CommandStage, GivenOption
from pinfold.shell.placeholders import is_narrowed, some_of
from pinfold.shell.programs import Chart
from pinfold.shell.variables import assignment_hazards

ROLES = frozenset(
    {
        "reads",
        "writes",
        "deletes",
        "object",
        "text",
        "script",
        "hazard",
        "directory",
        "placeholder",
        "empties",
        "moves",
        "named",
        *FORMS,
    }
)


# Pathspecs that are patterns or have magic, and those that lead out of the directory.
PATTERN = r"[*?\[]|^:[(/!^]"
OUTSIDE = r"[/~]|\.\.(/|$)|.*/\.\.(/|$)"


class _EffectCollector:
    """Collects the effects of a command."""

    def __init__(self) -> None:
        self.reads: list[Word] = []
        self.writes: list[Word] = []
        self.deletes: list[Word] = []
        self.hazards: list[Hazard] = []
        self.directories: list[Word] = []
        self.below = False
        self.code: list[Word] = []

    def add(self, roles: str, word: Word, chart: Chart, option: str = "") -> None:
        """Adds a word that has these roles."""
        for role in roles.split():
            match role:
                case "reads" if word.literal != "-":
                    self.reads.append(word)
                case "writes":
                    self.writes.append(word)
                case "deletes":
                    self.deletes.append(word)
                case "moves":
                    # The directory of a pattern is still there after its files moved; a moved path is gone.
                    (self.writes if word.has_glob else self.deletes).append(word)
                case "named":
                    self.writes.append(_last_name(word))
                case "object":
                    self._object(word)
                case "directory":
                    self.directories.append(word)
                case "script":
                    self._script(word, chart, option)
                case "hazard":
                    self.hazards.append(Hazard(chart.program.operands.why, word.span, option))

    def _object(self, word: Word) -> None:
        """Adds an object of git: `HEAD:path`, `:path`, or a plain path, of which git may show the file.

        Facts about git: a path is a pattern, in which `*` matches `/` too, and after `:` it may begin with
        magic. A path out of the repository means --no-index, and then directories are read.
        """
        if re.search(PATTERN, word.literal or ""):
            self.below = True
            self.reads.append(literal_word(".", word.span))
        self.below = self.below or bool(re.match(OUTSIDE, word.literal or ""))
        if ":" in word.start:
            self.reads.append(drop_start(word, word.start.rindex(":") + 1))
        elif word.literal is not None:
            self.reads.append(word)

    def _script(self, word: Word, chart: Chart, option: str) -> None:
        text = word.literal
        safe, unsafe = chart.program.script_safe, chart.program.script_unsafe
        if text is None:
            why = "its script is only known when the line runs"
        elif (safe and not _is_made_of(safe, text)) or (unsafe and re.search(unsafe, text)):
            why = f"the script `{_short(text)}` may run or write something else"
        else:
            return
        self.hazards.append(Hazard(why, word.span, option))
        if text is not None and (runs := chart.program.script_runs) and re.search(runs, text):
            self.code.append(word)


def complete(command: Command, name: str, stages: tuple[CommandStage, ...]) -> Command:
    """The command with all effects that its charts describe."""
    found = _EffectCollector()
    flags: dict[str, None] = {}
    below = follows = False
    makes: list[str] = []
    for stage in stages:
        below = below or stage.chart.program.below
        follows = follows or stage.chart.program.follows
        _own_hazard(found, stage, command)
        for given in stage.arguments.given:
            if given.name not in stage.chart.program.ignored:
                flags.update(dict.fromkeys(given.names))
            below = below or _reads_below(given)
            follows = follows or given.option.follows
            makes.append(given.option.makes)
            _option(found, given, stage.chart)
            if given.option.only_alone and stage.arguments.operands:
                found.hazards.append(Hazard(given.option.only_alone, given.word.span))
        flags.update(dict.fromkeys(stage.implied))
        _doubts(found, stage)
    last = stages[-1]
    _operands(found, last, " ".join(makes), command.words[0].span)
    unexplained = (word for stage in stages for word in _unexplained(stage, is_last=stage is last))
    names = tuple(_subcommand_word(stage) for stage in stages[:-1])
    below = (below or found.below) and bool(found.reads)
    return replace(
        command,
        directories=directories_after(command.directories, found.directories),
        program=name,
        flags=tuple(flags),
        operands=names + last.arguments.operands,
        reads=command.reads + tuple(found.reads),
        reads_below=command.reads_below or below,
        follows_links=command.follows_links or follows,
        writes=command.writes + tuple(found.writes),
        deletes=command.deletes + tuple(found.deletes),
        unexplained=command.unexplained + tuple(unexplained),
        hazards=_unique((*command.hazards, *assignment_hazards(command.assignments), *found.hazards)),
        traits=command.traits | _traits(stages),
    )


def _unexplained(stage: CommandStage, *, is_last: bool) -> Iterator[Word]:
    """The words of a stage of which its chart does not say what they are."""
    program = stage.chart.program
    for given in stage.arguments.given:
        if not given.listed:
            yield given.word
            yield from () if given.value is None or given.value is given.word else (given.value,)
    is_command = program.runs is not None or program.closed or program.operands.keys
    if not is_last or is_command or program.operands.rest:
        return
    told = bool(program.operands.first) + bool(program.operands.second)
    yield from stage.arguments.operands[told:]


def _last_name(address: Word) -> Word:
    """The name that a program gives to what it fetches from an address."""
    if not all(isinstance(part, Text | Glob) for part in address.parts):
        return address
    from urllib.parse import unquote  # few programs fetch files

    text = address.emptied({})
    path = re.sub(r"(?s)[?#].*", "", text.partition("://")[2] or text)
    name = unquote(path.rpartition("/")[2]) if "/" in path else ""
    return literal_word(name or "index.html", address.span)


def running_scripts(stage: CommandStage) -> tuple[Word, ...]:
    """The scripts among a program's words that may run anything."""
    if not stage.chart.program.script_runs:
        return ()
    found = _EffectCollector()
    for given in stage.arguments.given:
        _option(found, given, stage.chart)
    _operands(found, stage, "", Span(0, 0))
    return tuple(found.code)


def uncharted(command: Command, name: str) -> Command:
    """The command with flags and operands as far as they are known without a chart."""
    flags: dict[str, None] = {}
    operands: list[Word] = []
    rest = list(command.words[1:])
    while rest:
        word = rest.pop(0)
        start = word.start
        if word.literal == "--":
            operands += rest
            break
        if not start.startswith("-") or word.literal == "-":
            operands.append(word)
            continue
        flag = start.partition("=")[0]
        flags[flag] = None
        if not flag.startswith("--"):
            flags.update(dict.fromkeys("-" + letter for letter in flag[1:]))
    return replace(
        command,
        program=name,
        flags=tuple(flags),
        operands=tuple(operands),
        unexplained=command.unexplained + command.words[1:],
        hazards=_unique((*command.hazards, *assignment_hazards(command.assignments))),
        traits=command.traits | {Trait.UNCHARTED},
    )


def directories_after(
    ways: tuple[tuple[Word, ...], ...] | None, steps: list[Word]
) -> tuple[tuple[Word, ...], ...] | None:
    """The directories after changing into each of `steps`."""
    return ways if ways is None else tuple(way + tuple(steps) for way in ways)


def _own_hazard(found: _EffectCollector, stage: CommandStage, command: Command) -> None:
    if stage.chart.program.hazard:
        found.hazards.append(Hazard(stage.chart.program.hazard, command.span, stage.chart.name))


def _option(found: _EffectCollector, given: GivenOption, chart: Chart) -> None:
    option = given.option
    if not given.listed and chart.program.closed:
        why = f"`{given.name}` is not among the options known to be harmless"
        found.hazards.append(Hazard(why, given.word.span, given.name))
    if option.hazard and not _is_safe_value(given):
        found.hazards.append(Hazard(option.hazard, given.word.span, given.name))
    if given.value is not None and option.role:
        found.add(option.role, given.value, chart, given.name)


def _subcommand_word(stage: CommandStage) -> Word:
    """The word of the subcommand; unknown where the name may be a user's alias for any other."""
    word = stage.arguments.operands[0]
    if stage.chart.program.aliasing and stage.chart.child(word.literal or "") is None:
        return Word(word.source, word.span, (Computed("an alias", quoted=True),))
    return word


def _reads_below(given: GivenOption) -> bool:
    return given.option.below and not _is_safe_value(given)


def _is_made_of(step: str, text: str) -> bool:
    """Whether a script is a sequence of such steps and nothing else."""
    pattern, at = re.compile(step), 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None or match.end() == at:
            return False
        at = match.end()
    return True


def _is_safe_value(given: GivenOption) -> bool:
    text = given.value.literal if given.value is not None else None
    return bool(given.option.safe and text is not None and re.fullmatch(given.option.safe, text))


def _doubts(found: _EffectCollector, stage: CommandStage) -> None:
    if stage.chart.risky:
        why = f"may expand to an option such as `{stage.chart.risky}`"
        found.hazards += [Hazard(why, word.span) for word in stage.arguments.doubts]


def _operands(found: _EffectCollector, stage: CommandStage, makes: str, span: Span) -> None:
    chart = stage.chart
    table = chart.program.operands
    taken = {given.option.takes for given in stage.arguments.given}
    words = list(stage.arguments.operands)
    if table.unsafe:
        found.hazards += [
            Hazard(table.why, word.span) for word in words if re.search(table.unsafe, known_text(word))
        ]
    if table.keys:
        for word in words:
            key, equals, _ = word.start.partition("=")
            if equals and key in table.keys:
                found.add(table.keys[key], _after_equals(word), chart)
        return
    if words and table.first and "first" not in taken:
        found.add(table.first, words.pop(0), chart)
    if words and table.last_default and "last" not in taken and len(stage.arguments.operands) == 1:
        found.add(table.last, literal_word(table.last_default, span), chart)
    if words and table.last and "last" not in taken and len(stage.arguments.operands) > 1:
        # `rsync --delete` takes from its destination what the source does not have.
        emptied = " deletes" if "empties" in makes.split() else ""
        found.add(table.last + emptied, words.pop(), chart)
    if len(words) > 1 and table.second:
        found.add(table.second, words.pop(1), chart)
    below = any(_reads_below(given) for given in stage.arguments.given)
    if (table.default or below) and all(word.may_vanish for word in words):
        # `grep -r x` and the like walk the working directory; so does `grep -r x $Y` if Y is empty.
        words.append(literal_word(table.default or ".", span))
    if table.besides and not makes.strip() and not (words and all(":" in word.start for word in words)):
        words.append(literal_word(table.besides, span))
        found.below = True
    narrowed = is_narrowed(stage)
    for word in words:
        acted_on = some_of(word) if narrowed else word
        found.add(table.rest, acted_on if "deletes" in table.rest.split() else word, chart)
        found.add(makes, acted_on, chart)


def _after_equals(word: Word) -> Word:
    return drop_start(word, word.start.index("=") + 1)


def _traits(stages: tuple[CommandStage, ...]) -> frozenset[Trait]:
    traits = {trait for stage in stages for trait in stage.chart.program.traits}
    changes = any(stage.chart.program.changes_pinfold for stage in stages) or any(
        given.option.changes_pinfold and not _is_safe_value(given)
        for stage in stages
        for given in stage.arguments.given
    )
    if changes:
        traits.add(Trait.CHANGES_PINFOLD)
    if any(not given.listed and given.value is None for stage in stages for given in stage.arguments.given):
        # The word after an option that no chart lists may be its value, so the operands are not certain.
        traits.add(Trait.UNCHARTED)
    has_stranger = any(
        stage.chart.has_subcommands and stage.chart.child(stage.arguments.operands[0].literal or "") is None
        for stage in stages[:-1]
    )
    if has_stranger or any(not given.listed for stage in stages for given in stage.arguments.given):
        # A plug-in, an alias or a script; an option that no chart lists may say what is run.
        traits.add(Trait.PASSES_ON)
    if any(stage.chart.program.runs and stage.chart.program.runs.stdin == "script" for stage in stages):
        traits.add(Trait.RUNS_CODE)
    return frozenset(traits)


def _unique(hazards: tuple[Hazard, ...]) -> tuple[Hazard, ...]:
    return tuple(dict.fromkeys(hazards))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
