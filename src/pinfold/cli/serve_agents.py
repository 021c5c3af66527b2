"""`pinfold serve --agents`: answers agents' hooks and runs their commands. Hooks start it."""

import os
from collections.abc import Iterable, Iterator, Mapping

from pinfold.approval import Approver
from pinfold.cli.run import ending_lines, not_run, refusal_lines, violation_lines
from pinfold.integrations.hooks import answer
from pinfold.integrations.hooks.approval_tickets import AgentApprover
from pinfold.model.events import Exited
from pinfold.model.request import RunCommand
from pinfold.service.command_run import CommandRuns
from pinfold.service.conversations import Conversations
from pinfold.service.daemon import Daemon
from pinfold.service.hook_calls import HeldForHook, HookCalls, HookReplyBytes
from pinfold.service.local_socket import socket_path
from pinfold.session import Session
from pinfold.session.execution import Execution
from pinfold.state.conversation_tmp import scratch_directory
from pinfold.web import WebApprover


def serve_agents() -> int:
    environ = dict(os.environ)
    conversations = Conversations(open_session, environ)
    verbs = {
        "hook": HookCalls(conversations, answered).serve,
        "run": CommandRuns(conversations, PlainWording()).serve,
    }
    daemon = Daemon(verbs, conversations)
    try:
        daemon.serve(socket_path(environ))
    finally:
        conversations.close()
    return 0


def answered(agent: str, data: bytes, environ: Mapping[str, str], held: HeldForHook) -> HookReplyBytes:
    reply = answer(agent, data, environ, held)
    return HookReplyBytes(reply.exit_code, reply.stdout, reply.stderr.encode("utf-8", "replace"))


def open_session(
    agent: str,
    id: str,
    roots: tuple[str, ...],
    environ: Mapping[str, str],
    approver: Approver,
    resume: str,
) -> Session:
    """The session of an agent's conversation. Its person answers in the agent's dialog, or on the page."""
    approvers = (approver, AgentApprover(agent, environ), WebApprover(environ))
    return Session(
        () if resume else roots,
        environ=environ,
        approvers=approvers,
        conversation=id,
        resume=resume,
        scratch=scratch_directory(agent, id, environ),
    )


class PlainWording:
    """What `pinfold run` says of a command, for an agent to read."""

    def refused(self, command: RunCommand, execution: Execution) -> Iterable[str]:
        return [*refusal_lines(command, execution, coloured=False), f"pinfold: {not_run(execution)}"]

    def ended(
        self, session: Session, execution: Execution, end: Exited, environ: Mapping[str, str]
    ) -> Iterator[str]:
        lines, violations = ending_lines(session, execution, end, environ)
        for line in (*lines, *violation_lines(violations, failed=bool(end.exit_code or end.signal))):
            yield f"pinfold: {line}"
