"""The user's policy, as the settings in force give it: `Settings` becomes a `SandboxPolicy`.

Decides what the words of the file mean for paths: `~` is home, a relative grant starts at the first
root, a relative restriction holds in every root. It asks no disk, so links are not followed here. A socket
may be named by the variable that tells programs of it, `$SSH_AUTH_SOCK`: its path differs with each login.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import isabs, join, normpath
from types import MappingProxyType

from msgspec.structs import replace

from pinfold.model.partly_hidden import hidden_except
from pinfold.model.policy import TEMPORARY, Cap, NetworkRules, SandboxPolicy
from pinfold.model.settings import NetworkAccess, Settings, TmpAccess
from pinfold.settings.defaults import MOVED, NEEDED, SECRETS

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def policy_of(
    settings: Settings, roots: Sequence[str], home: str, environ: Mapping[str, str] = NO_VARIABLES
) -> SandboxPolicy:
    files, network = settings.filesystem, settings.network
    shared = TEMPORARY if files.tmp is TmpAccess.SHARED else ()
    write = _granted((*files.write, *shared), roots, home)
    read = _granted(files.read, roots, home)
    hidden = (*_named(files.hide, roots, home), *secrets({*write, *read}, home, roots, environ))
    return SandboxPolicy(
        type=settings.sandbox.policy,
        network_access=network.access is NetworkAccess.ALL,
        additional_readwrite_paths=write,
        additional_readonly_paths=read,
        debug_output_dir=_debug_directory(settings, home),
        block_git_writes=not files.git_writes,
        disable_tmp_write=files.tmp is TmpAccess.NONE,
        hidden=tuple(dict.fromkeys(hidden)),
        protected=_named(files.protect, roots, home),
        network=_network(settings),
        unix_sockets=_granted(_sockets(network.unix_sockets, environ), roots, home),
        published_ports=network.publish,
        environment=settings.environment,
        limits=settings.limits,
    )


def cap_of(
    settings: Settings, roots: Sequence[str], home: str, environ: Mapping[str, str] = NO_VARIABLES
) -> Cap:
    """The administrator's cap with its paths spelled out as in `policy_of`.

    A second root is writable as an addition to the first (`enrich`), and is no grant to be capped.
    """
    cap, written = settings.cap, settings.cap.policy
    spelled_out = replace(
        written,
        hidden=_named(written.hidden, roots, home),
        protected=_named(written.protected, roots, home),
        additional_readwrite_paths=_granted(written.additional_readwrite_paths, roots, home),
        additional_readonly_paths=_granted(written.additional_readonly_paths, roots, home),
        unix_sockets=_granted(_sockets(written.unix_sockets, environ), roots, home),
    )
    if "additional_readwrite_paths" in cap.grants:
        writable = (*spelled_out.additional_readwrite_paths, *roots)
        spelled_out = replace(spelled_out, additional_readwrite_paths=tuple(dict.fromkeys(writable)))
    return Cap(spelled_out, cap.grants)


def _network(settings: Settings) -> NetworkRules:
    """Under `none` no host is allowed, listed or not; under `all` only the denied hosts count."""
    network = settings.network
    allow = {NetworkAccess.NONE: (), NetworkAccess.ALL: None}
    return NetworkRules(allow=allow.get(network.access, network.allow), deny=network.deny)


def expand(path: str, base: str, home: str) -> str:
    """An absolute path, its `~` and dots resolved; `~user` stays the name of a directory."""
    if path == "~" or path.startswith("~/"):
        path = join(home, path[2:])
    return normpath(join(base, path))


def _debug_directory(settings: Settings, home: str) -> str | None:
    path = settings.sandbox.debug_output_dir
    return expand(path, home, home) if path else None


def _sockets(paths: Iterable[str], environ: Mapping[str, str]) -> Iterator[str]:
    """A variable that is not set, or says no path, names no socket."""
    for path in paths:
        if not path.startswith("$"):
            yield path
        elif isabs(value := environ.get(path[1:], "")):
            yield value


def _granted(paths: Iterable[str], roots: Sequence[str], home: str) -> tuple[str, ...]:
    base = roots[0] if roots else home
    return tuple(dict.fromkeys(expand(path, base, home) for path in paths))


def _named(paths: Iterable[str], roots: Sequence[str], home: str) -> tuple[str, ...]:
    """A bare name stays one, and holds at any depth; a relative path holds in every root."""
    found: list[str] = []
    for path in paths:
        if "/" in path.rstrip("/") or path.startswith(("~", "/")):
            found += (expand(path, root, home) for root in roots or (home,))
        else:
            found.append(path.rstrip("/"))
    return tuple(dict.fromkeys(found))


def secrets(
    reopened: set[str], home: str, roots: Sequence[str] = (), environ: Mapping[str, str] = NO_VARIABLES
) -> list[str]:
    """The shipped secrets, less those that a grant names.

    A grant of a secret's own path opens it with all that is in it. A grant of something above
    (`~/.config`) does not: a person who writes that rarely thinks of the browser profiles below. A grant of
    something inside a secret leaves the rest of it hidden.

    What agents need of their own directories is shown in them, of kept outputs only those of these roots.
    """
    needed = {expand(path, home, home): shown for path, shown in NEEDED.items()}
    needed |= _moved(home, roots, environ)
    paths = dict.fromkeys((*(expand(path, home, home) for path, _ in SECRETS), *needed))
    opened = [path + "/" for path in paths if path in reopened]
    closed = [path for path in paths if path not in reopened and not path.startswith(tuple(opened))]
    return [hidden_except(path, _shown(needed[path], roots)) if path in needed else path for path in closed]


def _moved(home: str, roots: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """The directories that variables name in place of those in the home, unless work is done in one."""
    found = {}
    for variable, (below, path) in MOVED.items():
        place = normpath(join(environ.get(variable, ""), below))
        if isabs(place) and not any(f"{each}/".startswith(f"{place}/") for each in (home, *roots)):
            found[place] = NEEDED[path]
    return found


def _shown(patterns: Iterable[str], roots: Sequence[str]) -> Iterator[str]:
    """Each pattern, once for each root, with the names that agents call it by."""
    for pattern in patterns:
        if "{" in pattern:
            yield from dict.fromkeys(
                pattern.format(path=_by_path(root), name=_by_name(root)) for root in roots
            )
        else:
            yield pattern


def _by_path(root: str) -> str:
    """A project in Claude Code's words; they are longer where it works in a directory below."""
    return re.sub("[^a-zA-Z0-9]", "-", root)[:200]


def _by_name(root: str) -> str:
    """A project in Gemini CLI's words, which adds a number to the second of a name."""
    return re.sub("[^a-z0-9]+", "-", root.rpartition("/")[2].lower()).strip("-") or "project"
