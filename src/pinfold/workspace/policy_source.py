"""What requests are judged by: the settings in force, and the policy that they come to in a workspace.

Settings are words and paths. This module follows the paths and reads the workspace's ignore files. It adds to
the hidden and protected paths what Pinfold itself keeps, obeys and runs.
"""

import os
import sys
from _thread import allocate_lock
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain
from posixpath import join, normpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pinfold.model.agent_variables import AgentVariables
from pinfold.model.context import Context
from pinfold.model.errors import PolicyError
from pinfold.model.home import expanded, home_of, scratch_top
from pinfold.model.partly_hidden import partly_hidden
from pinfold.model.policy import TEMPORARY, Cap, IgnoreMapping, PolicyType, SandboxPolicy
from pinfold.model.settings import FilesystemSettings, Settings
from pinfold.model.symlinks import real_path
from pinfold.policy.hidden_paths import hidden_by
from pinfold.policy.paths import contains, is_covered
from pinfold.settings import LiveSettings, Sources, cap_of, policy_of, secrets
from pinfold.shell.rule_text import shape
from pinfold.workspace.granted_paths import GlobMatches, found_in, granted, has_glob, look, with_found
from pinfold.workspace.ignore_files import IgnoreFiles
from pinfold.workspace.made_inside import MadeInside
from pinfold.workspace.own_code import own_code, require_out_of_reach

if TYPE_CHECKING:
    from pinfold.workspace.env_files import EnvFiles
    from pinfold.workspace.git_places import GitPlaces
    from pinfold.workspace.startup_files import StartupFiles

MANAGED = "/etc/pinfold"
"""Where the administrator's files are, or would be."""

USUAL = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state"}
PROCESSES = "/proc/"


def require_own_directories(roots: tuple[str, ...], home: str, environ: Mapping[str, str]) -> None:
    """Raises if an agent's variables lead Pinfold to settings or state in a project.

    A project's `.env` may set XDG_CONFIG_HOME and XDG_STATE_HOME for an agent, and so for its hooks. A
    command of the sandbox could then have written the settings there, and the answers of questions. So could
    one in what a conversation has as /tmp.
    Accepted: a project that is the home, or holds it, holds those directories anyway.
    """
    if not isinstance(environ, AgentVariables):
        return
    for name, usual in USUAL.items():
        given = environ.get(name, "")
        if not given.startswith("/") or real_path(given) == real_path(join(home, usual)):
            continue
        within = [
            root for root in roots if not contains(root, home) and is_covered(real_path(given), (root,))
        ]
        if is_covered(real_path(given), (scratch := real_path(scratch_top()),)):
            within.append(scratch)
        if within or normpath(given).startswith(PROCESSES):
            place = within[0] if within else PROCESSES
            raise PolicyError(
                f"{name} leads into {place}, and a file of the project may have set it",
                help=f"set {name} to a directory that commands cannot write, or unset it",
            )


class PolicySource:
    """The settings and the policy of a workspace. May be used from any thread.

    A changed settings file counts from the next look on.
    """

    def __init__(
        self,
        roots: tuple[str, ...],
        settings: str | Mapping[str, object] | None,
        overrides: Mapping[str, object] | None,
        environ: Mapping[str, str],
        held: Mapping[str, object] | None = None,
        made: MadeInside | None = None,
        withheld: tuple[str, ...] = (),
    ) -> None:
        """`held` is what a resumed session had: settings are no wider. `withheld` is hidden in any case."""
        self.roots = roots
        self.home = real_path(home_of(environ))
        require_out_of_reach(roots, self.home)
        require_own_directories(roots, self.home, environ)
        self._environ = environ
        self._withheld = withheld
        self._lock = allocate_lock()
        self._ignore_files = IgnoreFiles(roots, self.home)
        self._made = MadeInside() if made is None else made
        self._env_files: EnvFiles | None = None
        self._closed_env_files: tuple[object, tuple[str, ...]] = (None, ())
        """What was found at a look, and what of it is hidden."""
        self._git_places: GitPlaces | None = None
        self._startup_files: StartupFiles | None = None
        self._own: tuple[object, tuple[str, ...]] = (None, ())
        self._settings: tuple[object, Settings] = (None, Settings())
        self._ungranted: tuple[str, ...] = ()
        self._found: GlobMatches | None = None
        """What the globs in grants matched when the last policy was made."""
        self._made_policy: tuple[tuple[object, object, object], SandboxPolicy]
        self._made_policy = (None, None, None), SandboxPolicy()
        self._live = LiveSettings(
            Sources.usual(roots, user=settings, overrides=overrides, environ=environ, held=held),
            shape,
            _require_host,
        )

    @property
    def settings(self) -> Settings:
        """The settings in force now; a changed file counts from the next request on. The workspace is not
        looked through for them."""
        with self._lock:
            return self._current()

    def now(self, cwd: str, sandbox_trouble: str) -> Context:
        """The settings and the policy in force, for a request in this directory."""
        settings, policy = self._taken()
        own = partial(self.own_paths, settings)
        return Context(settings, policy, self.roots, self.home, cwd, sandbox_trouble, own)

    def look_around(self) -> None:
        """Scans the workspace ahead of time, so that the next requests need not wait for the scan. Commands
        may run that began under other settings: their sandbox hides what is found, too."""
        files = self.settings.filesystem
        self._ignore_files.look_around(files.ignore_files, env_files=not files.env_files)
        self.closed_env_files()

    def closed_env_files(self) -> tuple[str, ...]:
        """The `.env` files that are hidden unless granted, as of the last look."""
        with self._lock:
            return self._env_files_now(self._current())

    def _env_files_now(self, settings: Settings) -> tuple[str, ...]:
        """Preconditions: the lock is held."""
        found = () if settings.filesystem.env_files else self._ignore_files.env_files
        seen, closed = self._closed_env_files
        if seen is not found:
            now = self._hidden_of(found, closed, settings, is_first=seen is None) if found else ()
            self._closed_env_files = found, closed if now == closed else now
        return self._closed_env_files[1]

    def _hidden_of(
        self, found: Collection[str], known: tuple[str, ...], settings: Settings, *, is_first: bool
    ) -> tuple[str, ...]:
        if self._env_files is None:
            # Imported here: many projects have no such file.
            from pinfold.workspace.env_files import EnvFiles

            self._env_files = EnvFiles(self.home, self._made)
        return self._env_files.hidden(found, known, self.roots, settings.filesystem.git_writes, is_first)

    def _current(self) -> Settings:
        written = self._live.current()
        if written is not self._settings[0]:
            spelled_out = replace(written, cap=self._cap(written))
            self._settings = written, spelled_out
        return self._settings[1]

    def _cap(self, settings: Settings) -> Cap:
        """What the administrator's own globs match when the settings are read."""
        capped = settings.cap.policy
        granted = (capped.additional_readwrite_paths, capped.additional_readonly_paths, capped.unix_sockets)
        if any(map(has_glob, chain.from_iterable(granted))):
            kinds = ("additional_readwrite_paths", "additional_readonly_paths", "unix_sockets")
            names = {
                kind: found_in(paths, self.roots, self.home)
                for kind, paths in zip(kinds, granted, strict=True)
            }
            settings = replace(settings, cap=replace(settings.cap, policy=replace(capped, **names)))
        return cap_of(settings, self.roots, self.home, self._environ)

    @property
    def files(self) -> tuple[str, ...]:
        """Every path that settings are read from, or would be if it were there."""
        return self._live.files

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of the settings: what was not believed, and what was not looked at."""
        return (
            *self._taken()[0].notices,
            *self._live.troubles,
            *self._ignore_files.notices,
            *self._ungranted,
            *(self._found.notices if self._found else ()),
        )

    @property
    def policy(self) -> SandboxPolicy:
        """The user's own policy, with the workspace and its ignore files."""
        return self._taken()[1]

    def _taken(self) -> tuple[Settings, SandboxPolicy]:
        with self._lock:
            settings = self._current()
            return settings, self._policy(settings)

    def _policy(self, settings: Settings) -> SandboxPolicy:
        mapping = self._ignore_files.mapping(
            settings.filesystem.ignore_files, env_files=not settings.filesystem.env_files
        )
        env_files = self._env_files_now(settings)
        made_of, policy = self._made_policy
        found = look(settings, self.roots, self.home)
        is_same = made_of[0] is settings and made_of[1] is mapping and made_of[2] is env_files
        if not is_same or found != self._found:
            self._found = found
            written = policy_of(with_found(settings, found), self.roots, self.home, self._environ)
            policy = enrich(self._resolved(written), self.roots, mapping)
            withheld = (*self._withheld, *self._keys(written, policy), policy.debug_output_dir or "")
            hidden = dict.fromkeys((*policy.hidden, *filter(None, withheld)))
            obeyed = (*_hiding_files(settings), *self._obeyed(settings, policy))
            protected = dict.fromkeys((*policy.protected, *obeyed))
            policy = replace(policy, hidden=tuple(hidden), protected=tuple(protected))
            policy = replace(policy, env_files=tuple(self._not_granted(env_files, policy)))
            self._made_policy = (settings, mapping, env_files), policy
        return policy

    def _not_granted(self, env_files: tuple[str, ...], policy: SandboxPolicy) -> Iterator[str]:
        """Those that no grant names, and that nothing else hides: what else hides them, no grant opens."""
        named = {*policy.additional_readonly_paths, *policy.additional_readwrite_paths}
        return (path for path in env_files if path not in named and not hidden_by(path, policy, self.roots))

    def _resolved(self, policy: SandboxPolicy) -> SandboxPolicy:
        """The policy with where its paths lead beside how they are written: `~/.ssh` may be a link."""
        writable = (*self.roots, *map(real_path, policy.additional_readwrite_paths))
        write, unwritten = granted(policy.additional_readwrite_paths, writable)
        read, unread = granted(policy.additional_readonly_paths, writable)
        _, unreached = granted(policy.unix_sockets, writable)
        sockets = tuple(path for path in policy.unix_sockets if path not in unreached)
        lost = dict.fromkeys((*unwritten, *unread, *unreached))
        self._ungranted = (
            *(
                f"{path} is not granted: it leads over a link that commands can change; name where it leads"
                for path in lost
            ),
            *(
                f"{path} is not shown: commands have one of their own; name what lies in it, or set"
                ' `filesystem.tmp = "shared"`'
                for path in TEMPORARY
                if path in read and path not in write
            ),
        )
        return replace(
            policy,
            hidden=_with_targets(policy.hidden),
            protected=_with_targets(policy.protected),
            additional_readwrite_paths=write,
            additional_readonly_paths=read,
            unix_sockets=sockets,
        )

    def _obeyed(self, settings: Settings, policy: SandboxPolicy) -> tuple[str, ...]:
        """What Pinfold itself reads or runs, where commands could write it: settings, words of hooks, and its
        own code and interpreter, as where it is installed in the project's own virtual environment."""
        hooks = self._hooks(settings)
        # A project's own file is in its `.pinfold`, which is protected by its name.
        files = (file for file in self._live.files if os.path.basename(os.path.dirname(file)) != ".pinfold")
        command = os.path.join(self.home, ".local", "bin", "pinfold")  # where installers link it
        paths = (*files, *hooks, *own_code(), command)
        writable = (*self.roots, *policy.additional_readwrite_paths)
        return tuple(path for path in _with_targets(paths) if is_covered(path, writable))

    def _hooks(self, settings: Settings) -> Iterator[str]:
        words = (word for hook in settings.hooks.before_command for word in hook.command)
        return (os.path.join(self.home, expanded(word, self.home)) for word in words)

    def own_paths(self, settings: Settings) -> tuple[str, ...]:
        """What Pinfold itself obeys, runs or remembers, wherever it lies: no command may ever write it."""
        if self._own[0] is not settings:
            files = (path for file in self._live.files for path in (file, *_own_directory(file)))
            code = (*(each for each in own_code() if each != sys.base_prefix), os.path.dirname(os.__file__))
            paths = (*self._withheld, *files, *self._hooks(settings), *code, sys.executable, MANAGED)
            self._own = settings, _with_targets(tuple(filter(None, paths)))
        return self._own[1]

    def obeyed_elsewhere(self, policy: SandboxPolicy) -> Mapping[str, str]:
        """What git's configuration makes it run or include in the projects, as far as the user's and that of
        the projects' own repositories tell; and where links from the home lead."""
        from pinfold.workspace.git_places import GitPlaces
        from pinfold.workspace.repository import repositories_around
        from pinfold.workspace.startup_files import StartupFiles

        tops = (*self.roots, *policy.additional_readwrite_paths)
        with self._lock:
            if self._git_places is None or self._startup_files is None:
                self._git_places = GitPlaces(self.home, self._environ)
                self._startup_files = StartupFiles(self.home, self._environ)
            found = chain.from_iterable(map(repositories_around, self.roots))
            return {**self._startup_files.of(tops), **self._git_places.of(found, tops)}

    def _keys(self, *policies: SandboxPolicy) -> Iterator[str]:
        """What is hidden like `~/.ssh` itself, unless a grant names it: the ssh keys that lie elsewhere, and
        the secrets of our own home, where the session is given another."""
        grants = (each.additional_readwrite_paths + each.additional_readonly_paths for each in policies)
        granted = set(chain.from_iterable(grants))
        ours = real_path(home_of(os.environ))
        for home in dict.fromkeys((self.home, ours)):
            if home != self.home:
                yield from _with_targets(tuple(secrets(granted, home)))
            if os.path.exists(os.path.join(home, ".ssh", "config")):
                from pinfold.workspace.ssh_identities import identity_files

                yield from (path for path in identity_files(home) if path not in granted)


def _hiding_files(settings: Settings) -> tuple[str, ...]:
    """The names of ignore files that are not in the list of protected names: an agent must not choose what is
    hidden from it, by any file."""
    listed = FilesystemSettings().ignore_files
    return tuple(name for name in settings.filesystem.ignore_files if name not in listed)


def _with_targets(entries: tuple[str, ...]) -> tuple[str, ...]:
    # Most of these lie side by side: their directories are resolved once, not once for each.
    resolved = lru_cache(maxsize=None)(real_path)

    def target(entry: str) -> str:
        directory, name = os.path.split(entry)
        place = os.path.join(resolved(directory), name)
        return real_path(place) if os.path.islink(place) else place

    partly = {entry: found for entry in entries if (found := partly_hidden(entry))}
    paths = (entry for entry in entries if entry.startswith("/") and "*" not in entry and entry not in partly)
    led = (entry.replace(found.directory, target(found.directory), 1) for entry, found in partly.items())
    return tuple(dict.fromkeys((*entries, *map(target, paths), *led)))


def _own_directory(file: str) -> tuple[str, ...]:
    """The directory of a settings file that holds nothing else."""
    directory = os.path.dirname(file)
    return (directory,) if os.path.basename(directory) in ("pinfold", ".pinfold") else ()


def _require_host(pattern: str, key: str) -> None:
    # Imported here: most settings name no hosts.
    from pinfold.policy.hosts import require_pattern

    require_pattern(pattern, key)


def enrich(policy: SandboxPolicy, roots: tuple[str, ...], mapping: IgnoreMapping) -> SandboxPolicy:
    """The policy with the workspace's folders and ignore files; no field of it is lost."""
    return with_ignore_mapping(with_workspace(policy, roots), mapping)


def with_workspace(policy: SandboxPolicy, roots: tuple[str, ...]) -> SandboxPolicy:
    """The policy with several folders writable under `workspace-write`; a single one already is."""
    if policy.type is not PolicyType.WORKSPACE_READWRITE or len(roots) <= 1:
        return policy
    writable = dict.fromkeys((*policy.additional_readwrite_paths, *roots))
    return replace(policy, additional_readwrite_paths=tuple(writable))


def with_ignore_mapping(policy: SandboxPolicy, mapping: IgnoreMapping) -> SandboxPolicy:
    """The policy with files hidden that ignore files name, unless there is no sandbox to hide them."""
    if policy.type is PolicyType.INSECURE_NONE or not mapping:
        return policy
    # Imported here: most workspaces have no ignore files, and every start would pay for the matcher.
    from pinfold.policy.ignore import united
    from pinfold.policy.paths import require_text

    for text in (text for directory, patterns in mapping.items() for text in (directory, *patterns)):
        require_text(text, "an ignore file's name or pattern")
    return replace(policy, ignore_mapping=united(policy.ignore_mapping, mapping))
