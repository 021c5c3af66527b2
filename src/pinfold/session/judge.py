"""The first half of a session: parse, gather the facts, decide."""

import os
from _thread import allocate_lock
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pinfold import shell
from pinfold.isolated import isolated_environment, shadowed_program
from pinfold.model.deadline import Deadline
from pinfold.model.decision import Decision, Verdict
from pinfold.model.facts import Facts, HookAnswer
from pinfold.model.locations import Origin, Span
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import Connect, Request, RunCommand
from pinfold.model.script import Script, Unknown
from pinfold.model.settings import Rule, Settings
from pinfold.model.symlinks import real_path
from pinfold.policy.decide import decide
from pinfold.sandbox.probe import is_inside_sandbox, sandbox_trouble
from pinfold.session.policy_source import Law
from pinfold.session.request import as_request, has_unread_variables, judged_line
from pinfold.shell.rule_text import shape
from pinfold.workspace.disk import Disk
from pinfold.workspace.granted_paths import with_places
from pinfold.workspace.made_inside import MadeInside

UNREAD = "it is given variables that are too long to be judged"
MOST_ANSWERS, MOST_FOLLOWED = 1024, 16
"""How many decisions are remembered, and by how many paths each at most."""


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
    """The projects an agent works in, the law there, and the answers to its requests."""

    def __init__(
        self,
        roots: tuple[str, ...],
        cwd: str,
        settings: str | Mapping[str, object] | None,
        overrides: Mapping[str, object] | None,
        environ: Mapping[str, str],
        talk: Talk,
        held: Mapping[str, object] | None = None,
        made: MadeInside | None = None,
    ) -> None:
        """`held` is what a resumed session had: settings are no wider."""
        self.law = Law(roots, settings, overrides, environ, held, made)
        self.roots, self.home = roots, self.law.home
        self.cwd = cwd
        self.talk = talk
        self._path = environ.get("PATH") or os.defpath
        self.sandbox_trouble = sandbox_trouble()
        """Why this machine cannot hold the fence, as far as is known; empty while nothing says so."""
        self._parser: shell.Parser | None = None
        self._has_parsed = False
        self._lock = allocate_lock()
        self.is_inside_sandbox = is_inside_sandbox(environ)
        self._answers: dict[Request, _Answer] = {}

    def at(self, cwd: str) -> "Judge":
        """The same projects and settings, for requests that start in this directory."""
        if cwd == self.cwd:
            return self
        other = Judge.__new__(Judge)
        vars(other).update(vars(self))
        other.cwd, other._answers = cwd, {}
        return other

    def check(self, request: Request | str | Sequence[str]) -> Decision:
        """What would be done about a request; a string is a shell line, a list is run without a shell."""
        return self.decided(as_request(request))

    def close(self) -> None:
        """End what the session keeps running."""
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    def decided(self, request: Request) -> Decision:
        """The same. Preconditions: a command's line is the one that will be run (`requests.as_request`)."""
        request = with_places(request)
        settings, policy = self.law.now()
        trouble = self.sandbox_trouble
        known = self._answers.get(request) if _is_plain(request) else None
        if known and known.stands(settings, policy, trouble):
            return known.decision
        disk = Disk()
        facts = self._facts(request, policy, disk, trouble, Deadline(settings.answer))
        if isinstance(request, RunCommand) and settings.hooks.before_command:
            # Hooks are told whether the line would be fenced, so it is judged once without them.
            sandboxed = decide(request, settings, facts).sandboxed
            facts = replace(facts, hooks=self._ask_hooks(request, settings, sandboxed))
            facts = replace(facts, deadline=Deadline(settings.answer))
            return decide(request, settings, facts)
        decision = decide(request, settings, facts)
        lasts = not facts.deadline.is_past
        if lasts and _is_plain(request) and not disk.was_searched and len(disk.followed) <= MOST_FOLLOWED:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[request] = _Answer(settings, policy, trouble, disk.followed, decision)
        return decision

    def judged_again(self, request: Request) -> Decision:
        """The same of what was judged just now, by the disk as it is by now. The workspace is not looked
        through for settings, so that who keeps others waiting can ask it."""
        settings, policy = self.law.last_settings, self.law.last_policy
        facts = self._facts(request, policy, Disk(), self.sandbox_trouble, Deadline(settings.answer))
        return decide(request, settings, facts)

    def is_lifted_by(self, request: RunCommand, rules: tuple[str, ...]) -> bool:
        """Whether nobody would have been asked about it if these stood in the user's `commands.allow`."""
        settings, policy = self.law.now()
        added = tuple(Rule(text, shape(text), Origin("user")) for text in rules)
        commands = replace(settings.commands, allow=(*settings.commands.allow, *added))
        facts = self._facts(request, policy, Disk(), self.sandbox_trouble, Deadline(settings.answer))
        return (
            decide(with_places(request), replace(settings, commands=commands), facts).verdict is Verdict.ALLOW
        )

    def check_host(self, host: str, port: int | None, policy: SandboxPolicy) -> Decision:
        """What would be done about a connection under a policy; without a port, about the most open one."""
        from pinfold.policy.connect import judge_connect
        from pinfold.policy.network_scope import ports_of, settings_under

        settings = settings_under(policy, self.law.settings)
        facts = Facts(self.cwd, self.roots, self.home, Disk(), policy)
        ports = (port,) if port is not None else ports_of(settings)
        found = [judge_connect(Connect(host, each), settings, facts) for each in ports]
        return next((each for each in found if each.verdict is not Verdict.DENY), found[0])

    def _facts(
        self, request: Request, policy: SandboxPolicy, disk: Disk, trouble: str, deadline: Deadline
    ) -> Facts:
        return Facts(
            cwd=self.start_of(request),
            roots=self.roots,
            home=self.home,
            files=disk,
            policy=policy,
            script=self._script(request, deadline),
            deadline=deadline,
            is_superuser=os.geteuid() == 0,
            sandbox_trouble=trouble,
            inside_sandbox=self.is_inside_sandbox,
            own=self.law.own_paths,
            obeyed_elsewhere=lambda: self.law.obeyed_elsewhere(policy),
            shadow=lambda name: self._shadow(name, policy, disk),
        )

    def _shadow(self, name: str, policy: SandboxPolicy, disk: Disk) -> str:
        disk.was_searched = True
        path = self.law.last_settings.environment_set.get("PATH") or self._path
        return shadowed_program(name, path, (*self.roots, *policy.additional_readwrite_paths))

    def _script(self, request: Request, deadline: Deadline) -> Script:
        if not isinstance(request, RunCommand):
            return Script("")
        with self._lock:
            if self._parser is None and self._has_parsed:
                # From the second line on, a parser is kept waiting: whoever asks twice will ask again.
                self._parser = shell.Parser(warm=True)
            self._has_parsed = True
            parser = self._parser
        script = shell.parse(judged_line(request), parser=parser, deadline=deadline)
        if has_unread_variables(request):
            unread = Unknown(UNREAD, Span(0, len(script.text)), runs=True, is_data=True)
            script = replace(script, unknowns=(*script.unknowns, unread))
        return script

    def start_of(self, request: Request) -> str:
        """The directory that a request starts in."""
        asked = request.cwd if isinstance(request, RunCommand) else None
        # A NUL in it is a reason to deny (`steps.nul`); until then any directory will do.
        return real_path(os.path.join(self.cwd, asked)) if asked and "\0" not in asked else self.cwd

    def _ask_hooks(self, request: RunCommand, settings: Settings, sandboxed: bool) -> tuple[HookAnswer, ...]:
        from pinfold.session.hooks import Question, ask_hooks

        question = Question(
            conversation_id=self.talk.conversation,
            generation_id=self.talk.generation,
            model=self.talk.model,
            command=judged_line(request),
            cwd=self.start_of(request),
            sandbox=sandboxed,
        )
        writable = (*self.roots, *self.law.last_policy.additional_readwrite_paths)
        return ask_hooks(question, settings.hooks, self.home, isolated_environment(os.environ, writable))


def _is_plain(request: Request) -> bool:
    """Whether nothing but the line and the settings decides: a directory of its own may be a link by now."""
    return isinstance(request, RunCommand) and request.policy is None and request.cwd is None
