"""From a policy to the ordered operations that build its pen. Pure: planning touches nothing.

`plan_pen` gets `ExistingPaths` (real paths, and whether each is a file or a directory) and returns a `Plan`,
which prints, compares and travels. `sandbox.linux` carries it out in this order; it decides nothing more.

The order is the meaning: the whole machine read-only; our own /proc, /dev and /tmp over it; then the writable
roots; then, in them, other grants and what is protected; last what is hidden, so that no grant ever uncovers
it.
"""

from collections.abc import Collection, Iterable, Iterator
from posixpath import dirname

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import TEMPORARY, PolicyType, SandboxPolicy
from pinfold.sandbox.linux.protocol.operations import (
    Bind,
    BindAt,
    Cover,
    DropPowers,
    EnterRoot,
    Fasten,
    Group,
    Hide,
    Kind,
    Landlock,
    LandlockRule,
    Limit,
    Link,
    NoteReads,
    Operation,
    Pin,
    Point,
    Protect,
    ReadOnlyRoot,
    Reveal,
    Seal,
    Seccomp,
    Show,
)
from pinfold.sandbox.seccomp import PAIRS

SHARED_MEMORY = "/dev/shm"  # noqa: S108
COVERED = ("/run",)
"""Where the machine's services keep their sockets and secrets."""
KERNEL_WINDOWS = (
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/pstore",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
)
OURS = ("/proc", "/sys", "/dev")
"""What a pen has of its own, or only to look at: no root may lie there."""

READ = ("read",)
WRITE = ("read", "write")
CHANGE = ("read", "write", "remove")
ALL = (*CHANGE, "make", "refer")
"""In roots the warden alone makes names, so that it sees each; a private /tmp needs no such care."""


class ExistingPath(Struct, frozen=True):
    path: str
    kind: Kind = "directory"


class ShownPath(Struct, frozen=True):
    """A path in a hidden directory, no link followed on the way to it."""

    directory: str
    """The hidden one."""
    path: str
    kind: Kind
    target: str = ""
    """Where it leads, if it is a link."""


class ExistingPaths(Struct, frozen=True):
    """What the file system has of what a policy names. Every path is absolute, real, and exists."""

    roots: tuple[ExistingPath, ...]
    writable: tuple[ExistingPath, ...] = ()
    readable: tuple[ExistingPath, ...] = ()
    sockets: tuple[ExistingPath, ...] = ()
    """Sockets of the machine that the policy grants."""
    agents: tuple[str, ...] = ()
    """Where ssh agents listen, by what the user's environment and running programs say."""
    protected: tuple[ExistingPath, ...] = ()
    hidden: tuple[ExistingPath, ...] = ()
    shown: tuple["ShownPath", ...] = ()
    """What is to be seen in hidden directories, which are hidden otherwise."""
    placed: tuple[str, ...] = ()
    """Paths that only their place hides or protects."""
    links: tuple[str, ...] = ()
    """Links that something hidden or protected is found by: real paths but for what they lead to."""
    is_closed: bool = False
    """Whether what only root may read is closed in the machine's tree: then each grant is a mount."""
    closed: tuple[str, ...] = ()
    """Directories that only root may search, and in which something is granted."""
    machine: tuple[str, ...] = (*TEMPORARY, *COVERED, *KERNEL_WINDOWS)
    """Which of the machine's directories that every pen treats specially are there."""
    scratch: str = ""
    """A directory of the machine's /tmp that commands have as their /tmp; empty if that is the session's."""


class Plan(Struct, frozen=True):
    """How a pen is built."""

    operations: tuple[Operation, ...]
    temporary: str | None = "/tmp"  # noqa: S108
    """What TMPDIR says; None if nothing may be written there."""

    def __str__(self) -> str:
        return "\n".join(str(operation) for operation in self.operations)


def plan_pen(
    policy: SandboxPolicy,
    places: ExistingPaths,
    *,
    asks: bool = False,
    notes_reads: bool = False,
) -> Plan:
    """The operations that build a pen for this policy, in their order."""
    require_sandbox_type(policy)
    places = _unhidden(places)
    tmp = not policy.disable_tmp_write
    writable = () if policy.type is PolicyType.WORKSPACE_READONLY else (*places.roots, *places.writable)
    writable = tuple(place for place in writable if tmp or place.path not in TEMPORARY)
    require_possible(place.path for place in writable)
    granted = _granted(places, writable)
    sockets = tuple(place.path for place in _sorted(places.sockets))
    return Plan(
        (
            *_machine(places, tmp),
            *_binds(places, granted),
            *_inside(policy, places, granted),
            *_hidden(places, granted),
            *(Seal(path) for path in _covers(places, tmp)),
            EnterRoot(),
            *_limits(policy),
            *_group(policy),
            DropPowers(),
            Landlock(_rules(places, tmp, writable)),
            *((NoteReads(),) if notes_reads else ()),
            Seccomp(PAIRS, True, sockets, asks, tuple(path for path in sockets if path in places.agents)),
        ),
        temporary=(places.scratch or TEMPORARY[0]) if tmp and TEMPORARY[0] in places.machine else None,
    )


def _unhidden(places: ExistingPaths) -> ExistingPaths:
    """Without the roots and grants that lie in something hidden: no grant uncovers it."""
    hidden = {place.path for place in places.hidden}

    def seen(found: tuple[ExistingPath, ...]) -> tuple[ExistingPath, ...]:
        return tuple(place for place in found if place.path not in hidden and not _within(place.path, hidden))

    return replace(
        places,
        roots=seen(places.roots),
        writable=seen(places.writable),
        readable=seen(places.readable),
        sockets=seen(places.sockets),
    )


def require_sandbox_type(policy: SandboxPolicy) -> None:
    if policy.type not in (PolicyType.WORKSPACE_READWRITE, PolicyType.WORKSPACE_READONLY):
        raise ConfinementError(f"a policy of type {policy.type.name} describes no sandbox; nothing was run")


def require_possible(writable: Iterable[str]) -> None:
    for path in writable:
        if path == "/":
            raise ConfinementError(
                "the root of the file system cannot be writable in the sandbox; work in a directory"
            )
        inside = path == SHARED_MEMORY or _within(path, (SHARED_MEMORY,))
        if (path in OURS or _within(path, OURS)) and not inside:
            raise ConfinementError(
                f"{path} cannot be writable: the sandbox has {', '.join(OURS)} of its own; "
                "work in another directory"
            )


def _machine(places: ExistingPaths, tmp: bool) -> Iterator[Operation]:
    yield ReadOnlyRoot()
    yield Show("proc", "/proc")
    yield Show("dev", "/dev")
    yield from (Cover(path) for path in _covers(places, tmp))
    if tmp:
        yield from (Show(path[1:].replace("/", "-"), path) for path in TEMPORARY if path in places.machine)
    if tmp and places.scratch and TEMPORARY[0] in places.machine:
        # At its own path as well: a name of a file in it means the same to commands and to the agent.
        yield BindAt(places.scratch, TEMPORARY[0])
        yield Point(places.scratch, "directory")
        yield BindAt(places.scratch, places.scratch)
    yield from (Hide(path, "directory") for path in KERNEL_WINDOWS if path in places.machine)


def _covers(places: ExistingPaths, tmp: bool) -> tuple[str, ...]:
    taken_away = (*COVERED, *(() if tmp else TEMPORARY))
    return (*(path for path in taken_away if path in places.machine), *places.closed)


Granted = dict[str, tuple[ExistingPath, bool]]
"""By its path: what a pen has of the machine's that is more than to be looked at, and whether to write."""


def _granted(places: ExistingPaths, writable: tuple[ExistingPath, ...]) -> Granted:
    granted = {place.path: (place, True) for place in writable}
    for place in (*places.roots, *places.readable, *places.sockets):
        granted.setdefault(place.path, (place, False))
    return granted


def _tops(granted: Granted) -> set[str]:
    return {path for path, (_, may_write) in granted.items() if may_write}


def _binds(places: ExistingPaths, granted: Granted) -> Iterator[Operation]:
    """Roots and grants, parents first; what a cover or a private /tmp took away gets a place to stand on."""
    tops = _tops(granted)
    uncovered = (*COVERED, *TEMPORARY, SHARED_MEMORY, *places.closed)
    for path in sorted(granted):
        place, may_write = granted[path]
        covered = _within(path, uncovered)
        if _within(path, tops):
            continue  # its turn comes by `_inside`
        if covered and not _within(path, granted):
            yield Point(path, place.kind)
        if may_write or covered or places.is_closed:
            yield Bind(path, may_write)


def _inside(policy: SandboxPolicy, places: ExistingPaths, granted: Granted) -> Iterator[Operation]:
    """In writable roots: other grants, read-only over what is protected, links that lead to such, and the
    parents of all held in place, so that none is moved aside: a link may then lead elsewhere, too.

    Parents first: a mount on a directory covers what was mounted below it. So no grant opens what lies in
    something protected, and nothing is held in place where all is read-only: that would be open then.
    """
    tops = _tops(granted)
    nested = {path: may_write for path, (_, may_write) in granted.items() if _within(path, tops)}
    found = set(places.protected)
    if policy.block_git_writes:
        found |= {_git_directory(place) for place in found}
    inside = [place for place in _sorted(found) if place.path in tops or _within(place.path, tops)]
    protecting = {place.path for place in inside}
    pins = {pin for place in inside for pin in _pins(place.path, tops)}
    pins |= _kept_in_place(policy, places, tops)
    links = {path for path in places.links if _within(path, tops) and _may_write_at(path, granted)}
    kept = (*links, *(path for path, may_write in nested.items() if not may_write))
    pins |= {pin for path in kept for pin in _parents(path, tops)}
    for path in sorted((pins - granted.keys()) | links | protecting | nested.keys()):
        if _within(path, protecting):
            continue
        if path in nested:
            yield Bind(path, nested[path])
        if path in protecting:
            yield Protect(path)
        elif path in links:
            yield Fasten(path)
        elif path not in nested and _may_write_at(path, granted):
            yield Pin(path)


def _may_write_at(path: str, granted: Granted) -> bool:
    """What the innermost grant that a path lies in says."""
    while path != "/" and path not in granted:
        path = dirname(path)
    return path in granted and granted[path][1]


def _kept_in_place(policy: SandboxPolicy, places: ExistingPaths, tops: set[str]) -> set[str]:
    """The parents of what is hidden, or protected for where it lies: elsewhere the next pen would not do so,
    and what is moved about while a pen is planned is seen nowhere. And those of ignore files, which are not
    looked for everywhere."""
    named = [*places.placed, *(place.path for place in places.hidden)]
    named += [f"{directory}/*" for directory in policy.ignore_mapping]
    return {pin for path in named if _within(path, tops) for pin in _parents(path, tops)}


def _parents(path: str, tops: Collection[str]) -> Iterator[str]:
    """The directories above a path, below the outermost root that it is in."""
    above: list[str] = []
    while (path := dirname(path)) != "/":
        above.append(path)
    outermost = max(index for index, parent in enumerate(above) if parent in tops)
    yield from above[:outermost]


def _pins(path: str, tops: set[str]) -> Iterator[str]:
    """The directories that lead to a protected path and are part of its name, which starts with a dot."""
    root = max((top for top in tops if _within(path, (top,))), key=len, default=path)
    parts = path[len(root) + 1 :].split("/")[:-1]
    first = next((index for index, part in enumerate(parts) if part.startswith(".")), 0)
    yield from (f"{root}/{'/'.join(parts[:end])}" for end in range(first + 1, len(parts) + 1))


def _git_directory(place: ExistingPath) -> ExistingPath:
    """The whole `.git` that something protected lies in."""
    head, git, _ = f"{place.path}/".partition("/.git/")
    if not git or place.path == f"{head}/.git":
        return place
    return ExistingPath(f"{head}/.git", "directory")


def _hidden(places: ExistingPaths, granted: Granted) -> Iterator[Operation]:
    """Parents first: what is shown in a hidden directory may hold something that is hidden. Nothing is shown
    in a directory that a cover or a private /tmp has taken away."""
    paths = {place.path for place in places.hidden}
    for place in _sorted(places.hidden):
        is_there = not _within(place.path, (*COVERED, *TEMPORARY)) or _within(place.path, granted)
        shown = [each for each in places.shown if is_there and each.directory == place.path]
        if not shown or _within(place.path, paths):
            yield Hide(place.path, place.kind)
            continue
        yield Cover(place.path)
        for each in sorted(shown, key=lambda each: each.path):
            if each.target:
                yield Link(each.path, each.target)
            else:
                yield Point(each.path, each.kind)
                yield Reveal(each.path)
        yield Seal(place.path)


def _limits(policy: SandboxPolicy) -> Iterator[Limit]:
    # 0 would still start a handler that core_pattern pipes to, on the host; 1 means: not even that (core(5)).
    # The seccomp profile keeps commands from changing it.
    yield Limit("core", 1)
    if policy.limits.processes is not None:
        yield Limit("nproc", policy.limits.processes)
    if policy.limits.memory is not None:
        yield Limit("data", policy.limits.memory)


def _group(policy: SandboxPolicy) -> Iterator[Group]:
    if policy.limits.memory is not None or policy.limits.processes is not None:
        yield Group(policy.limits.memory, policy.limits.processes)


def _rules(places: ExistingPaths, tmp: bool, writable: tuple[ExistingPath, ...]) -> tuple[LandlockRule, ...]:
    roots = [place.path for place in _sorted(writable)]
    shown = (SHARED_MEMORY, *(path for path in TEMPORARY if tmp and path in places.machine))
    # Where a root lies over one of these, or it lies in a root, it is the machine's own.
    own = tuple(path for path in shown if path not in roots and not _within(path, roots))
    return (
        LandlockRule("/", READ),
        LandlockRule("/proc", WRITE),
        LandlockRule("/dev", (*WRITE, "device")),
        # What Landlock grants above a root holds in the root too.
        *(LandlockRule(path, CHANGE if _has_one(path, roots) else ALL) for path in own),
        *(LandlockRule(path, CHANGE) for path in roots),
    )


def _has_one(path: str, roots: Iterable[str]) -> bool:
    return any(_within(root, (path,)) for root in roots)


def _sorted(places: Iterable[ExistingPath]) -> list[ExistingPath]:
    return sorted(places, key=lambda place: place.path)


def _within(path: str, above: Collection[str]) -> bool:
    """Whether one of these is a parent of the path."""
    parent = dirname(path)
    while parent != path:
        if parent in above:
            return True
        path, parent = parent, dirname(parent)
    return False
