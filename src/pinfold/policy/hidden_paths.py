"""Whether a path is hidden from agents, where that rule is written, and what would open it. Pure."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from posixpath import basename
from typing import NamedTuple

from msgspec import Struct

from pinfold.model.partly_hidden import PartlyHidden, partly_hidden
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import Settings
from pinfold.model.text_positions import Origin
from pinfold.policy.ignore import NAMED, Ignore, IgnoredNames, united
from pinfold.policy.paths import upwards
from pinfold.policy.reasons import remedy_for


class HiddenBy(StrEnum):
    """What hides a path, other than an entry of a policy; people read its value."""

    IGNORE_FILES = "an ignore file"


DEEPEST = 256
"""Path components; no project keeps files deeper, and pinfold hides what it does not examine."""
LONGEST = 3_800
"""Bytes of a directory's path: with any name in it, it is still one that the kernel takes (PATH_MAX). By
renaming directories one by one a command can make longer ones, where nothing could be found or mounted."""
ELSEWHERE = ("pinfold elsewhere", "pinfold elsewhere/and/deeper")


class _Entries(Struct, frozen=True):
    """A policy's hidden entries, prepared for many lookups."""

    paths: frozenset[str]
    """Directories that are partly hidden are among these."""
    patterns: tuple[str, ...]
    partly: Mapping[str, list[PartlyHidden]]
    """By their directories; one that is hidden as a whole is not among them."""

    def hides(self, place: str, path: str) -> bool:
        """Whether the entry for a place hides a path, which is that place or lies in it."""
        partly = self.partly.get(place)
        return place in self.paths and not (partly and all(each.shows(path) for each in partly))


def hidden_by(path: str, policy: SandboxPolicy, roots: tuple[str, ...]) -> str | None:
    """The pattern or path that hides `path` (absolute, links followed), or None."""
    if is_too_deep(path.rpartition("/")[0]):
        return "its depth"
    entries = _entries(policy.hidden)
    for place in upwards(path):
        if entries.hides(place, path):
            return place
    if path in policy.env_files:
        return path
    for entry in entries.patterns:
        if any(_compiled(root, entry).is_ignored(path) for root in (roots if is_pattern(entry) else ("/",))):
            return entry
    if policy.ignore_mapping and _ignore(tuple(policy.ignore_mapping.items())).is_ignored(path):
        return HiddenBy.IGNORE_FILES
    return None


def shown_in(path: str, policy: SandboxPolicy) -> str:
    """The directory that is hidden but for this path and others, which is shown to be read; else empty."""
    entries = _entries(policy.hidden)
    if not entries.partly:
        return ""
    partly = next((place for place in upwards(path) if place in entries.partly), "")
    return "" if not partly or entries.hides(partly, path) else partly


def is_hidden_env_file(path: str, rule: str | None, policy: SandboxPolicy) -> bool:
    """Whether `hidden_by` found that the path is an `.env` file, which a person may grant."""
    return rule == path and path in policy.env_files and path not in _entries(policy.hidden).paths


def ignored_by(path: str, policy: SandboxPolicy) -> tuple[str, str] | None:
    """The pattern of an ignore file that hides `path`, and the directory of that file; None if none does."""
    mapping = tuple(policy.ignore_mapping.items())
    return _ignore(mapping).written(path) if mapping else None


class HiddenTree:
    """A policy's hidden paths, for code that walks a tree and skips them."""

    def __init__(self, policy: SandboxPolicy, roots: tuple[str, ...]) -> None:
        entries = _entries(policy.hidden)
        self.paths = entries.paths.union(policy.env_files)
        """The entries that are plain paths, which are found without a walk."""
        self._in: dict[str, set[str]] = {}
        for path in self.paths:
            directory, _, name = path.rpartition("/")
            self._in.setdefault(directory or "/", set()).add(name)
        # Each entry is asked by itself: a `!` in one takes nothing back from another.
        counted = [entry for entry in entries.patterns if not entry.startswith("!")]
        self.globs = tuple(entry for entry in counted if not is_pattern(entry))
        """The entries that are paths with wildcards."""
        names = tuple(entry for entry in counted if is_pattern(entry))
        mapping = dict.fromkeys(roots, names) if names else {}
        if self.globs:
            mapping["/"] = self.globs
        self._ignore = Ignore(united(mapping, policy.ignore_mapping))
        self._roots = roots
        self._tops = (*roots, *policy.ignore_mapping)
        self._takes_back = any(
            pattern.startswith("!") for patterns in policy.ignore_mapping.values() for pattern in patterns
        )

    def within(self, directory: str) -> "HiddenNames":
        if is_too_deep(directory):
            return _EverythingHidden()
        return HiddenNames(self._ignore.within(directory), self._in.get(directory, frozenset()))

    @property
    def has_places(self) -> bool:
        """Whether anything is hidden for where it is, and not for its name alone."""
        return self._ignore.has_places(self._roots)

    def levels_below(self, link: str, target: str) -> int:
        """How many levels below a link to a directory something may be hidden that is not where it leads
        (`Ignore.levels_below`)."""
        return self._ignore.levels_below(link, target)

    def may_lead(self, link: str) -> bool:
        """Whether there may be such levels, whatever the link leads to; False is certain."""
        return self._ignore.may_lead(link, self._roots)

    def is_for_its_place(self, path: str, is_directory: bool) -> bool:
        """Whether a hidden file could stop being hidden after a move.

        It cannot if its name alone hides it in every place it can move to. Directories with ignore files stay
        in place, and no file can be moved out of them."""
        if self._takes_back or path in self.paths:
            return True
        name = path.rpartition("/")[2]
        return not any(
            path.startswith(f"{top}/")
            and all(self.within(f"{top}/{place}").is_hidden(name, is_directory) for place in ELSEWHERE)
            for top in self._tops
        )


class HiddenNames:
    """The hidden names in one directory, which is not hidden itself."""

    def __init__(self, ignored: IgnoredNames | None, named: Collection[str]) -> None:
        self._ignored = ignored
        self._named = named

    def may_hide(self, names: list[str]) -> bool:
        """Whether some of these names may be hidden; False is certain."""
        if self._ignored is not None and self._ignored.may_ignore("/".join(names)):
            return True
        return any(name in self._named for name in names) if self._named else False

    def is_hidden(self, name: str, is_directory: bool) -> bool:
        if name in self._named:
            return True
        return self._ignored is not None and self._ignored.is_ignored(name, is_directory)


class _EverythingHidden(HiddenNames):
    """A directory too deep to examine: all its names are hidden."""

    def __init__(self) -> None:
        super().__init__(None, ())

    def may_hide(self, names: list[str]) -> bool:
        return bool(names)

    def is_hidden(self, name: str, is_directory: bool) -> bool:  # noqa: ARG002
        return True


def is_too_deep(directory: str) -> bool:
    if directory.count("/") >= DEEPEST:
        return True
    return len(directory) * 4 > LONGEST and len(directory.encode("utf-8", "surrogatepass")) > LONGEST


def is_pattern(entry: str) -> bool:
    """Whether an entry is a bare name, which hides every file of that name in a root; else it is a path."""
    return not entry.startswith("/")


@lru_cache(maxsize=16)
def _entries(hidden: tuple[str, ...]) -> _Entries:
    partly = {entry: found for entry in hidden if (found := partly_hidden(entry))}
    rest = [entry for entry in hidden if entry not in partly]
    plain = frozenset(entry for entry in rest if not is_pattern(entry) and not any(c in entry for c in "*?["))
    by_directory: dict[str, list[PartlyHidden]] = {}
    for each in partly.values():
        if each.directory not in plain:
            by_directory.setdefault(each.directory, []).append(each)
    patterns = tuple(entry for entry in rest if entry not in plain)
    return _Entries(plain.union(by_directory), patterns, by_directory)


@lru_cache(maxsize=16)
def _ignore(mapping: tuple[tuple[str, tuple[str, ...]], ...]) -> Ignore:
    return Ignore(dict(mapping))


@lru_cache(maxsize=256)
def _compiled(root: str, pattern: str) -> Ignore:
    return Ignore({root: (pattern,)})


SECRETS = "pinfold's list of secrets"
PINFOLD = "pinfold"
"""The name of the directories that pinfold keeps, which nothing opens."""
UNLISTABLE = "a directory that cannot be listed, so its ignore files are unknown"
OF_AGENT = "it belongs to an agent, and is there to be read"
HIDE_KEY = "filesystem.hide"
ENV_FILES = "filesystem.env_files"
UNTRACKED = "git does not track it, and it may hold keys and passwords"


class HidingRule(NamedTuple):
    """The rule that hides a path."""

    rule: str
    """A pattern or a path."""
    origin: Origin | None = None
    remedy: str = ""
    """Empty if nothing opens the path."""


def hiding_rule(
    path: str, rule: str, settings: Settings, policy: SandboxPolicy, roots: tuple[str, ...]
) -> HidingRule:
    """The rule that `hidden_by` found for a path, with its origin and remedy.

    No grant opens a path that a person or an ignore file hides. A grant of a secret's own path opens it.
    """
    for place, entry in enumerate(settings.filesystem.hide):
        spelled = (entry, *(f"{root}/{entry}" for root in roots))
        if rule and (rule in spelled or _is_home(entry, rule)):
            origin = settings.origin(HIDE_KEY, place)
            return HidingRule(rule, origin, remedy_for(origin, f"remove `{entry}` from `{HIDE_KEY}`"))
    if rule is HiddenBy.IGNORE_FILES:
        pattern, directory = ignored_by(path, policy) or (rule, "")
        if directory == NAMED:
            return HidingRule(pattern, Origin(UNLISTABLE), f"chmod u+rx {pattern}")
        return HidingRule(
            pattern, Origin(f"{rule} in {directory}" if directory else rule), "remove it from that file"
        )
    if is_hidden_env_file(path, rule, policy):
        origin = settings.origin(ENV_FILES)
        remedy = f"name `{rule}` in `filesystem.read`, or set `{ENV_FILES} = true`"
        return HidingRule(rule, origin, remedy_for(origin, remedy))
    if not rule.startswith("/") or basename(rule) == PINFOLD:
        return HidingRule(rule)
    return HidingRule(
        rule, Origin(SECRETS), f"name `{rule}` in `filesystem.read`, if every command may know it"
    )


def _is_home(entry: str, rule: str) -> bool:
    """Whether an entry such as `~/x` may be this path; the home itself is unknown here."""
    return entry.startswith("~/") and rule.endswith(entry[1:].rstrip("/"))
