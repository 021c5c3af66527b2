"""The last stage of a request: written down, counted, and then under way if it may be."""

import os
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pinfold.model.decision import Decision, Verdict
from pinfold.model.permission import Settlement
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.symlinks import real_path
from pinfold.sandbox.backend import StartRequest
from pinfold.session.execution import End, Execution, Explanations, Unseen
from pinfold.session.judge import Judge
from pinfold.session.parts import Parts
from pinfold.session.request import Given
from pinfold.session.result import is_allowed

if TYPE_CHECKING:
    from pinfold.model.violation import Violation
    from pinfold.session.journal import DebugRecord, Ledger
    from pinfold.session.retry import Retries


class Starting:
    """May be used from any thread."""

    def __init__(
        self,
        judge: Callable[[], Judge],
        parts: Parts,
        refusals: Explanations,
        counts: "Counter[str]",
        retries: "Callable[[], Retries]",
    ) -> None:
        self._judge, self._parts, self._refusals, self._counts = judge, parts, refusals, counts
        self._retries = retries

    def start(
        self,
        command: RunCommand,
        decision: Decision,
        settlement: Settlement | None,
        given: Given,
        is_first: bool,
    ) -> Execution:
        allowed, ledger = is_allowed(decision, settlement), self._parts.ledger()
        entry = ledger.before(command, self._judge().start_of(command), decision, settlement, allowed)
        self._count(decision, allowed)
        if not allowed:
            return Execution(decision, settlement)
        try:
            return self._begun(entry, ledger, command, decision, settlement, given, is_first)
        except BaseException as error:
            ledger.failed(entry, error)
            raise

    def _begun(
        self,
        entry: int,
        ledger: "Ledger",
        command: RunCommand,
        decision: Decision,
        settlement: Settlement | None,
        given: Given,
        is_first: bool,
    ) -> Execution:
        policy = self._approved(decision)
        cwd = self._judge().start_of(command)
        start = StartRequest(
            command=command.argv if command.argv is not None else command.command,
            policy=self._of_the_pen(self._parts.widened(policy)),
            cwd=cwd,
            environment=given.environment,
            variables=self._variables(command, given, cwd),
            stdin=given.stdin,
            timeout=self._timeout(command, policy, given),
            output=policy.limits.output,
            terminal=given.terminal,
            entry=entry,
            streams=given.streams,
            umask=given.umask,
        )
        after: Callable[[int, End], bool] = ledger.after
        debug = self._debugging(policy, start)
        pens = self._parts.fences().fenced() if decision.sandboxed else self._parts.fences().unfenced()
        began = monotonic()
        running = pens.start(start)
        try:
            if debug:
                after = debug.after(after, pens.plan(start.policy))
            settings = self._judge().law.last_settings
            execution = Execution(
                decision,
                settlement,
                running,
                lambda end: after(entry, end),
                began,
                lambda found: self._refusals.explained(
                    found,
                    settings,
                    self._judge().roots,
                    command.command,
                    decision,
                    self._judge().home,
                    self._judge().law.own_paths,
                ),
                (lambda found: self._retries().need(command, policy, found, given))
                if is_first and decision.sandboxed
                else None,
                _unseen(decision, start),
            )
            ledger.began(entry, execution.tell_end)
        except BaseException:
            running.cancel()  # nobody will have it
            raise
        return execution

    def _variables(self, command: RunCommand, given: Given, cwd: str) -> dict[str, str]:
        """What commands are given whatever their environment is: the line was judged with it.

        A shell believes the `PWD` that it is given, and `cd ..` leads up from there, links included. Without
        a `HOME`, `$HOME/x` would be `/x`.
        """
        home = self._judge().home
        written = (os.environ if given.environment is None else given.environment).get("HOME", "")
        is_its_own = any(name == "HOME" for name, _ in command.variables)
        is_known = is_its_own or (written != "" and real_path(written) == home)
        return {
            "HOME": written if is_known else home,
            **self._judge().law.last_settings.environment_set,
            "PWD": cwd,
        }

    def _timeout(self, command: RunCommand, policy: SandboxPolicy, given: Given) -> float | None:
        is_usual = self._judge().law.last_settings.origin("limits.timeout").layer == "default"
        is_unlimited = given.is_background and command.timeout is None and is_usual
        return None if is_unlimited else policy.limits.timeout

    def _approved(self, decision: Decision) -> SandboxPolicy:
        if not decision.widening:
            return decision.policy
        from pinfold.policy.widen import with_approved

        return with_approved(decision.policy, decision.widening, self._judge().law.last_settings.cap)

    def _of_the_pen(self, policy: SandboxPolicy) -> SandboxPolicy:
        """What a pen is built by: the time a command may take is not part of it."""
        usual, limits = self._judge().law.last_policy.limits, policy.limits
        if limits.timeout == usual.timeout and limits.output == usual.output:
            return policy
        return replace(policy, limits=replace(limits, timeout=usual.timeout, output=usual.output))

    def _debugging(self, policy: SandboxPolicy, start: StartRequest) -> "DebugRecord | None":
        """Its directory is made before the pen, which hides it, and while it can still stop the run."""
        if not policy.debug_output_dir:
            return None
        from pinfold.session.journal import DebugRecord

        return DebugRecord(policy, start)

    def _count(self, decision: Decision, allowed: bool) -> None:
        if decision.verdict is Verdict.ASK:
            self._counts["asked"] += 1
        if self._judge().sandbox_trouble:
            self._counts[f"unavailable: {self._judge().law.last_settings.sandbox.if_unavailable}"] += 1
        self._counts["refused" if not allowed else "fenced" if decision.sandboxed else "unfenced"] += 1


def _unseen(decision: Decision, start: StartRequest) -> Unseen | None:
    """Who tells what was hidden from the command, if anything was that a person may grant."""
    if not (decision.sandboxed and start.policy.env_files):
        return None

    def unseen(output: bytes) -> "tuple[Violation, ...]":
        from pinfold.workspace.env_files import hidden_reads

        return hidden_reads(start.policy, [each.argv for each in decision.commands], start.cwd, output)

    return unseen
