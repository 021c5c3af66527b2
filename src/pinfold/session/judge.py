"""The first stages of a session: parse, gather the facts, decide."""

import os
from _thread import allocate_lock
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from pinfold import shell
from pinfold.isolated import isolated_environment, shadowed_program
from pinfold.model.agent_variables import naming
from pinfold.model.context import Context
from pinfold.model.deadline import Deadline, DeadlinePassed
from pinfold.model.decision import Decision, Verdict, Widening
from pinfold.model.facts import Facts, HookAnswer
from pinfold.model.request import Request, RunCommand
from pinfold.model.script import Script, Unknown
from pinfold.model.settings import Rule
from pinfold.model.symlinks import real_path
from pinfold.model.text_positions import Origin, Span
from pinfold.policy.decide import decide
from pinfold.sandbox.probe import is_inside_sandbox, sandbox_trouble
from pinfold.session.request import as_request, has_unread_variables, judged_line
from pinfold.shell.rule_text import shape
from pinfold.state.directory import state_directory
from pinfold.workspace.disk_facts import Disk
from pinfold.workspace.granted_paths import with_places
from pinfold.workspace.made_inside import MadeInside
from pinfold.workspace.policy_source import PolicySource

UNREAD = "it is given variables that are too long to be judged"
MOST_ANSWERS, MOST_FOLLOWED = 1024, 16
"""How many decisions are remembered, and by how many paths each at most."""


class AgentTurn(Struct, frozen=True):
    """The conversation that requests belong to, as hooks are told."""

    conversation: str = ""
    generation: str = ""
    model: str = ""


class _CachedDecision(Struct, frozen=True):
    """A decision, which holds as long as what it was made of."""

    context: Context
    followed: dict[str, str]
    """Where the paths led that it asked of the disk."""
    decision: Decision

    def holds(self, context: Context) -> bool:
        was = self.context
        is_same = (
            was.settings is context.settings
            and was.policy is context.policy
            and was.sandbox_trouble == context.sandbox_trouble
        )
        return is_same and all(real_path(path) == there for path, there in self.followed.items())


class Judge:
    """Decides about the requests of a session. May be used from any thread."""

    def __init__(
        self,
        roots: tuple[str, ...],
        cwd: str,
        settings: str | Mapping[str, object] | None,
        overrides: Mapping[str, object] | None,
        environ: Mapping[str, str],
        turn: AgentTurn,
        held: Mapping[str, object] | None = None,
        made: MadeInside | None = None,
    ) -> None:
        """`held` is what a resumed session had: settings are no wider."""
        self.cwd = cwd
        self.turn = turn
        self._user, self._made = settings, made
        self.named_by: tuple[Mapping[str, str], ...] = ()
        """The variables that name what is obeyed outside, as they are and as they were."""
        self.adopt(environ)
        self.source = self._source_of(roots, overrides, held)
        self._parser: shell.Parser | None = None
        self._has_parsed = False
        self._lock = allocate_lock()
        self.is_inside_sandbox = is_inside_sandbox(environ)
        self._answers: dict[Request, _CachedDecision] = {}

    def _source_of(
        self,
        roots: tuple[str, ...],
        overrides: Mapping[str, object] | None,
        held: Mapping[str, object] | None,
    ) -> PolicySource:
        withheld = (state_directory(self._environ),)
        return PolicySource(roots, self._user, overrides, self._environ, held, self._made, withheld)

    def turn_to(
        self,
        roots: tuple[str, ...],
        overrides: Mapping[str, object] | None,
        held: Mapping[str, object] | None,
    ) -> None:
        """Judges by other projects or settings from the next request on. If they cannot be read, this raises
        and changes nothing."""
        self.source = self._source_of(roots, overrides, held)

    def adopt(self, environ: Mapping[str, str]) -> None:
        """Has these variables, in place of those it was made with, from the next `turn_to` on."""
        self._environ, self._path = environ, environ.get("PATH") or os.defpath
        if (found := naming(environ)) not in self.named_by:
            self.named_by = (*self.named_by, found)

    def at(self, cwd: str) -> "Judge":
        """Judges by the same, for requests that start in this directory."""
        if cwd == self.cwd:
            return self
        other = Judge.__new__(Judge)
        vars(other).update(vars(self))
        other.cwd, other._answers = cwd, {}
        return other

    @property
    def roots(self) -> tuple[str, ...]:
        return self.source.roots

    @property
    def home(self) -> str:
        return self.source.home

    def now(self, trouble: str | None = None) -> Context:
        """What a request is judged by that comes now. `trouble` says why there is no sandbox; by default the
        kernel's switches do."""
        return self.source.now(self.cwd, sandbox_trouble() if trouble is None else trouble)

    def check(self, request: Request | str | Sequence[str], trouble: str | None = None) -> Decision:
        """What would be done about a request; a string is a shell line, a list is run without a shell."""
        return self.decided(as_request(request), self.now(trouble))

    def close(self) -> None:
        """Ends the parser process that waits."""
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    def decided(self, request: Request, context: Context) -> Decision:
        """The decision about a request. Preconditions: a command's line is the one that will be run
        (`request.as_request`)."""
        request = with_places(request)
        known = self._answers.get(request) if _is_plain(request) else None
        if known and known.holds(context):
            return known.decision
        settings, disk = context.settings, Disk(self._environ)
        facts = self._facts(request, context, disk)
        if isinstance(request, RunCommand) and settings.hooks.before_command:
            # Hooks are told whether the line would be sandboxed, so it is judged once without them.
            sandboxed = decide(request, settings, facts).sandboxed
            facts = replace(facts, hooks=self._ask_hooks(request, context, sandboxed))
            facts = replace(facts, deadline=Deadline(settings.answer))
            return decide(request, settings, facts)
        decision = decide(request, settings, facts)
        lasts = not facts.deadline.is_past
        if lasts and _is_plain(request) and not disk.was_searched and len(disk.followed) <= MOST_FOLLOWED:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[request] = _CachedDecision(context, disk.followed, decision)
        return decision

    def judged_again(self, request: Request, context: Context) -> Decision:
        """The decision about a request in a context that it was judged in before, by the disk as it is now.
        Does not look through the workspace, so it may be called while others wait."""
        return decide(request, context.settings, self._facts(request, context, Disk(self._environ)))

    def foreseen(self, request: Request, decision: Decision) -> tuple[Widening, ...]:
        """What a line that will run in the sandbox wants beyond its policy, as far as its words tell, and a
        person may be asked for that."""
        if not isinstance(request, RunCommand) or not decision.sandboxed or decision.verdict is Verdict.DENY:
            return ()
        from pinfold.policy.foresight import find_wants

        context = self.now()
        with suppress(DeadlinePassed):
            facts = self._facts(with_places(request), context, Disk(self._environ))
            return find_wants(context.settings, decision.policy, facts)
        return ()

    def is_lifted_by(self, request: RunCommand, rules: tuple[str, ...], context: Context) -> bool:
        """Whether it would be allowed, without a question, with these rules in the user's
        `commands.allow`."""
        settings = context.settings
        added = tuple(Rule(text, shape(text), Origin("user")) for text in rules)
        commands = replace(settings.commands, allow=(*settings.commands.allow, *added))
        facts = self._facts(request, context, Disk(self._environ))
        return (
            decide(with_places(request), replace(settings, commands=commands), facts).verdict is Verdict.ALLOW
        )

    def _facts(self, request: Request, context: Context, disk: Disk) -> Facts:
        policy, source, deadline = context.policy, self.source, Deadline(context.settings.answer)
        return Facts(
            cwd=start_of(request, context.cwd),
            roots=context.roots,
            home=context.home,
            files=disk,
            policy=policy,
            script=self._script(request, deadline),
            deadline=deadline,
            is_superuser=os.geteuid() == 0,
            sandbox_trouble=context.sandbox_trouble,
            inside_sandbox=self.is_inside_sandbox,
            own=context.own,
            obeyed_elsewhere=lambda: source.obeyed_elsewhere(policy),
            shadow=lambda name: self._shadow(name, context, disk),
        )

    def _shadow(self, name: str, context: Context, disk: Disk) -> str:
        disk.was_searched = True
        path = context.settings.environment_set.get("PATH") or self._path
        return shadowed_program(name, path, (*context.roots, *context.policy.additional_readwrite_paths))

    def _script(self, request: Request, deadline: Deadline) -> Script:
        if not isinstance(request, RunCommand):
            return Script("")
        with self._lock:
            if self._parser is None and self._has_parsed:
                # From the second line on, a parser is kept waiting: after two lines there will be more.
                self._parser = shell.Parser(warm=True)
            self._has_parsed = True
            parser = self._parser
        script = shell.parse(judged_line(request), parser=parser, deadline=deadline)
        if has_unread_variables(request):
            unread = Unknown(UNREAD, Span(0, len(script.text)), runs=True, is_data=True)
            script = replace(script, unknowns=(*script.unknowns, unread))
        return script

    def _ask_hooks(self, request: RunCommand, context: Context, sandboxed: bool) -> tuple[HookAnswer, ...]:
        from pinfold.session.hooks import HookQuestion, ask_hooks

        question = HookQuestion(
            conversation_id=self.turn.conversation,
            generation_id=self.turn.generation,
            model=self.turn.model,
            command=judged_line(request),
            cwd=start_of(request, context.cwd),
            sandbox=sandboxed,
        )
        writable = (*context.roots, *context.policy.additional_readwrite_paths)
        environment = isolated_environment(os.environ, writable)
        return ask_hooks(question, context.settings.hooks, context.home, environment)


def start_of(request: Request, cwd: str) -> str:
    """The directory that a request starts in."""
    asked = request.cwd if isinstance(request, RunCommand) else None
    # A NUL in it is a reason to deny (`steps.nul`); until then any directory will do.
    return real_path(os.path.join(cwd, asked)) if asked and "\0" not in asked else cwd


def _is_plain(request: Request) -> bool:
    """Whether nothing but the line and the settings decides: a directory of its own may be a link by now."""
    return isinstance(request, RunCommand) and request.policy is None and request.cwd is None
