"""What a hook refused, written into the journal: the run that would have written it never begins.

What is not refused is not written here: commands are written by their run, and the rest is the agent's own
doing.
"""

from collections.abc import Mapping

from pinfold.audit.journal import JournalError
from pinfold.integrations.hooks.hook_call import HookCall
from pinfold.model.decision import Decision
from pinfold.model.request import CallTool, Connect, ReadFile, Request, RunCommand, WriteFile
from pinfold.session.journal import Ledger


def write_refusal(
    call: HookCall,
    request: Request,
    decision: Decision,
    cwd: str,
    roots: tuple[str, ...],
    size: int | None,
    environ: Mapping[str, str],
) -> None:
    """A journal that cannot be written does not make a no a yes: it stays a no."""
    try:
        ledger = Ledger(call.conversation or call.agent, roots, environ, size)
        try:
            if isinstance(request, RunCommand):
                ledger.before(request, cwd, decision, None, allowed=False)
            else:
                ledger.file(call.tool or call.event, _object(request), decision, None, allowed=False)
        finally:
            ledger.close()
    except (JournalError, OSError):
        return


def _object(request: Request) -> str:
    match request:
        case ReadFile() | WriteFile():
            return request.path
        case Connect():
            return f"{request.host}:{request.port}"
        case CallTool():
            return f"{request.server}:{request.tool}"
        case _:
            return ""
