"""Programs that are asked before each command.

A hook gets the seeds' JSON on standard input and answers with JSON on standard output. Only a clear
answer counts: a crash, a time-out or nonsense is a no, and no output with exit status 0 is no opinion.
What the answers are worth is `policy.steps`' business; a hook's allow lifts no rule.
"""

from msgspec import DecodeError, Struct, ValidationError, json

from pinfold.model.decision import Verdict
from pinfold.model.facts import HookAnswer
from pinfold.model.settings import Hook, HookSettings


class Question(Struct, frozen=True):
    """What a hook is told, in the seeds' words."""

    conversation_id: str
    generation_id: str
    model: str
    command: str
    cwd: str
    sandbox: bool
    hook_event_name: str = "beforeShellExecution"


class _Answer(Struct, frozen=True):
    permission: Verdict | None = None
    user_message: str = ""
    agent_message: str = ""


def ask_hooks(question: Question, settings: HookSettings) -> tuple[HookAnswer, ...]:
    """What each hook says, those without an opinion left out."""
    if not settings.before_command:
        return ()
    answers = (_ask(hook, json.encode(question), settings.timeout) for hook in settings.before_command)
    return tuple(answer for answer in answers if answer)


def _ask(hook: Hook, question: bytes, timeout: float) -> HookAnswer | None:
    # Imported here: most lines have no hooks, and this module is on the way of every cold start.
    import subprocess

    try:
        run = subprocess.run(hook.command, input=question, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return _no(hook, f"it did not answer within {timeout:g} s")
    except OSError as error:
        return _no(hook, f"it could not be started: {error.strerror}")
    if run.returncode != 0:
        return _no(hook, f"it failed with exit status {run.returncode}")
    return _understood(hook, run.stdout)


def _understood(hook: Hook, output: bytes) -> HookAnswer | None:
    if not output.strip():
        return None
    try:
        answer = json.decode(output, type=_Answer)
    except (DecodeError, ValidationError, UnicodeDecodeError) as error:
        return _no(hook, f"its answer makes no sense: {error}")
    if answer.permission is None:
        return None if output.strip() == b"{}" else _no(hook, "its answer has no `permission`")
    message = answer.user_message or answer.agent_message
    return HookAnswer(_name(hook), answer.permission, hook.origin, message)


def _no(hook: Hook, why: str) -> HookAnswer:
    return HookAnswer(_name(hook), Verdict.DENY, hook.origin, why)


def _name(hook: Hook) -> str:
    return " ".join(hook.command)
