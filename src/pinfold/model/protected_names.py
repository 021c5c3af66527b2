"""Protected names: the rules, and the one matcher that both `policy` and a pen's warden ask.

Plain tuples and the standard library alone: the warden has nothing else, and gets its rules as data.

Facts about spellings: macOS and Windows file systems fold case, and so do directories of ext4 and f2fs that
have `chattr +F`, which their owner may give them; HFS+ passes over some code points (U+200C and its kin),
those directories over all that Unicode calls default ignorable (fs/unicode); NTFS drops trailing dots and
spaces, reads `name::$STREAM` as the name, and gives `.git` the short name `git~1`. A name that is protected
under one spelling is protected under all.

Facts about git: the git directories of submodules lie in `.git/modules/NAME`, where NAME may have slashes and
modules of its own, those of linked worktrees in `.git/worktrees/NAME`. So what holds in a `.git` holds there.
A module may be called `a/refs/b`, and no path tells where its name ends. The disk would, but commands change
that too: they can give `modules/a` a HEAD, and take it away again. So in `.git/modules` each directory counts
as a git directory, whatever lies above it.

What is asked is always a directory, and the answer is about every name in it (`NameMatcher.children`): a
warden asks once for each directory, and a walk too. A rule has components, and so has the directory, counted
from where the rule may begin. If the directory's begin with all of the rule's, it is protected itself. If
they are the first of the rule's, the next one is a name in it that is on the way. Else they have nothing to
do with each other. So a name in it is a rule's next step, or the first of one that begins there. Rules differ
only in where they may begin:

| rule | begins | kept in |
|---|---|---|
| `.vscode` | at any directory in a root | `named`, by its first component |
| with `top` | at a root | `at_top`, with those |
| `.m2/settings.xml`, in the root `~/.m2` | above that root | `begun` |
| `/etc/x` | at `/` | `fixed` |

`*.x`, as a rule's first component, means every name that ends so. It is kept as it is written (`key_in`).
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
    """For `str.translate`. Made for the first name that is not ASCII: many processes see none."""
    return {code: None for first, last in IGNORABLE for code in range(first, last + 1)}


def folded(component: str) -> str:
    """One spelling for all that a file system might take for the same name."""
    # Most names are plain, and this is asked for each that is made.
    name = component.lower() if component.isascii() else component.translate(_passed_over()).casefold()
    name = name.partition(":")[0].rstrip(". ")
    return ".git" if name == "git~1" else name or component


def components(path: str) -> list[str]:
    return [folded(component) for component in path.split("/") if component not in ("", ".")]


def key_in(known: Container[str], name: str) -> str:
    """The key of a folded name, if it has one: the name itself, or the ending that counts (`*.x`)."""
    if "." not in name or name in known:
        return name
    pattern = f"*{name[name.rindex('.') :]}"
    return pattern if pattern in known else name


GIT = ".git"
NESTS = ("modules", "worktrees")
"""Where git directories lie in a git directory, by their names."""
CONTENTS = frozenset(
    ("hooks", "config", "config.worktree", "info", "commondir", "gitdir", "objects", "refs", "logs", *NESTS)
)
"""What git's own directories hold that is no working tree."""
ALSO_OF_REFS = frozenset(("remotes", "branches"))
"""Names in a `.git` that references have, too (`refs/remotes`): in modules they would be those."""


class SplitGitPath(NamedTuple):
    """A path with the git directories inside a git directory told apart."""

    parts: list[str]
    """Each linked worktree's git directory is a `.git` here; what lies in modules is as it was."""
    module: int | None = None
    """From which of the parts on there may be a `.git` before each, and after the last: in modules."""
    is_nest: bool = False
    """Whether any further name would be that of a git directory."""

    @property
    def is_git(self) -> bool:
        """Whether the path is that of a git directory, as far as its names tell."""
        return self.module is not None or self.parts[-1:] == [GIT]

    def ends(self, first: int = 0) -> range:
        """Where the name of a module may end, by how many parts lie before that."""
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
    """A name that may not be written; what lies below it is protected with it."""

    name: str
    """One or more components; absolute, it holds at that very place alone."""
    why: str
    top: bool = False
    """Only directly in a root; else wherever it stands in one."""
    grantable: bool = True
    """Whether a person may let a write through."""
    except_for: tuple[str, ...] = ()
    """Names in it that this rule leaves out; for absolute ones."""
    is_git_writes: bool = False
    """Whether it closes a git directory as a whole, by whatever name, until git may write."""
    code: ViolationCode = ViolationCode.PROTECTED

    def plain(self) -> tuple[object, ...]:
        """For another process: `rule_from` reads it."""
        return (*self[:-1], self.code.value)


def rule_from(plain: tuple[Any, ...]) -> NameRule:
    return NameRule._make((*plain[:-1], ViolationCode(plain[-1])))


class Match(NamedTuple):
    """How a path meets a rule."""

    rule: NameRule
    rest: tuple[str, ...] = ()
    """What of the rule lies below the path, folded. Empty: the path is the protected name or lies in it. Else
    it is a directory on the way, which would take the name along if it were moved or replaced."""
    unless_file: bool = False
    """Whether a plain file of this name would lead nobody anywhere: then only others count."""


Matches = tuple[Match, ...]
Children = dict[str, Matches]
"""What names in a directory would meet, by their keys (`key_in`)."""
Placed = tuple[NameRule, tuple[str, ...]]
"""A rule, and the folded components that it holds at."""


class _ChildrenWithDefault(dict[str, Matches]):
    """Children of which every other name meets the same."""

    def __init__(self, found: Children, others: Matches) -> None:
        super().__init__(found)
        self.others = others

    def get(self, name: str, default: object = None, /) -> Matches:  # noqa: ARG002  (there is no default)
        return self[name] if name in self else self.others  # noqa: SIM401  (which would ask us again)


class NameMatcher:
    """The rules over some roots. Paths are absolute and without `..`; whoever asks has resolved them.

    INVARIANT: it is not changed once it is made, nor is what it returns.
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
        """How many names below a git directory decide whether such a rule has been reached."""
        self.tails = frozenset(part for _, parts in placed for part in parts[1:])
        """Names that can become protected by where their directory comes to stand."""
        self.endings = tuple(first[1:] for first in self.at_top if first.startswith("*."))
        self.begun = {root: begun for root in self.roots if (begun := list(self._begun_by(root)))}
        """With all components of the one place where such a rule then holds."""
        self.anywhere = {first: _first_steps(found) for first, found in self.named.items()}
        """What the names in a directory meet that no rule has begun above."""
        self.anywhere_at_top = {first: _first_steps(found) for first, found in self.at_top.items()}

    def matches(self, path: str) -> Matches:
        """What a path meets: one match if it is protected, several if it is on the way to several names."""
        head, _, name = path.rstrip("/").rpartition("/")
        found = self.children(head or "/")
        return (found,) if isinstance(found, Match) else found.get(key_in(found, folded(name)), ())

    def children(self, directory: str) -> Match | Children:
        """What the names in a directory meet; one match if the directory itself is protected."""
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
        """The rule that closes this very directory but for some names, and the match if it lies in what is
        protected."""
        closed: NameRule | None = None
        given = components(directory) if self.fixed else []
        for rule, parts in self.fixed:
            if rule.except_for and tuple(given) == parts:
                closed = rule
            elif inside := _step(rule, parts, given, next_steps):
                return None, inside
        return closed, None

    def _begun_by(self, root: str) -> Iterator[Placed]:
        """Rules that a root is on the way to. What it has reached is open: who names such a root means it."""
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
        """The rules about git directories, wherever the name of a module may end: beyond a root that lies in
        one, if there is such a root."""
        for end in given.ends(len(beyond.parts) + 1 if beyond else 0):
            if inside := _steps(self.in_git, given.parts[end : end + self.deepest], next_steps):
                return inside
        return None


@lru_cache(maxsize=2)  # a warden has two
def matcher_of(rules: tuple[NameRule, ...], roots: tuple[str, ...]) -> NameMatcher:
    """The one that was made lately of the same, if any was: who will need it in a hurry makes it before."""
    return NameMatcher(rules, roots)


def _steps(rules: Iterable[Placed], given: list[str], next_steps: Children) -> Match | None:
    for rule, parts in rules:
        if inside := _step(rule, parts, given, next_steps):
            return inside
    return None


def _left_of(rules: Iterable[Placed], place: list[str], start: int) -> Iterator[Placed]:
    """Rules that begin in a place, and are not reached at its end."""
    taken = len(place) - start
    for rule, parts in rules:
        if taken < len(parts) and parts[:taken] == tuple(place[start:]):
            yield rule, (*place, *parts[taken:])


def _step(rule: NameRule, parts: tuple[str, ...], given: list[str], next_steps: Children) -> Match | None:
    """Notes what comes next on the way to a rule's name; a match if it has been reached."""
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
    """The match of what is protected itself, if it is, and not only on the way to what is."""
    return next((match for match in matches if not match.rest), None)


def _strictest(matches: Matches) -> Matches:
    """Where one rule protects the name itself, nothing else counts."""
    whole = reached(matches)
    return (whole,) if whole else matches
