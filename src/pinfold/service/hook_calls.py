"""Hooks that the service answers: commands are judged by their conversation's session, as they will be run.

What a line was denied when it last ran, and what it asks for, become questions in the agent's own dialog. The
agent runs the line only after a yes: a line that comes to be run has been granted what was asked with it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pinfold.model.decision import Widening
from pinfold.model.errors import PinfoldError
from pinfold.model.escape_text import visible
from pinfold.service import local_socket as local
from pinfold.service.conversations import Conversation, Conversations, GrantOffer
from pinfold.service.daemon import ServiceCall
from pinfold.service.grant_requests import (
    GrantRequest,
    names_to_ask,
    parse_request,
    request_for,
    request_for_denied,
    together,
)
from pinfold.session.judge import Judge

DENIED_THIS, NEEDS_THIS = "was denied this when it last ran", "needs this by its words"


class CallOfAgent(Protocol):
    """What a hook says of its agent."""

    @property
    def agent(self) -> str: ...

    @property
    def conversation(self) -> str: ...

    @property
    def generation(self) -> str: ...

    @property
    def can_rewrite(self) -> bool:
        """Whether this hook may change the line."""

    @property
    def is_asked(self) -> bool:
        """Whether the agent puts this hook's questions to a person."""


class HookReplyBytes(NamedTuple):
    """What a hook's process is to write, and its exit code."""

    exit_code: int
    stdout: bytes
    stderr: bytes


Answer = Callable[[str, bytes, Mapping[str, str], "HeldForHook"], HookReplyBytes]
"""Answers an agent's payload."""


class HookCalls:
    def __init__(self, conversations: Conversations, answer: Answer) -> None:
        self._conversations, self._answer = conversations, answer

    def serve(self, call: ServiceCall) -> None:
        (agent,) = call.words
        reply = self._answer(agent, call.data, call.environ, HeldForHook(self._conversations, call.pid))
        local.send_reply(call.connection, *reply)


class HeldForHook:
    """The conversations, as one hook sees them."""

    def __init__(self, conversations: Conversations, pid: int) -> None:
        self._conversations, self._pid = conversations, pid

    def judge(
        self,
        call: CallOfAgent,
        roots: tuple[str, ...],
        rules: Mapping[str, object],
        environ: Mapping[str, str],
    ) -> Judge:
        held = self._conversations.of(call.agent, call.conversation, roots, environ, self._pid)
        held.obey(rules)
        held.begin_turn(call.generation)
        return held.session.judge_at(held.session.cwd)

    def offer(self, call: CallOfAgent, line: str, cwd: str, wanted: Callable[[], Sequence[Widening]]) -> str:
        held = self._found(call)
        denied = request_for_denied(held.session, held.denied.get((line, cwd), ()))
        foreseen = request_for(wanted()) if held.is_attended(call.agent) else {}
        how = " and ".join([DENIED_THIS] * bool(denied) + [NEEDS_THIS] * bool(foreseen))
        return self._offered(held, call, line, cwd, together(denied, foreseen), how)

    def request(self, call: CallOfAgent, line: str, cwd: str, words: Sequence[str]) -> str:
        """Raises `PinfoldError` for words that make no request."""
        held, request = self._found(call), parse_request(words, cwd)
        if call.is_asked and (
            question := self._offered(held, call, line, cwd, request, "asks for this", True)
        ):
            return question
        # Its run says that there is nothing to grant, or asks on the page.
        held.offer(line, cwd, GrantOffer(request, (), call.generation, is_request=True, is_shown=False))
        return ""

    def token_of(self, call: CallOfAgent, line: str, cwd: str) -> str:
        return self._found(call).token_of(line, cwd)

    def withdraw(self, call: CallOfAgent, line: str, cwd: str) -> None:
        if held := self._conversations.find(call.agent, call.conversation):
            held.withdraw(line, cwd)

    def end(self, agent: str, conversation: str) -> None:
        self._conversations.end(agent, conversation)

    def _found(self, call: CallOfAgent) -> Conversation:
        found = self._conversations.find(call.agent, call.conversation)
        if found is None:
            raise PinfoldError("the conversation has ended; try again")
        return found

    def _offered(
        self,
        held: Conversation,
        call: CallOfAgent,
        line: str,
        cwd: str,
        request: GrantRequest,
        how: str,
        is_request: bool = False,
    ) -> str:
        names = names_to_ask(held.session, request)
        if not names:
            return ""
        token = os.urandom(8).hex() if call.can_rewrite else ""
        held.offer(line, cwd, GrantOffer(request, names, call.generation, is_request, token))
        listed = "; ".join(map(visible, names))
        return f"the command {how}: {listed}. Yes allows it for the rest of this conversation"
