"""Where the paths and globs of a grant lead (`filesystem.write = ["/opt/x_*"]`), when a policy is made.

INVARIANT: no link that a command may have made decides what a grant opens. A path of the settings that leads
over one is left out. A path that a call asks for is judged, and shown to a person, as the place it leads to.
If something is swapped afterwards, the grant does not open it (`sandbox.linux.host.paths`).

INVARIANT: a glob grants nothing that is not there, and the search for it is bounded. A glob beyond that bound
grants nothing, and a notice names it. `*`, `?` and `[...]` match characters of one name, except a dot at its
start.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import Request, RunCommand
from pinfold.model.settings import Settings
from pinfold.model.symlinks import real_path, walk_path
from pinfold.policy.paths import is_covered
from pinfold.settings.policy import expand


def granted(paths: tuple[str, ...], writable: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where the paths of the settings lead, and which of them a command may lead elsewhere: those do not."""
    lost = tuple(path for path in paths if any(is_covered(link, writable) for link in links_of(path)))
    return tuple(real_path(path) for path in paths if path not in lost), lost


def told(policy: SandboxPolicy, roots: tuple[str, ...]) -> SandboxPolicy:
    """The policy as a model is shown it: without paths that do not exist."""
    missing = absent(policy, roots)
    there = tuple(path for path in policy.additional_readwrite_paths if path not in missing)
    return replace(policy, additional_readwrite_paths=there)


def absent(policy: SandboxPolicy, roots: tuple[str, ...]) -> tuple[str, ...]:
    """What may be written but is not there: a pen opens what it finds, so commands cannot make it either."""
    paths = policy.additional_readwrite_paths
    return tuple(path for path in paths if not os.path.lexists(path) and not is_covered(path, roots))


def with_places(request: Request) -> Request:
    """The request, with the places that its policy's paths lead to."""
    if not isinstance(request, RunCommand) or request.policy is None:
        return request
    return replace(request, policy=_led(request.policy))


def _led(policy: SandboxPolicy) -> SandboxPolicy:
    def places(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(real_path(path) if path.startswith("/") else path for path in paths)

    return replace(
        policy,
        additional_readwrite_paths=places(policy.additional_readwrite_paths),
        additional_readonly_paths=places(policy.additional_readonly_paths),
    )


def links_of(path: str) -> Iterator[str]:
    """Every link that a path leads over, each where it really lies."""
    return (step.place for step in walk_path(path) if step.is_link)


MOST_FOUND = 500
MOST_LOOKED_AT = 20_000
"""Names that are looked at for one glob."""
SPECIAL = frozenset("*?[")


class GlobMatches(Struct, frozen=True):
    """What the globs of some settings match now."""

    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    unix_sockets: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class _TooMuchError(Exception):
    pass


def has_glob(path: str) -> bool:
    return not SPECIAL.isdisjoint(path)


def look(settings: Settings, roots: Sequence[str], home: str) -> GlobMatches | None:
    """None where no grant is a glob, which costs next to nothing."""
    files, sockets = settings.filesystem, settings.network.unix_sockets
    if not any(has_glob(path) for paths in (files.write, files.read, sockets) for path in paths):
        return None
    notices: list[str] = []
    base = roots[0] if roots else home

    def found(key: str, paths: Iterable[str]) -> tuple[str, ...]:
        named = (_named(key, path, base, home, notices) if has_glob(path) else [path] for path in paths)
        return tuple(chain.from_iterable(named))

    return GlobMatches(
        found("filesystem.write", files.write),
        found("filesystem.read", files.read),
        found("network.unix_sockets", sockets),
        tuple(notices),
    )


def found_in(paths: Iterable[str], roots: Sequence[str], home: str) -> tuple[str, ...]:
    """The paths, each glob replaced by what it matches."""
    base = roots[0] if roots else home
    named = (_named("", path, base, home, []) if has_glob(path) else [path] for path in paths)
    return tuple(chain.from_iterable(named))


def with_found(settings: Settings, found: GlobMatches | None) -> Settings:
    """The settings, each glob replaced by what it matches."""
    if found is None:
        return settings
    return replace(
        settings,
        filesystem=replace(settings.filesystem, write=found.write, read=found.read),
        network=replace(settings.network, unix_sockets=found.unix_sockets),
    )


def _named(key: str, path: str, base: str, home: str, notices: list[str]) -> list[str]:
    pattern = expand(path, base, home)
    try:
        matches = matching(pattern)
    except _TooMuchError as error:
        notices.append(f"`{path}` in `{key}` opens nothing: it {error}; name a directory above instead")
        return []
    if not matches:
        notices.append(f"`{path}` in `{key}` opens nothing: nothing there matches it")
    return matches


def matching(pattern: str) -> list[str]:
    """What is there now and matches, in order; of a file whose very name this is, that alone."""
    if os.path.lexists(pattern):
        return [pattern]
    places, looked_at = ["/"], 0
    for part in pattern.split("/")[1:]:
        if not has_glob(part):
            places = [os.path.join(place, part) for place in places]
            continue
        expression, below = _expression(part), []
        for place in places:
            for name in _names(place):
                looked_at += 1
                if looked_at > MOST_LOOKED_AT:
                    raise _TooMuchError(f"has more than {MOST_LOOKED_AT:,} names to be looked at")
                if expression.match(name) and (part.startswith(".") or not name.startswith(".")):
                    below.append(os.path.join(place, name))
        places = below
    found = sorted(place for place in places if os.path.lexists(place))
    if len(found) > MOST_FOUND:
        raise _TooMuchError(f"matches more than {MOST_FOUND} paths")
    return found


@lru_cache(64)
def _expression(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))


def _names(directory: str) -> Iterable[str]:
    try:
        with os.scandir(directory) as listed:
            for entry in listed:
                yield entry.name
    except OSError:
        return
