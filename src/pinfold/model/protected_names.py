"""Protected names: the rules, and the one matcher that both `policy` and a pen's warden use.

Plain tuples and the standard library alone: the warden has nothing else, and gets its rules as data.

Facts about spellings: macOS and Windows file systems fold case, and so do directories of ext4 and f2fs that
have `chattr +F`, which their owner may set. HFS+ ignores some code points (U+200C and the like); those
directories ignore all that Unicode calls default ignorable (fs/unicode). NTFS drops trailing dots and
spaces, reads `name::$STREAM` as the name, and gives `.git` the short name `git~1`. A name that is protected
under one spelling is protected under all.

Facts about git: the git directories of submodules lie in `.git/modules/NAME`, where NAME may have slashes and
modules of its own, those of linked worktrees in `.git/worktrees/NAME`. So what holds in a `.git` holds there.
A module may be called `a/refs/b`, and a path does not show where its name ends. The disk would, but commands
change that too: they can give `modules/a` a HEAD, and remove it again. So in `.git/modules` each directory
counts as a git directory, wherever it lies.

A caller asks about a directory, and the answer covers every name in it (`NameMatcher.children`): a warden
asks once for each directory, and a tree walk too. A rule has components, and so has the directory, counted
from where the rule may begin. If the directory's components begin with all of the rule's, the directory is
protected itself. If they are the first of the rule's, the rule's next component is a name in the directory on
the way to the protected one. Else the rule does not concern the directory. So a name in a directory is a
rule's next component, or the first of a rule that begins there. Rules differ only in where they may begin:

| rule | begins | kept in |
|---|---|---|
| `.vscode` | at any directory in a root | `named`, by its first component |
| with `top` | at a root | `at_top`, with those |
| `.m2/settings.xml`, in the root `~/.m2` | above that root | `begun` |
| `/etc/x` | at `/` | `fixed` |

`*.x`, as a rule's first component, means every name with that ending. It is stored as written (`key_in`).
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from pinfold.model.codes import ViolationCode

# Default_Ignorable_Code_Point, of Unicode's DerivedCoreProperties.txt: first and last of each range.
IGNORABLE = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)  # fmt: skip


@cache
def _passed_over() -> dict[int, None]:
    """The table for `str.translate`, built for the first name that is not ASCII: many processes see none."""
    return {code: None for first, last in IGNORABLE for code in range(first, last + 1)}


def folded(component: str) -> str:
    """One spelling for all that a file system might take for the same name."""
    # Most names are plain, and callers fold each name that a command creates.
    name = component.lower() if component.isascii() else component.translate(_passed_over()).casefold()
    name = name.partition(":")[0].rstrip(". ")
    return ".git" if name == "git~1" else name or component


def components(path: str) -> list[str]:
    return [folded(component) for component in path.split("/") if component not in ("", ".")]


def key_in(known: Container[str], name: str) -> str:
    """The key of a folded name: the name itself, or its ending (`*.x`) where that is a key."""
    if "." not in name or name in known:
        return name
    pattern = f"*{name[name.rindex('.') :]}"
    return pattern if pattern in known else name


GIT = ".git"
NESTS = ("modules", "worktrees")
"""Names of the directories in a git directory that hold further git directories."""
CONTENTS = frozenset(
    ("hooks", "config", "config.worktree", "info", "commondir", "gitdir", "objects", "refs", "logs", *NESTS)
)
"""Names in git's own directories that are no working tree."""
ALSO_OF_REFS = frozenset(("remotes", "branches", "safe"))
"""Names in a `.git` that references have too (`refs/remotes`): in modules they are taken for references."""


class SplitGitPath(NamedTuple):
    """The components of a path, with the git directories inside a git directory recognized."""

    parts: list[str]
    """The components; a linked worktree's git directory is one `.git`, those below modules are unchanged."""
    module: int | None = None
    """The index of the part from which on each directory may be a module's git directory; None outside."""
    is_nest: bool = False
    """Whether any further component would be the name of a git directory."""

    @property
    def is_git(self) -> bool:
        """Whether the path is that of a git directory, judged by its names."""
        return self.module is not None or self.parts[-1:] == [GIT]

    def ends(self, first: int = 0) -> range:
        """The indexes at which the name of a module may end, from `first` on."""
        if self.module is None:
            return range(0)
        return range(max(self.module, first), len(self.parts) + 1)


def split_git_path(parts: list[str]) -> SplitGitPath:
    found: list[str] = []
    at = 0
    while at < len(parts):
        part = parts[at]
        if part not in NESTS or found[-1:] != [GIT]:
            found.append(part)
            at += 1
        elif part == NESTS[0]:
            module = len(found) + 2 if at + 1 < len(parts) else None
            return SplitGitPath([*found, *parts[at:]], module, is_nest=True)
        elif at + 1 == len(parts):
            return SplitGitPath([*found, part], is_nest=True)
        else:
            at += 2
    return SplitGitPath(found)


class NameRule(NamedTuple):
    """A name that commands may not write; everything below it is protected with it."""

    name: str
    """One or more components; an absolute name is protected at that place alone."""
    why: str
    top: bool = False
    """Whether it is protected only directly in a root, instead of at any depth."""
    grantable: bool = True
    """Whether a person may grant a write."""
    except_for: tuple[str, ...] = ()
    """Names in it that this rule leaves out; for absolute rules."""
    is_git_writes: bool = False
    """Whether it protects a git directory as a whole, under any name, until git may write."""
    code: ViolationCode = ViolationCode.PROTECTED

    def plain(self) -> tuple[object, ...]:
        """A tuple of plain values for another process; `rule_from` reads it."""
        return (*self[:-1], self.code.value)


def rule_from(plain: tuple[Any, ...]) -> NameRule:
    return NameRule._make((*plain[:-1], ViolationCode(plain[-1])))


class Match(NamedTuple):
    """How a path relates to a rule."""

    rule: NameRule
    rest: tuple[str, ...] = ()
    """The rule's components below the path, folded. Empty: the path is the protected name or lies in it. Else
    it is a directory on the way: moving or replacing it would move the protected name too."""
    unless_file: bool = False
    """Whether the match does not count for a plain file of this name, since no path leads through a file."""


Matches = tuple[Match, ...]
Children = dict[str, Matches]
"""The matches of names in a directory, by their keys (`key_in`)."""
Placed = tuple[NameRule, tuple[str, ...]]
"""A rule, and the folded components at which it protects."""


class _ChildrenWithDefault(dict[str, Matches]):
    """Children in which every other name has the same matches."""

    def __init__(self, found: Children, others: Matches) -> None:
        super().__init__(found)
        self.others = others

    def get(self, name: str, default: object = None, /) -> Matches:  # noqa: ARG002  (there is no default)
        return self[name] if name in self else self.others  # noqa: SIM401  (which would ask us again)


class NameMatcher:
    """Matches names against rules in some roots. Paths are absolute and without `..`: callers resolve them.

    INVARIANT: neither it nor what it returns changes after it is made.
    """

    def __init__(self, rules: Iterable[NameRule], roots: Sequence[str]) -> None:
        self.roots = tuple(root.rstrip("/") for root in roots)
        self.fixed: list[Placed] = []
        self.named: dict[str, list[Placed]] = {}
        self.at_top: dict[str, list[Placed]] = {}
        for rule in rules:
            parts = tuple(components(rule.name))
            if rule.name.startswith("/"):
                self.fixed.append((rule, parts))
            elif parts:
                self.at_top.setdefault(parts[0], []).append((rule, parts))
                if not rule.top:
                    self.named.setdefault(parts[0], []).append((rule, parts))
        placed = (*self.fixed, *(each for found in self.at_top.values() for each in found))
        in_git = ((rule, parts[1:]) for rule, parts in self.named.get(GIT, ()))
        self.in_git = [(rule, parts) for rule, parts in in_git if ALSO_OF_REFS.isdisjoint(parts[:1])]
        self.deepest = max((len(parts) for _, parts in self.in_git), default=0)
        """How many components below a git directory decide whether a path has reached such a rule's name."""
        self.tails = frozenset(part for _, parts in placed for part in parts[1:])
        """Names that can become protected when their directory is moved."""
        self.endings = tuple(first[1:] for first in self.at_top if first.startswith("*."))
        self.begun = {root: begun for root in self.roots if (begun := list(self._begun_by(root)))}
        """Rules that begin above a root, with all components of the place that each protects."""
        self.anywhere = {first: _first_steps(found) for first, found in self.named.items()}
        """The matches of names in a directory above which no rule has begun."""
        self.anywhere_at_top = {first: _first_steps(found) for first, found in self.at_top.items()}

    def matches(self, path: str) -> Matches:
        """The matches of a path: one if it is protected, several if it is on the way to several names."""
        head, _, name = path.rstrip("/").rpartition("/")
        found = self.children(head or "/")
        return (found,) if isinstance(found, Match) else found.get(key_in(found, folded(name)), ())

    def children(self, directory: str) -> Match | Children:
        """The matches of the names in a directory; one match if the directory itself is protected."""
        next_steps: Children = {}
        first_steps: Children = {}
        is_nest = False
        for root in self.roots:
            if directory != root and not directory.startswith(f"{root}/"):
                continue
            below = split_git_path(components(directory[len(root) :]))
            is_nest = below.is_nest
            inside = self._below(below, next_steps)
            if root in self.begun and not inside:
                whole = split_git_path(components(directory))
                is_nest = is_nest or whole.is_nest
                inside = _steps(self.begun[root], whole.parts, next_steps)
                inside = inside or self._in_modules(whole, next_steps, split_git_path(components(root)))
            if inside:
                return inside
            first_steps = first_steps or self.anywhere if below.parts else self.anywhere_at_top
        closed, inside = self._at_place(directory, next_steps)
        if inside:
            return inside
        if closed:
            free: Children = dict.fromkeys(map(folded, closed.except_for), ())
            return _ChildrenWithDefault({**free, **next_steps}, (Match(closed),))
        children = _merged(next_steps, first_steps)
        if is_nest:
            others = (match._replace(unless_file=True) for match in self.anywhere.get(GIT, ()))
            return _ChildrenWithDefault(children, tuple(others))
        return children

    def _at_place(self, directory: str, next_steps: Children) -> tuple[NameRule | None, Match | None]:
        """The rule that protects this very directory except for some names, and the match if the directory
        lies in a protected one."""
        closed: NameRule | None = None
        given = components(directory) if self.fixed else []
        for rule, parts in self.fixed:
            if rule.except_for and tuple(given) == parts:
                closed = rule
            elif inside := _step(rule, parts, given, next_steps):
                return None, inside
        return closed, None

    def _begun_by(self, root: str) -> Iterator[Placed]:
        """Rules that a root is on the way to. A rule that the root lies in does not count: naming such a root
        in the settings opens it."""
        place = split_git_path(components(root))
        for start, component in enumerate(place.parts):
            yield from _left_of(self.named.get(component, ()), place.parts, start)
        for end in place.ends():
            yield from _left_of(self.in_git, place.parts, end)

    def _below(self, given: SplitGitPath, next_steps: Children) -> Match | None:
        """The rules whose first component is in the directory's own path."""
        for start, component in enumerate(given.parts):
            placed = self.named if start else self.at_top
            key = key_in(placed, component)
            if inside := _steps(placed.get(key, ()), [key, *given.parts[start + 1 :]], next_steps):
                return inside
        return self._in_modules(given, next_steps)

    def _in_modules(
        self, given: SplitGitPath, next_steps: Children, beyond: SplitGitPath | None = None
    ) -> Match | None:
        """Matches the rules about git directories at each index where the name of a module may end. If a root
        lies in a module, only indexes beyond that root count."""
        for end in given.ends(len(beyond.parts) + 1 if beyond else 0):
            if inside := _steps(self.in_git, given.parts[end : end + self.deepest], next_steps):
                return inside
        return None


@lru_cache(maxsize=2)  # a warden has two
def matcher_of(rules: tuple[NameRule, ...], roots: tuple[str, ...]) -> NameMatcher:
    """The matcher of these rules and roots, from a cache of two. Building it takes time: a warden that will
    need it soon builds it early."""
    return NameMatcher(rules, roots)


def _steps(rules: Iterable[Placed], given: list[str], next_steps: Children) -> Match | None:
    for rule, parts in rules:
        if inside := _step(rule, parts, given, next_steps):
            return inside
    return None


def _left_of(rules: Iterable[Placed], place: list[str], start: int) -> Iterator[Placed]:
    """Rules that begin in a place, and whose names lie below it."""
    taken = len(place) - start
    for rule, parts in rules:
        if taken < len(parts) and parts[:taken] == tuple(place[start:]):
            yield rule, (*place, *parts[taken:])


def _step(rule: NameRule, parts: tuple[str, ...], given: list[str], next_steps: Children) -> Match | None:
    """Adds the next component of a rule to `next_steps`; returns a match if the rule's name is reached."""
    taken = len(given)
    if taken >= len(parts):
        left_out = taken > len(parts) and given[len(parts)] in map(folded, rule.except_for)
        return Match(rule) if tuple(given[: len(parts)]) == parts and not left_out else None
    if tuple(given) == parts[:taken]:
        following = parts[taken]
        known = next_steps.get(following, ())
        next_steps[following] = _strictest((*known, Match(rule, parts[taken + 1 :])))
    return None


def _first_steps(rules: list[Placed]) -> Matches:
    return _strictest(tuple(Match(rule, parts[1:]) for rule, parts in rules))


def _merged(next_steps: Children, first_steps: Children) -> Children:
    if not next_steps:
        return first_steps
    both: Children = {}
    for name, found in next_steps.items():
        both[name] = _strictest((*found, *first_steps.get(key_in(first_steps, name), ())))
    return {**first_steps, **both}


def reached(matches: Iterable[Match]) -> Match | None:
    """The first match whose path is protected itself, and not only on the way to a protected name."""
    return next((match for match in matches if not match.rest), None)


def _strictest(matches: Matches) -> Matches:
    """The match that protects the name itself, if there is one; else all matches."""
    whole = reached(matches)
    return (whole,) if whole else matches
