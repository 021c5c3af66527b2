"""The last stage of a request: a command that may run is started, under the policy that was decided."""

import os
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pinfold.model.context import Context
from pinfold.model.decision import Decision
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.symlinks import real_path
from pinfold.sandbox.backend import StartRequest
from pinfold.session.execution import End, Execution, Explanations, Need, Unseen
from pinfold.session.open_parts import Resources
from pinfold.session.request import Given
from pinfold.session.result import Judged

if TYPE_CHECKING:
    from pinfold.model.violation import Violation
    from pinfold.session.journal import DebugRecord

NeedOf = Callable[[SandboxPolicy, "tuple[Violation, ...]"], Need | None]
"""What a failed run of a policy would have needed."""


def start(
    entry: int,
    judged: Judged,
    given: Given,
    resources: Resources,
    explanations: Explanations,
    need: NeedOf | None,
) -> Execution:
    """Starts a command that is journaled in this row. Without `need` it is not run again."""
    command, context, decision = judged.command, judged.context, judged.decision
    policy, ledger = _approved(decision, context), resources.ledger
    request = StartRequest(
        command=command.argv if command.argv is not None else command.command,
        policy=_of_the_pen(resources.widened(policy, context), context),
        cwd=judged.cwd,
        environment=given.environment,
        variables=_variables(command, given, judged.cwd, context),
        stdin=given.stdin,
        timeout=_timeout(command, policy, given, context),
        output=policy.limits.output,
        terminal=given.terminal,
        entry=entry,
        streams=given.streams,
        umask=given.umask,
    )
    after: Callable[[int, End], bool] = ledger.after
    debug = _debugging(policy, request)
    pens = resources.sandboxes.sandboxed() if decision.sandboxed else resources.sandboxes.unsandboxed()
    began = monotonic()
    running = pens.start(request)
    try:
        if debug:
            after = debug.after(after, pens.plan(request.policy))
        execution = Execution(
            decision,
            judged.settlement,
            running,
            lambda end: after(entry, end),
            began,
            lambda found: explanations.explained(found, judged),
            partial(need, policy) if need and decision.sandboxed else None,
            _unseen(decision, request),
        )
        ledger.began(entry, execution.tell_end)
    except BaseException:
        running.cancel()  # no caller will have it
        raise
    return execution


def _variables(command: RunCommand, given: Given, cwd: str, context: Context) -> dict[str, str]:
    """What commands are given in any environment: the line was judged with it.

    A shell believes the `PWD` that it is given, and `cd ..` leads up from there, links included. Without a
    `HOME`, `$HOME/x` would be `/x`.
    """
    written = (os.environ if given.environment is None else given.environment).get("HOME", "")
    is_its_own = any(name == "HOME" for name, _ in command.variables)
    is_known = is_its_own or (written != "" and real_path(written) == context.home)
    return {"HOME": written if is_known else context.home, **context.settings.environment_set, "PWD": cwd}


def _timeout(command: RunCommand, policy: SandboxPolicy, given: Given, context: Context) -> float | None:
    is_usual = context.settings.origin("limits.timeout").layer == "default"
    is_unlimited = given.is_background and command.timeout is None and is_usual
    return None if is_unlimited else policy.limits.timeout


def _approved(decision: Decision, context: Context) -> SandboxPolicy:
    if not decision.widening:
        return decision.policy
    from pinfold.policy.widen import with_approved

    return with_approved(decision.policy, decision.widening, context.settings.cap)


def _of_the_pen(policy: SandboxPolicy, context: Context) -> SandboxPolicy:
    """What a pen is built by: the time a command may take is not part of it."""
    usual, limits = context.policy.limits, policy.limits
    if limits.timeout == usual.timeout and limits.output == usual.output:
        return policy
    return replace(policy, limits=replace(limits, timeout=usual.timeout, output=usual.output))


def _debugging(policy: SandboxPolicy, request: StartRequest) -> "DebugRecord | None":
    """Its directory is made before the pen, which hides it, and while it can still stop the run."""
    if not policy.debug_output_dir:
        return None
    from pinfold.session.journal import DebugRecord

    return DebugRecord(policy, request)


def _unseen(decision: Decision, request: StartRequest) -> Unseen | None:
    """Tells what was hidden from the command, if anything was that a person may grant."""
    if not (decision.sandboxed and request.policy.env_files):
        return None

    def unseen(output: bytes) -> "tuple[Violation, ...]":
        from pinfold.workspace.env_files import hidden_reads

        return hidden_reads(request.policy, [each.argv for each in decision.commands], request.cwd, output)

    return unseen
