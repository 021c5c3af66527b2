"""What a command that runs outside the sandbox would touch, judged by name.

In the sandbox none of this is asked: there the kernel knows the paths, and here we only guess them
from words. So every doubt is a reason to ask.
"""

import re
from collections.abc import Iterator
from functools import partial
from posixpath import basename, dirname

from pinfold.model.decision import Reason, StepCode, Verdict
from pinfold.model.facts import Facts
from pinfold.model.git_repositories import (
    COMPLETED_BY,
    completes,
    is_git_by_name,
    is_repository,
    lacks_only_head,
)
from pinfold.model.protected_names import GIT, NameMatcher, NameRule, folded
from pinfold.model.script import Command, Text, Trait, Word
from pinfold.model.settings import Settings
from pinfold.model.text_positions import Span
from pinfold.policy.command_context import CommandContext
from pinfold.policy.hidden_paths import hidden_by, is_pattern
from pinfold.policy.operand_paths import (
    in_workspace,
    is_dotfile,
    lexical_paths,
    real_paths,
    variables,
    working_directories,
    writable_roots,
)
from pinfold.policy.paths import contains, is_covered
from pinfold.policy.rules import is_sink
from pinfold.policy.shipped_protected import GIT_BLOCKED, protected_by, why_protected

Directories = tuple[str, ...] | None
PROCESSES = "/proc"
GIT_PROGRAM = "git"
REPOSITORY_ENDS = ("", "/.git", ".git", ".git/.git")
"""What git tries behind the path of a repository."""
INSIDE = "run it in the sandbox"
BETWEEN_PATHS = r"[=:@,;'\"()\[\]{}<>|&\s]+"
WINDOWS_PATHS = ("\\\\", "\\?", "//?/", "//./")


def file_protections(context: CommandContext) -> Iterator[Reason]:
    """Every reason to ask about the files the line would touch."""
    for part in context.script.commands:
        context.facts.deadline.require_time()
        # git writes links as links, and does not read through them.
        facts = context.facts if part.program == GIT_PROGRAM else context.facts_for(part)
        directories = working_directories(part, facts)
        yield from _writes(part, directories, context, facts)
        yield from _reads(part, directories, facts)
        yield from _mentions(part, directories, facts)
        yield from _may_write(part, directories, facts)
        if part.program == GIT_PROGRAM and [word.literal for word in part.operands[:1]] == ["push"]:
            yield from _pushes(part, directories, facts)


def _writes(
    part: Command, directories: Directories, context: CommandContext, facts: Facts
) -> Iterator[Reason]:
    redirected = [redirection.target for redirection in part.redirections if redirection.writes]
    for word in (*redirected, *part.writes, *part.deletes):
        if is_sink(word):
            continue
        facts.deadline.require_time()
        paths = real_paths(word, directories, facts)
        if paths is None:
            yield _ask(f"the path of `{word.source}` is unknown, and it would be written", word.span)
            continue
        for path in (*paths, *_copies(part, paths, directories, facts)):
            if reason := write_objection(path, context.settings, facts, word.span):
                yield reason
                break


def _copies(part: Command, paths: tuple[str, ...], directories: Directories, facts: Facts) -> Iterator[str]:
    """What a program writes into directories under names that matter: `cp x/.envrc .`"""
    targets = [path for path in paths if facts.files.is_directory(path)]
    if Trait.KEEPS_NAMES not in part.traits or not targets:
        return
    roots = writable_roots(facts)
    for word in part.reads:
        facts.deadline.require_time()
        found = lexical_paths(word, directories, facts)
        if word.has_glob:
            found = real_paths(word, directories, facts) or ()
        for name in dict.fromkeys(basename(path).rpartition(":")[2] for path in found):
            is_odd = name.startswith(".") or folded(name) in COMPLETED_BY
            copies = [f"{target}/{name}" for target in targets]
            # A pattern may find thousands of names, and nearly all of them matter nowhere.
            yield from (
                copy for copy in copies if is_odd or protected_by(copy, roots, facts.policy.protected)
            )


def write_objection(
    path: str, settings: Settings, facts: Facts, span: Span | None = None, *, is_file: bool = False
) -> Reason | None:
    """Why a person should see a write to this path (absolute, links followed), if there is a reason."""
    if pattern := hidden_by(path, facts.policy, facts.roots):
        return _hidden(path, pattern, span)
    if name := protected_by(path, writable_roots(facts), facts.policy.protected, is_file=is_file):
        return _ask(
            f"{path} is protected: {why_protected(name.name, name.why, name.code, facts.own)}", span, path
        )
    if message := _repository_objection(path, facts) or _git_objection(path, facts):
        return _ask(message, span, path)
    if facts.policy.block_git_writes and (git := _git_directory_around(path, facts)):
        return _ask(f"{path} lies in {git}, and {GIT_BLOCKED}", span, path, "filesystem.git_writes", settings)
    if settings.protect.outside_workspace and not in_workspace(path, facts):
        return _ask(f"{path} is outside the workspace", span, path, "protect.outside_workspace", settings)
    if settings.protect.dotfiles and is_dotfile(path, facts):
        return _ask(f"{path} is a dotfile", span, path, "protect.dotfiles", settings)
    return None


def _repository_objection(path: str, facts: Facts) -> str | None:
    """What is to be said of a write by which git would run something, though no name of it is protected."""
    roots = writable_roots(facts)
    below = path
    while is_covered(above := dirname(below), roots) and above != below and not is_git_by_name(above):
        there = partial(_is_in, above, facts)
        is_one = is_repository(there)
        if is_one or lacks_only_head(there):
            inside = f"{above}/{GIT}{path[len(above) :]}"
            if name := protected_by(inside, roots, facts.policy.protected):
                return f"{path} is protected in a git repository, which {above} is: {name.why}"
        if not is_one and completes(folded(basename(below)), there):
            return (
                f"{path} would make {above} a git repository, and git runs programs that a repository names"
            )
        below = above
    return None


def _git_objection(path: str, facts: Facts) -> str | None:
    """What is to be said of a write to what git's configuration makes it run or include, and its like."""
    places = facts.obeyed_elsewhere()
    for place, why in places.items():
        if place.startswith("/") and (contains(place, path) or contains(path, place)):
            return f"{path} is protected: {why}"
    names = [NameRule(name, why) for name, why in places.items() if not name.startswith("/")]
    found = NameMatcher(names, writable_roots(facts)).matches(path) if names else ()
    return f"{path} is protected: {found[0].rule.why}" if found else None


def _git_directory_around(path: str, facts: Facts) -> str | None:
    """The git directory that a path lies in, under any name; none if a working tree is between."""
    roots = writable_roots(facts)
    below = path
    while is_covered(above := dirname(below), roots) and above != below:
        there = partial(_is_in, above, facts)
        if is_git_by_name(above) or is_repository(there):
            return above
        if there(GIT):
            return None
        below = above
    return None


def _is_in(directory: str, facts: Facts, name: str) -> bool:
    return facts.files.is_there(f"{directory}/{name}")


def _reads(part: Command, directories: Directories, facts: Facts) -> Iterator[Reason]:
    redirected = [redirection.target for redirection in part.redirections if redirection.reads]
    for word in (*redirected, *part.reads):
        facts.deadline.require_time()
        paths = real_paths(word, directories, facts)
        if paths is None:
            yield _ask(f"the path of `{word.source}` is unknown, and it may be hidden", word.span)
            continue
        for path in paths:
            if pattern := hidden_by(path, facts.policy, facts.roots):
                yield _hidden(path, pattern, word.span)
            elif part.reads_below and contains(path, PROCESSES):
                yield _ask(
                    f"it reads all of {path}, where {PROCESSES} shows what processes hold in memory",
                    word.span,
                    path,
                )
            elif part.reads_below and (pattern := hides_something_below(path, facts)):
                yield _ask(f"it reads all of {path}, where `{pattern}` is hidden", word.span, path)
            elif part.reads_below and part.follows_links and (message := _hidden_behind_links(path, facts)):
                yield _ask(message, word.span, path)


def _hidden_behind_links(path: str, facts: Facts) -> str | None:
    """A hidden path that a program would read which follows all links in a directory, if there is one."""
    if not facts.files.is_directory(path):
        return None
    ends = facts.files.links_below(path)
    if ends is None:
        return f"it follows all links in {path}, which are too many to look at"
    for end in ends:
        pattern = hidden_by(end, facts.policy, facts.roots) or hides_something_below(end, facts)
        if pattern or contains(end, PROCESSES) or contains(PROCESSES, end):
            return f"it follows a link in {path} to {end}, where `{pattern or PROCESSES}` is out of sight"
    return None


def hides_something_below(path: str, facts: Facts) -> str | None:
    """What is hidden in a directory, if anything is."""
    if not facts.files.is_directory(path):
        return None
    if found := next((each for each in facts.policy.env_files if contains(path, each)), None):
        return found
    for entry in facts.policy.hidden:
        places = facts.roots if is_pattern(entry) else (entry.partition("*")[0],)
        if any(contains(path, place) or (is_pattern(entry) and contains(place, path)) for place in places):
            return entry
    for directory in facts.policy.ignore_mapping:
        if contains(directory, path) or contains(path, directory):
            return f"what an ignore file in {directory} names"
    return None


def _pushes(part: Command, directories: Directories, facts: Facts) -> Iterator[Reason]:
    """A push into a repository of this machine runs the hooks there, even hooks that a command has made."""
    for word in part.operands[1:2]:
        paths = real_paths(_plain_path(word), directories, facts)
        if paths is None:
            yield _ask(f"the repository `{word.source}` is unknown, and its hooks may run", word.span)
        for place in (f"{path}{end}" for path in paths or () for end in REPOSITORY_ENDS):
            if facts.files.is_there(f"{place}/HEAD"):
                yield _ask(f"it pushes into {place}, whose hooks would run", word.span, place)
                break


def _plain_path(word: Word) -> Word:
    """Git takes `file:///x` for a path."""
    path = (word.literal or "").removeprefix("file://")
    return word if path == word.literal or not path else Word(word.source, word.span, (Text(path),))


def _mentions(part: Command, directories: Directories, facts: Facts) -> Iterator[Reason]:
    """A hidden path named anywhere in a command, in any option or form (`@f`, `--x=f`, `rev:f`)."""
    if Trait.TEXT_ONLY in part.traits or directories is None:
        return
    # What braces make has one source.
    for word in {f"{word.source} {word.parts}": word for word in part.words[1:]}.values():
        if word.source.startswith(WINDOWS_PATHS):
            yield _ask(f"`{word.source}` is a device or network path to Windows", word.span)
        facts.deadline.require_time()
        for path in _named_by(word, part, directories, facts):
            if pattern := hidden_by(path, facts.policy, facts.roots):
                yield _ask(f"it names {path}, which is hidden by `{pattern}`", word.span, path)
                return


def _may_write(part: Command, directories: Directories, facts: Facts) -> Iterator[Reason]:
    """A protected path in a word of which no chart says what it is: `x --report=.envrc`."""
    if Trait.TEXT_ONLY in part.traits or directories is None:
        return
    for word in dict.fromkeys(part.unexplained):
        facts.deadline.require_time()
        for path in _named_by(word, part, directories, facts):
            name = protected_by(path, writable_roots(facts), facts.policy.protected)
            why = why_protected(name.name, name.why, name.code, facts.own) if name else ""
            if name:
                yield _ask(f"it names {path}, which is protected: {why}", word.span, path)
                return


def _named_by(word: Word, part: Command, directories: tuple[str, ...], facts: Facts) -> Iterator[str]:
    """The real paths that a program might take a word for, as far as the shell's part in it is known."""
    for base in directories:
        text = word.known(variables(base, facts))
        for piece in dict.fromkeys(_pieces(text)) if text else ():
            yield facts.files.real(piece if piece.startswith("/") else f"{base}/{piece}")
    if word.has_glob and word not in part.reads:
        yield from real_paths(word, directories, facts) or ()


def _pieces(text: str) -> Iterator[str]:
    """What may be taken for a path: `--x=f`, `rev:f`, `@f`, `file://f`, `-If`, `a=f,b=g`, `x("f")`."""
    yield text
    for at, character in enumerate(text):
        if character in "=:@" and at + 1 < len(text):
            yield text[at + 1 :].removeprefix("//")
    if text.startswith("-") and len(text) > 2:
        yield text[2:]
    if text.count("/") > 1:
        yield from (piece for piece in re.split(BETWEEN_PATHS, text) if "/" in piece)


def _hidden(path: str, pattern: str, span: Span | None) -> Reason:
    return Reason(
        StepCode.UNFENCED_FILES,
        f"{path} is hidden by `{pattern}`",
        Verdict.ASK,
        rule=pattern,
        span=span,
        remedy=INSIDE,
        arguments=(path,),
    )


def _ask(
    message: str, span: Span | None, path: str = "", setting: str = "", settings: Settings | None = None
) -> Reason:
    return Reason(
        StepCode.UNFENCED_FILES,
        message,
        Verdict.ASK,
        rule=setting,
        origin=settings.origin(setting) if settings and setting else None,
        span=span,
        remedy=f"change `{setting}`, or {INSIDE}" if setting else INSIDE,
        arguments=(path,) if path else (),
    )
