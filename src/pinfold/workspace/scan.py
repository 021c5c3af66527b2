"""What is in the way of a pen: the protected and hidden things that exist, and the names that must not.

Asked once for each pen, and again by the watcher of the workspace. What is remembered makes the second time
cheap. The target of a link counts like what the link is, as long as it lies where commands write or in the
home: a command may make links too, and must not hide the machine from later commands.

Facts about links that shape the resolver:
- A command can make links of a hidden name, each to the first of a chain, and every link of that can have a
  path of many parts: twenty thousand of them take `os.path.realpath` an hour, while each command waits.
- The kernel follows forty links (path_resolution(7)), and no process comes further.
- The kernel cannot be asked whether it would. While other processes rename things, it begins anew in the
  middle of a path, counts the links that it has seen once more (fs/namei.c), and reports too many (ELOOP)
  after twenty.

So all paths of one scan together have a limit of steps, and a workspace that needs more is refused at once.
"""

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from pinfold.model.agent_variables import SSH_AGENT, naming
from pinfold.model.errors import ConfinementError
from pinfold.model.policy import TEMPORARY, PolicyType, SandboxPolicy
from pinfold.model.protected_names import GIT, NameMatcher, NameRule
from pinfold.model.symlinks import MOST_LINKS, real_path, walk_path
from pinfold.policy.hidden_paths import HiddenTree
from pinfold.policy.paths import is_covered, outermost
from pinfold.policy.shipped_protected import name_rules
from pinfold.sandbox.backend import Found
from pinfold.sandbox.plan import COVERED, OURS
from pinfold.workspace.bind_mounts import Mount, load_mounts, other_mount_points
from pinfold.workspace.dir_cache import is_out_of_reach
from pinfold.workspace.git_dirs import bare_repositories, outside_git_dir
from pinfold.workspace.git_places import GitPlaces
from pinfold.workspace.repository import find_repository, repositories_around
from pinfold.workspace.startup_files import StartupFiles
from pinfold.workspace.tree_walk import SeenDirectory, TreeWalk

MOST_STEPS = 200_000
"""About half a second of them. A project with a thousand links needs a tenth."""
TOO_MANY = (
    "too many links with names that are hidden or protected, so that what they lead to cannot be found in "
    "time; remove some"
)


class LinkPath(NamedTuple):
    links: tuple[str, ...]
    """Each where it really lies."""
    left: tuple[str, ...]
    """Directories that it leaves again (`..`): were one of them a link, it would lead elsewhere."""
    end: str
    """Where it leads, whether or not anything is there; empty if nowhere."""


class LinkResolver:
    def __init__(self) -> None:
        self.left = MOST_STEPS
        self.known: dict[str, LinkPath] = {}
        self.endless: set[str] = set()
        """Links with too many others behind them to be followed to their end."""

    def of(self, path: str) -> LinkPath:
        """Of an absolute path."""
        known = self.known.get(path)
        if known is None:
            known = self.known[path] = self._walked(path)
        return known

    def _walked(self, path: str) -> LinkPath:
        links: list[str] = []
        last: list[tuple[int, str]] = []
        left: list[str] = []
        at = end = ""
        # Further than any caller gets, so that most of an endless chain is known by one walk.
        for step in walk_path(path, 2 * MOST_LINKS):
            self.left -= 1
            if self.left < 0:
                raise ConfinementError(TOO_MANY)
            if step.place in self.endless:
                return self._nowhere(last, len(links) + 1 + MOST_LINKS)
            end = "" if step.is_link else step.place
            if step.is_link:
                if step.is_last:
                    last.append((len(links), step.place))
                links.append(step.place)
            else:
                if len(step.place) < len(at):
                    left.append(at)
                at = step.place
        if len(links) > MOST_LINKS:
            return self._nowhere(last, len(links))
        return LinkPath(tuple(links), tuple(left), end)

    def _nowhere(self, last: list[tuple[int, str]], links: int) -> LinkPath:
        """`last`: the links that all others behind them belong to, each with how many came before it."""
        self.endless.update(place for before, place in last if links - before > MOST_LINKS)
        return LinkPath((), (), "")


REMEMBERED = 4
"""How many sets of rules are remembered, each with its walk."""

MOST_LINK_MOUNTS = 5_000
"""Each is a mount of every pen's."""

PENS_OWN = (*OURS, *COVERED, *TEMPORARY)
"""Where a pen shows nothing that the machine has mounted, unless a root or what is granted lies there."""

SUFFIX = f"/{GIT}"

BEHIND_LINK = "a link with a protected name leads there"

_Rules = tuple[tuple[str, ...], tuple[NameRule, ...], tuple[object, ...]]


class WorkspaceScanner:
    """Looks through a session's roots; may be asked from one thread at a time."""

    def __init__(
        self,
        roots: Iterable[str],
        home: str,
        stood: tuple[Mount, ...] = (),
        environs: Callable[[], tuple[Mapping[str, str], ...]] = tuple,
        env_files: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """`environs` returns the variables that the user's processes have, besides our own. `env_files`
        returns the `.env` files that are hidden by now from commands without a grant for them."""
        self.roots = tuple(real_path(root) for root in roots)
        self.home = home
        self.environs = environs
        self.env_files = env_files
        self.walks: dict[_Rules, TreeWalk] = {}
        self.obeyed: dict[tuple[tuple[str, str], ...], tuple[StartupFiles, GitPlaces]] = {}
        """What is obeyed outside, by the variables that name some of it."""
        self.git_rules: tuple[NameRule, ...] = ()
        """What git's configuration, and links from the home, said at the last look."""
        self.stood = stood
        """What was mounted when the session began, or at the first look: its pens keep those mounts, even if
        the machine unmounts them."""

    def begin(self) -> None:
        """A session begins, with the mounts that there are."""
        self.stood = load_mounts()

    def turned_to(self, roots: Iterable[str]) -> "WorkspaceScanner":
        """One for other roots of the same session."""
        return WorkspaceScanner(roots, self.home, self.stood, self.environs, self.env_files)

    def __call__(self, policy: SandboxPolicy) -> Found:
        added = tuple(real_path(path) for path in policy.additional_readwrite_paths)
        tops = tuple(dict.fromkeys((*self.roots, *added)))
        own = (*tops, self.home)
        writes = policy.type is not PolicyType.WORKSPACE_READONLY
        rules = name_rules(policy.protected, block_git_writes=bool(policy.block_git_writes)) if writes else ()
        # Their paths are known: no walk is to be made anew when one comes, or is granted.
        hiding = HiddenTree(replace(policy, env_files=()), tops)
        starts = (*tops, *_starts(hiding.globs, tops))
        walk = self._walk(policy, tops, (*rules, *self.git_rules), hiding)
        looked = walk.look(starts)
        git_rules = tuple(self._git_rules(looked, tops)) if rules else ()
        if rules and git_rules != self.git_rules:
            self.git_rules = git_rules
            walk = self._walk(policy, tops, (*rules, *git_rules), hiding)
            looked = walk.look(starts)
        rules = (*rules, *git_rules)
        seen = looked.values()
        gits = [git for each in seen for git in each.gits]
        bares = [path for path, each in looked.items() if each.is_bare]
        git_writes = bool(rules) and not policy.block_git_writes
        away = [outside_git_dir(git, tops, rules) for git in gits] if git_writes else []
        protected = [path for each in seen for path in each.protected]
        called_git = [path for path in protected if os.path.basename(path) == GIT]
        away.append(bare_repositories(bares, tops, rules, called_git, git_writes=git_writes))
        ways = LinkResolver()
        linked = [rule for path in protected for rule in _rules_beyond(path, tops, own, ways)]
        protected += [path for each in away for path in each.protected]
        mounts = load_mounts()
        self.stood = self.stood or mounts
        closed = {*hiding.paths, *self._env_files(policy)}
        known = [path for path in closed if _may_exist(path, ways) and not is_out_of_reach(path)]
        # A command that removed a link, or changed its target, would open what it hides or make what it
        # protects.
        over = [*_over((path for each in seen for path in each.linked), {*protected}, own, ways)]
        over += map(ways.of, known)
        behind = [way for way in map(ways.of, walk.behind_links) if _may_stand_for(way.end, own, own)]
        over += behind
        links = {link for way in over for link in way.links if is_covered(link, tops)}
        if len(links) > MOST_LINK_MOUNTS:
            raise ConfinementError(TOO_MANY)
        hidden = {
            *self._unmounted(mounts, (*tops, *map(real_path, policy.additional_readonly_paths))),
            *_led((path for each in seen for path in each.hidden), own, ways),
            *(way.end for way in behind),
            *known,
        }
        return Found(
            protected=tuple(sorted(set(_led(filter(os.path.lexists, protected), own, ways)))),
            hidden=tuple(sorted({*hidden, *self._doubles(hidden, mounts)})),
            placed=(
                *sorted(
                    path
                    for path in hidden
                    # Where a link is on the way, what it leads to is hidden, too, and that has a place.
                    if all(link == path for link in ways.of(path).links)
                    and hiding.is_for_its_place(path, os.path.isdir(path))
                ),
                *(f"{path}/HEAD" for path in bares if rules),
                *sorted({f"{path}/.." for way in over if way.links for path in way.left}),
            ),
            closed=tuple(sorted(path for each in seen for path in each.closed)),
            links=tuple(sorted(links)),
            names=tuple(dict.fromkeys((*rules, *linked, *(rule for each in away for rule in each.names)))),
            home=self.home,
            agents=tuple(each[SSH_AGENT] for each in self._variables() if SSH_AGENT in each),
            writable=tuple(dict.fromkeys(path for each in away for path in each.writable)),
        )

    def _env_files(self, policy: SandboxPolicy) -> Iterator[str]:
        """The policy's, and those that have come since it was made."""
        granted = {*policy.additional_readonly_paths, *policy.additional_readwrite_paths}
        return (path for path in (*policy.env_files, *self.env_files()) if path not in granted)

    def _git_rules(self, looked: Mapping[str, SeenDirectory], tops: tuple[str, ...]) -> Iterator[NameRule]:
        """What git's configuration makes it run or include, of each repository that is there or around the
        roots, and what links from the home lead to."""
        trees = [path[: -len(SUFFIX)] for path in looked if path[-len(SUFFIX) :].lower() == SUFFIX]
        for path, each in looked.items():
            if each.gits or each.is_bare:
                trees.append(path)
        found = [*filter(None, chain(map(find_repository, trees), *map(repositories_around, tops)))]
        places: dict[str, str] = {}
        for variables in self._variables():
            key = tuple(sorted(variables.items()))
            if key not in self.obeyed:
                self.obeyed[key] = StartupFiles(self.home, variables), GitPlaces(self.home, variables)
            startup, git = self.obeyed[key]
            places |= {**startup.of(tops), **git.of(found, tops)}
        return (NameRule(place, why) for place, why in sorted(places.items()))

    def _variables(self) -> Iterator[Mapping[str, str]]:
        """Those that name something obeyed outside: our own, and those of the processes that commands came
        from."""
        yield naming(os.environ)
        yield from self.environs()

    def _walk(
        self, policy: SandboxPolicy, tops: tuple[str, ...], rules: tuple[NameRule, ...], hiding: HiddenTree
    ) -> TreeWalk:
        mapping = tuple((directory, patterns) for directory, patterns in policy.ignore_mapping.items())
        key = (tops, rules, (policy.hidden, mapping))
        walk = self.walks.pop(key, None) or TreeWalk(NameMatcher(rules, tops), hiding)
        self.walks[key] = walk  # the last one used is last
        while len(self.walks) > REMEMBERED:
            del self.walks[next(iter(self.walks))]
        return walk

    def _doubles(self, hidden: set[str], mounts: tuple[Mount, ...]) -> Iterator[str]:
        """Where hidden things can be seen too."""
        own = (*self.roots, self.home)
        return (path for path in other_mount_points(hidden, mounts) if not _holds(path, own))

    def _unmounted(self, mounts: tuple[Mount, ...], shown: tuple[str, ...]) -> Iterator[str]:
        """Where pens still have what the machine has not any more: a disk that was locked, for instance."""
        own = (*self.roots, self.home)
        for path in {mount.point for mount in {*self.stood}.difference(mounts)}:
            is_seen = is_covered(path, shown) or not is_covered(path, PENS_OWN)
            if is_seen and not _holds(path, own) and _may_exist(path, LinkResolver()):
                yield path


def _led(paths: Iterable[str], own: tuple[str, ...], ways: LinkResolver) -> Iterator[str]:
    """The paths, where links lead for those that are links."""
    for path in paths:
        target = ways.of(path).end if os.path.islink(path) else path
        if target == path or _may_stand_for(target, own, own):
            yield target


def _over(
    linked: Iterable[str], protected: Collection[str], own: tuple[str, ...], ways: LinkResolver
) -> Iterator[LinkPath]:
    """The ways of links that decide what is hidden, or what a protected name leads to."""
    for path in linked:
        way = ways.of(path)
        if path in protected or _may_stand_for(way.end, own, own):
            yield way


def _rules_beyond(
    path: str, tops: tuple[str, ...], own: tuple[str, ...], ways: LinkResolver
) -> Iterator[NameRule]:
    """Where a link to something protected leads: there, too, it must not be made."""
    if os.path.islink(path) or not os.path.lexists(path):
        target = ways.of(path).end
        if target != path and _may_stand_for(target, tops, own):
            yield NameRule(target, BEHIND_LINK)


def _may_stand_for(target: str, places: tuple[str, ...], own: tuple[str, ...]) -> bool:
    return bool(target) and is_covered(target, places) and not _holds(target, own)


def _holds(path: str, own: Iterable[str]) -> bool:
    """Whether one of these would be gone with it."""
    return any(is_covered(each, (path,)) for each in own)


def _may_exist(path: str, ways: LinkResolver) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        return error.errno != errno.ELOOP or bool(ways.of(os.path.dirname(path)).end)
    return True


def _starts(globs: Iterable[str], tops: tuple[str, ...]) -> tuple[str, ...]:
    """Where paths with patterns in them begin to be patterns, unless that is looked through anyway."""
    found = []
    for glob in globs:
        parts = glob.split("/")
        wild = next(index for index, part in enumerate(parts) if any(c in part for c in "*?["))
        found.append("/".join(parts[:wild]) or "/")
    return tuple(path for path in outermost(found) if os.path.isdir(path) and not is_covered(path, tops))
