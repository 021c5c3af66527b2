"""The first half of a session: parse, gather the facts, decide."""

import os
import sys
from _thread import allocate_lock
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

import pinfold
from pinfold import shell
from pinfold.model.decision import Decision, Verdict
from pinfold.model.errors import PolicyError
from pinfold.model.facts import Facts, HookAnswer
from pinfold.model.home import expanded, home_of
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import Connect, Request, RunCommand
from pinfold.model.script import Script
from pinfold.model.settings import Rule, Settings
from pinfold.model.text import Origin
from pinfold.policy.decide import decide
from pinfold.policy.enrich import enrich
from pinfold.policy.paths import is_covered
from pinfold.session.disk import Disk, IgnoreFiles, real_path
from pinfold.session.leading import granted, with_places
from pinfold.session.probe import fence_trouble, is_inside_fence
from pinfold.session.requests import as_request, line_of
from pinfold.session.state import state_directory
from pinfold.settings import Live, Sources, cap_of, policy_of, secrets
from pinfold.shell.shape import shape

if TYPE_CHECKING:
    from pinfold.policy.elevation import Ground

MOST_ANSWERS, MOST_FOLLOWED = 1024, 16
"""How many decisions are remembered, and by how many paths each at most."""
MANAGED = "/etc/pinfold"
"""Where the administrator's files are, or would be."""


class Talk(Struct, frozen=True):
    """Whose work this is, as hooks are told."""

    conversation: str = ""
    generation: str = ""
    model: str = ""


class _Answer(Struct, frozen=True):
    """A decision that stands as long as what it was made of."""

    settings: Settings
    policy: SandboxPolicy
    trouble: str
    followed: dict[str, str]
    """Where the paths led that it asked of the disk."""
    decision: Decision

    def stands(self, settings: Settings, policy: SandboxPolicy, trouble: str) -> bool:
        is_same = self.settings is settings and self.policy is policy and self.trouble == trouble
        return is_same and all(real_path(path) == there for path, there in self.followed.items())


class Judge:
    """The projects an agent works in, the settings in force, and the answers to its requests."""

    def __init__(
        self,
        roots: tuple[str, ...],
        cwd: str,
        settings: str | Mapping[str, object] | None,
        overrides: Mapping[str, object] | None,
        environ: Mapping[str, str],
        talk: Talk,
    ) -> None:
        self.roots = roots
        self.cwd = cwd
        self.home = os.path.realpath(home_of(environ))
        self.talk = talk
        self.fence_trouble = fence_trouble()
        """Why this machine cannot hold the fence, as far as is known; empty while nothing says so."""
        self._environ = environ
        self._withheld = (state_directory(environ),)
        self._parser: shell.Parser | None = None
        self._has_parsed = False
        self._lock = allocate_lock()
        self._ignore_files = IgnoreFiles(roots)
        self.is_inside_fence = is_inside_fence(environ)
        self._answers: dict[Request, _Answer] = {}
        self._own: tuple[object, tuple[str, ...]] = (None, ())
        self._last_settings: tuple[object, Settings] = (None, Settings())
        self._ungranted: tuple[str, ...] = ()
        self._last_policy: tuple[tuple[object, object], SandboxPolicy] = ((None, None), SandboxPolicy())
        self._live = Live(
            Sources.usual(roots, user=settings, overrides=overrides, environ=environ), shape, _require_host
        )

    @property
    def settings(self) -> Settings:
        """The settings in force now; a changed file counts from the next request on. The workspace is not
        looked through for them."""
        with self._lock:
            return self._current()

    def _now(self) -> tuple[Settings, SandboxPolicy]:
        with self._lock:
            settings = self._current()
            return settings, self._policy(settings)

    def _current(self) -> Settings:
        written = self._live.current()
        if written is not self._last_settings[0]:
            spelled_out = replace(written, cap=cap_of(written, self.roots, self.home, self._environ))
            self._last_settings = written, spelled_out
        return self._last_settings[1]

    @property
    def last_settings(self) -> Settings:
        """The settings that the last request was judged by."""
        return self._last_settings[1]

    @property
    def last_policy(self) -> SandboxPolicy:
        """The user's own policy, as the last request was judged by it."""
        return self._last_policy[1]

    @property
    def files(self) -> tuple[str, ...]:
        """Every path that settings are read from, or would be if it were there."""
        return self._live.files

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of the settings: what was not believed, and what was not looked at."""
        return (
            *self._now()[0].notices,
            *self._live.troubles,
            *self._ignore_files.notices,
            *self._ungranted,
        )

    @property
    def policy(self) -> SandboxPolicy:
        """The user's own policy, with the workspace and its ignore files."""
        return self._now()[1]

    def _policy(self, settings: Settings) -> SandboxPolicy:
        mapping = self._ignore_files.mapping(settings.filesystem.ignore_files)
        made_of, policy = self._last_policy
        if made_of[0] is not settings or made_of[1] is not mapping:
            written = policy_of(settings, self.roots, self.home, self._environ)
            policy = enrich(self._resolved(written), self.roots, mapping)
            withheld = (*self._withheld, *self._keys(written, policy), policy.debug_output_dir or "")
            hidden = dict.fromkeys((*policy.hidden, *filter(None, withheld)))
            protected = dict.fromkeys((*policy.protected, *self._obeyed(settings, policy)))
            policy = replace(policy, hidden=tuple(hidden), protected=tuple(protected))
            self._last_policy = (settings, mapping), policy
        return policy

    def _resolved(self, policy: SandboxPolicy) -> SandboxPolicy:
        """The policy with where its paths lead beside how they are written: `~/.ssh` may be a link."""
        writable = (*self.roots, *map(os.path.realpath, policy.additional_readwrite_paths))
        write, unwritten = granted(policy.additional_readwrite_paths, writable)
        read, unread = granted(policy.additional_readonly_paths, writable)
        _, unreached = granted(policy.unix_sockets, writable)
        sockets = tuple(path for path in policy.unix_sockets if path not in unreached)
        lost = dict.fromkeys((*unwritten, *unread, *unreached))
        self._ungranted = tuple(
            f"{path} is not granted: it leads over a link that commands can change; name where it leads"
            for path in lost
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
        """What pinfold itself reads or runs, where commands could write it: settings, words of hooks, and its
        own code and interpreter, as where it is installed in the project's own virtual environment."""
        hooks = self._hooks(settings)
        # A project's own file is in its `.pinfold`, which is protected by its name.
        files = (file for file in self._live.files if os.path.basename(os.path.dirname(file)) != ".pinfold")
        paths = (*files, *hooks, os.path.dirname(pinfold.__file__), sys.prefix, sys.base_prefix)
        writable = (*self.roots, *policy.additional_readwrite_paths)
        return tuple(path for path in _with_targets(paths) if is_covered(path, writable))

    def _hooks(self, settings: Settings) -> Iterator[str]:
        words = (word for hook in settings.hooks.before_command for word in hook.command)
        return (os.path.join(self.home, expanded(word, self.home)) for word in words)

    def own_paths(self) -> tuple[str, ...]:
        """What pinfold itself obeys, runs or remembers, wherever it lies: no command is ever to write it."""
        settings = self.settings
        if self._own[0] is not settings:
            files = (path for file in self._live.files for path in (file, *_own_directory(file)))
            code = (os.path.dirname(pinfold.__file__), os.path.dirname(os.__file__), sys.executable)
            environment = (sys.prefix,) if sys.prefix != sys.base_prefix else ()
            paths = (*self._withheld, *files, *self._hooks(settings), *code, *environment, MANAGED)
            self._own = settings, _with_targets(tuple(filter(None, paths)))
        return self._own[1]

    def ground(self) -> "Ground":
        """What may be granted under the user's own policy is judged by this."""
        from pinfold.policy.elevation import Ground

        return Ground(self.policy, self.roots, self.home, self.own_paths(), self.settings)

    def _keys(self, *policies: SandboxPolicy) -> Iterator[str]:
        """What is hidden like `~/.ssh` itself, unless a grant names it: the ssh keys that lie elsewhere, and
        the secrets of our own home, where the session is given another."""
        grants = (each.additional_readwrite_paths + each.additional_readonly_paths for each in policies)
        granted = set(chain.from_iterable(grants))
        ours = os.path.realpath(home_of(os.environ))
        for home in dict.fromkeys((self.home, ours)):
            if home != self.home:
                yield from _with_targets(tuple(secrets(granted, home)))
            if os.path.exists(os.path.join(home, ".ssh", "config")):
                from pinfold.session.identities import identity_files

                yield from (path for path in identity_files(home) if path not in granted)

    def check(self, request: Request | str | Sequence[str]) -> Decision:
        """What would be done about a request; a string is a shell line, a list is run without a shell."""
        wanted = as_request(request)
        if isinstance(wanted, RunCommand):
            wanted = replace(wanted, command=line_of(wanted))
        return self.decided(wanted)

    def close(self) -> None:
        """End what the session keeps running."""
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    def decided(self, request: Request) -> Decision:
        request = with_places(request)
        settings, policy = self._now()
        trouble = self.fence_trouble
        known = self._answers.get(request) if _is_plain(request) else None
        if known and known.stands(settings, policy, trouble):
            return known.decision
        disk = Disk()
        facts = self._facts(request, policy, disk, trouble)
        if isinstance(request, RunCommand) and settings.hooks.before_command:
            # Hooks are told whether the line would be fenced, so it is judged once without them.
            sandboxed = decide(request, settings, facts).sandboxed
            facts = replace(facts, hooks=self._ask_hooks(request, settings, sandboxed))
            return decide(request, settings, facts)
        decision = decide(request, settings, facts)
        if _is_plain(request) and not disk.was_searched and len(disk.followed) <= MOST_FOLLOWED:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[request] = _Answer(settings, policy, trouble, disk.followed, decision)
        return decision

    def is_lifted_by(self, request: RunCommand, rules: tuple[str, ...]) -> bool:
        """Whether nobody would have been asked about it if these stood in the user's `commands.allow`."""
        settings, policy = self._now()
        added = tuple(Rule(text, shape(text), Origin("user")) for text in rules)
        commands = replace(settings.commands, allow=(*settings.commands.allow, *added))
        facts = self._facts(request, policy, Disk(), self.fence_trouble)
        return (
            decide(with_places(request), replace(settings, commands=commands), facts).verdict is Verdict.ALLOW
        )

    def check_host(self, host: str, port: int | None, policy: SandboxPolicy) -> Decision:
        """What would be done about a connection under a policy; without a port, about the most open one."""
        from pinfold.policy.connect import judge_connect
        from pinfold.policy.reach import ports_of, within

        settings = within(policy, self.settings)
        facts = Facts(self.cwd, self.roots, self.home, Disk(), policy)
        ports = (port,) if port is not None else ports_of(settings)
        found = [judge_connect(Connect(host, each), settings, facts) for each in ports]
        return next((each for each in found if each.verdict is not Verdict.DENY), found[0])

    def _facts(self, request: Request, policy: SandboxPolicy, disk: Disk, trouble: str) -> Facts:
        return Facts(
            cwd=self.start_of(request),
            roots=self.roots,
            home=self.home,
            files=disk,
            policy=policy,
            script=self._script(request),
            is_superuser=os.geteuid() == 0,
            fence_trouble=trouble,
            inside_fence=self.is_inside_fence,
        )

    def _script(self, request: Request) -> Script:
        if not isinstance(request, RunCommand):
            return Script("")
        with self._lock:
            if self._parser is None and self._has_parsed:
                # From the second line on, a parser is kept waiting: whoever asks twice will ask again.
                self._parser = shell.Parser(warm=True)
            self._has_parsed = True
            parser = self._parser
        return shell.parse(line_of(request), parser=parser)

    def start_of(self, request: Request) -> str:
        """The directory that a request starts in."""
        asked = request.cwd if isinstance(request, RunCommand) else None
        # A NUL in it is a reason to deny (`steps.nul`); until then any directory will do.
        return os.path.realpath(os.path.join(self.cwd, asked)) if asked and "\0" not in asked else self.cwd

    def _ask_hooks(self, request: RunCommand, settings: Settings, sandboxed: bool) -> tuple[HookAnswer, ...]:
        from pinfold.session.hooks import Question, ask_hooks

        question = Question(
            conversation_id=self.talk.conversation,
            generation_id=self.talk.generation,
            model=self.talk.model,
            command=line_of(request),
            cwd=self.start_of(request),
            sandbox=sandboxed,
        )
        return ask_hooks(question, settings.hooks, self.home)


def _is_plain(request: Request) -> bool:
    """Whether nothing but the line and the settings decides: a directory of its own may be a link by now."""
    return isinstance(request, RunCommand) and request.policy is None and request.cwd is None


def _with_targets(entries: tuple[str, ...]) -> tuple[str, ...]:
    # Most of these lie side by side: their directories are resolved once, not once for each.
    resolved = lru_cache(maxsize=None)(os.path.realpath)

    def target(entry: str) -> str:
        directory, name = os.path.split(entry)
        place = os.path.join(resolved(directory), name)
        return os.path.realpath(place) if os.path.islink(place) else place

    paths = (entry for entry in entries if entry.startswith("/") and "*" not in entry)
    return tuple(dict.fromkeys((*entries, *map(target, paths))))


def _own_directory(file: str) -> tuple[str, ...]:
    """The directory of a settings file that holds nothing else."""
    directory = os.path.dirname(file)
    return (directory,) if os.path.basename(directory) in ("pinfold", ".pinfold") else ()


def _require_host(pattern: str, key: str) -> None:
    # Imported here: most settings name no hosts.
    from pinfold.policy.hosts import require_pattern

    require_pattern(pattern, key)


def directory(path: str) -> str:
    if not os.path.isdir(path):
        raise PolicyError("is not a directory", where=path or "an empty path", help="give one that exists")
    return os.path.realpath(path)


def start_in(roots: tuple[str, ...]) -> str:
    """Where we are, if that is in one of the projects; else the first of them."""
    here = directory(os.getcwd())
    inside = not roots or any(f"{here}/".startswith(f"{root}/") for root in roots)
    return here if inside else roots[0]
