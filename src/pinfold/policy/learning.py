"""Turns what a run was denied into the smallest additions to the settings that would allow it. Pure.

INVARIANT: learning only proposes, and only what a person may add. It reports with the reason, and leaves to
the person: what they said no to; what is hidden or protected; what no answer can grant (`grants.objection`);
and a directory that contains more than was needed (the home, a project, a secret, a protected name,
programs).

The smallest addition for a path: a file that is changed in place is proposed by its own path. To create, move
or remove a name, a command needs the directory of that name. A directory that a program creates is proposed
itself; the person who accepts creates it, since to allow creating it would need the directory above. So
everything in a new directory is one entry, and no entry lies in another. If a run creates more than a few
side by side, as in a package cache, the next run would create others. Then the directory around them is one
entry, unless there is an objection to it or something in it was left to the person.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from posixpath import basename, dirname

from msgspec import Struct

from pinfold.model.decision import Reason, StepCode, Verdict
from pinfold.model.hosts import canonical, special_kind
from pinfold.model.policy import TEMPORARY, PolicyType
from pinfold.model.request import Connect
from pinfold.model.violation import READ
from pinfold.policy.connect import reason_of
from pinfold.policy.explain_violation import writable_place
from pinfold.policy.grants import (
    ANYWHERE,
    GrantContext,
    GrantObjection,
    is_covered_by,
    is_too_much,
    objection,
)
from pinfold.policy.hidden_paths import hidden_by
from pinfold.policy.hosts import Pattern
from pinfold.policy.network_scope import settings_under
from pinfold.policy.paths import contains, is_covered, outermost
from pinfold.policy.shipped_protected import protected_by

WRITE, GIT_WRITES = "filesystem.write", "filesystem.git_writes"
HOSTS, SOCKETS, COMMANDS = "network.allow", "network.unix_sockets", "commands.allow"
RUN, CONNECT, MKDIR = "run", "connect", "mkdir"
OF_THE_PEN = ("", "warden", "resolve")
"""Operations about a sandbox as a whole: it died, it cannot look up names, or it had too many violations."""

SYSTEM = ("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr")
WINDOWS = ("/proc", "/sys", "/dev")
SHARED_MEMORY = "/dev/shm"  # noqa: S108
UNPROPOSED_KINDS = ("metadata", "link-local", "multicast", "unspecified", "reserved")
COMMANDING = {
    "docker.sock": "a program that connects to Docker can do anything on this machine",
    "podman.sock": "a program that connects to Podman can start programs outside the sandbox",
    "containerd.sock": "a program that connects to containerd can do anything on this machine",
    "crio.sock": "a program that connects to CRI-O can do anything on this machine",
    "bus": "a program that connects to the session bus can start programs outside the sandbox",
    "system_bus_socket": "a program that connects to the system bus can start programs outside the sandbox",
    "private": "a program that connects to systemd can start programs outside the sandbox",
    "X": "a program that connects to the display can type into every window",
    "wayland-": "a program that connects to the display can start programs outside the sandbox",
    "default": "a terminal multiplexer runs every command sent to it",
}
"""Sockets that only a person may add by hand, by name without the number of the display."""
LOADED = frozenset(("site-packages", "dist-packages"))
"""Directories that Python loads from, at any depth."""
FEW = 4
"""New directories side by side that are proposed one by one."""
NO = "you said no"


class PersonAnswer(Enum):
    """How a person answered a question about it."""

    NOTHING = "nothing"
    """No question was asked, or none was answered."""
    NO = "no"
    YES = "yes"


class WantedAccess(Struct, frozen=True):
    """One access that a run wanted."""

    operation: str
    """The operation of a violation; `run` for the command itself."""
    paths: tuple[str, ...]
    """The paths that it changes, and its source; the host and port, or the socket, of a connect; the rules
    that would have allowed a command."""
    rule: str = ""
    why: str = ""
    program: str = ""
    answer: PersonAnswer = PersonAnswer.NOTHING
    is_git: bool = False
    directory: str = ""
    """A directory that a person allowed as a whole."""

    @property
    def is_host(self) -> bool:
        return self.operation == CONNECT and not self.paths[0].startswith("/")


class ProposedSetting(Struct, frozen=True, order=True):
    """One more value for the settings."""

    key: str
    value: str
    """The value as TOML text without quotes; `true` for a switch."""


class NotProposed(Struct, frozen=True):
    """An access that is reported and not proposed."""

    record: WantedAccess
    why: str


class Proposal(Struct, frozen=True):
    entries: tuple[ProposedSetting, ...] = ()
    not_proposed: tuple[NotProposed, ...] = ()
    new_directories: tuple[str, ...] = ()
    """Directories among the entries that do not exist yet."""


class MachineFacts(Struct, frozen=True):
    """Facts about the machine that a proposal depends on."""

    is_there: Callable[[str], bool]
    programs: tuple[str, ...] = ()
    """The directories in `PATH`."""
    variables: Mapping[str, str] = {}
    """Variables that name sockets, such as `SSH_AUTH_SOCK`."""


def propose(records: Iterable[WantedAccess], context: GrantContext, machine: MachineFacts) -> Proposal:
    """The smallest additions that would have allowed all of it, except for `not_proposed`."""
    entries: list[ProposedSetting] = []
    places: list[str] = []
    not_proposed: list[NotProposed] = []
    wanted_access = tuple(dict.fromkeys(records))
    denied = tuple(each for each in wanted_access if each.answer is PersonAnswer.NO and _is_write(each))
    for record in wanted_access:
        if why := _objection(record, context, machine) or _against_denied(record, denied, context, machine):
            not_proposed.append(NotProposed(record, why))
        elif _is_write(record):
            places += _places(record, context, machine)
        else:
            entries += _entries(record, context, machine)
    refused = [path for each in not_proposed for path in each.record.paths]
    wanted = outermost([*places, *_around_many(outermost(places), refused, context, machine)])
    entries += [ProposedSetting(WRITE, spelled(place, context.home)) for place in wanted]
    new_directories = tuple(place for place in wanted if not machine.is_there(place))
    return Proposal(tuple(sorted(set(entries))), tuple(not_proposed), new_directories)


def spelled(path: str, home: str) -> str:
    """The path as a person would write it, with `~`."""
    return f"~{path[len(home) :]}" if path != home and contains(home, path) and home != "/" else path


def _is_write(record: WantedAccess) -> bool:
    return not record.is_git and record.operation not in (READ, RUN, CONNECT, *OF_THE_PEN)


def _entries(record: WantedAccess, context: GrantContext, machine: MachineFacts) -> list[ProposedSetting]:
    """Preconditions: there is no objection."""
    if record.operation == RUN:
        return [ProposedSetting(COMMANDS, rule) for rule in record.paths]
    if record.is_git:
        return [ProposedSetting(GIT_WRITES, "true")]
    if not record.is_host:
        path = record.paths[0]
        variable = _variable(path, machine)
        return [ProposedSetting(SOCKETS, f"${variable}" if variable else spelled(path, context.home))]
    request = _connect(record)
    if _reason(request, context).verdict is Verdict.ALLOW:
        return []  # it was added to the settings meanwhile
    return [ProposedSetting(HOSTS, str(Pattern(canonical(request.host), request.port)))]


def _places(record: WantedAccess, context: GrantContext, machine: MachineFacts) -> list[str]:
    """The paths that must become writable for it."""
    if record.directory:
        needed = [record.directory]
    elif record.operation == MKDIR:
        needed = list(record.paths)
    else:
        needed = [writable_place(record.operation, path, machine.is_there) for path in record.paths]
    return [place for place in needed if not is_covered(place, context.writable)]


def _around_many(
    places: Iterable[str], refused: list[str], context: GrantContext, machine: MachineFacts
) -> list[str]:
    """The directories that contain more than a few new ones of these."""
    new = Counter(dirname(place) for place in places if not machine.is_there(place))
    return [
        directory
        for directory, count in new.items()
        if count > FEW
        and not is_covered_by(refused, directory)
        and not _against_place(directory, context, machine)
    ]


# The objection to proposing it; empty if there is none.


def _objection(record: WantedAccess, context: GrantContext, machine: MachineFacts) -> str:
    if record.operation in (READ, *OF_THE_PEN):
        return record.why
    if record.answer is PersonAnswer.NO:
        return NO
    if record.operation == RUN:
        return "" if record.paths else record.why
    if record.operation != CONNECT and context.policy.type is PolicyType.WORKSPACE_READONLY:
        return "the policy is read-only"
    if record.is_git:
        return _message(objection(("git", *record.paths), record.operation, record.paths, context))
    if record.operation != CONNECT:
        return _against_write(record, context, machine)
    return _against_host(record, context) if record.is_host else _against_socket(record, context, machine)


def _against_host(record: WantedAccess, context: GrantContext) -> str:
    request = _connect(record)
    reason = _reason(request, context)
    if reason.verdict is Verdict.ALLOW:
        unreached = f"it is already allowed, but could not be reached: {record.why}"
        return "" if record.answer is PersonAnswer.YES else unreached
    if context.settings.origin(HOSTS).layer == "managed":
        return "your administrator decides which hosts are allowed"
    if reason.step is not StepCode.SPECIAL_ADDRESS:
        return "" if reason.step is StepCode.NETWORK_ACCESS else reason.message
    kind = special_kind(canonical(request.host))
    by_hand = f"it is a {kind} address; add it to `{HOSTS}` by hand if you want it"
    return by_hand if kind in UNPROPOSED_KINDS else ""


def _connect(record: WantedAccess) -> Connect:
    host, _, port = record.paths[0].rpartition(":")
    return Connect(host.strip("[]"), int(port) if port.isdecimal() else 0)


def _reason(request: Connect, context: GrantContext) -> Reason:
    return reason_of(request, settings_under(context.policy, context.settings))


def _against_socket(record: WantedAccess, context: GrantContext, machine: MachineFacts) -> str:
    path = record.paths[0]
    if hidden_by(path, context.policy, context.roots) or is_covered(path, context.own):
        return "it is hidden, and this cannot be granted"
    if is_covered(path, context.writable):
        return "it is in a directory that commands can write, so it could be replaced"
    if _variable(path, machine):
        return ""
    if why := COMMANDING.get(basename(path).rstrip("0123456789")):
        return f"{why}; add it to `{SOCKETS}` by hand if you want it"
    return _against_spelling(path)


def _variable(path: str, machine: MachineFacts) -> str:
    return next((name for name, value in machine.variables.items() if value == path), "")


def _against_write(record: WantedAccess, context: GrantContext, machine: MachineFacts) -> str:
    if record.rule:
        return f"it is protected: {record.why}"
    if why := _message(objection(("write", *record.paths), record.operation, record.paths, context)):
        return why
    places = _places(record, context, machine)
    for path in record.paths if places else ():
        if name := protected_by(path, ANYWHERE, context.policy.protected):
            return f"it is protected: {name.why}"
        if LOADED.intersection(path.split("/")):
            return "Python loads files from there into programs that you start"
    return next(filter(None, (_against_place(place, context, machine) for place in places)), "")


def _against_denied(
    record: WantedAccess, denied: tuple[WantedAccess, ...], context: GrantContext, machine: MachineFacts
) -> str:
    """Why an entry would also allow a denied access: it covers a whole directory and every way of writing."""
    places = _places(record, context, machine) if denied and _is_write(record) else []
    for refused in denied:
        if any(is_covered(needed, places) for needed in _places(refused, context, machine)):
            return f"it would also allow `{refused.paths[0]}`, to which you said no"
    return ""


def _against_place(place: str, context: GrantContext, machine: MachineFacts) -> str:
    if is_covered(place, WINDOWS) and not is_covered(place, (SHARED_MEMORY,)):
        return "each sandbox has its own"
    if is_covered(place, TEMPORARY) and context.policy.disable_tmp_write:
        return "`filesystem.tmp` forbids writing there"
    if is_covered(place, SYSTEM):
        return "it holds system files that other programs run or read"
    if is_covered(place, machine.programs):
        return "programs that you start are searched for there (PATH)"
    named = protected_by(place, ANYWHERE, context.policy.protected)
    if named or is_too_much(place, context) or is_covered_by(machine.programs, place):
        return f"it would open all of `{place}`, which holds more than was needed"
    return _against_spelling(place)


def _against_spelling(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not valid text"
    return "its name would be read as a pattern" if {*path} & {*"*?["} else ""


def _message(found: GrantObjection | None) -> str:
    return found.message if found else ""
