"""An MCP server by the official SDK: the tools of `tools`, over one session, on stdio.

A tool's call runs on a thread, and may be held there by a question. How the question reaches the person
depends on what the client speaks.

Facts about the two eras of MCP that are served:
- Up to 2025-11-25 a server may send requests of its own: a question is `elicitation/create`, sent while the
  call waits.
- From 2026-07-28 on it may not. The call is answered with `input_required`, which carries the question and a
  state; the client asks, and sends the same call again with the answer and the state. The call that waits
  here is found by its state, which nobody can guess, and only for the same tool and arguments.

What this means for us: a call outlives the request that began it, so it is a thing of its own (`_Call`). A
client that cannot ask leaves the question to the next approver; the end of the chain says no. An answer that
was declined, cancelled, malformed or never came is a no. A question that nobody waits for any more is taken
back: by `notifications/cancelled` in the first era; in the second, the client's answer then changes nothing.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from pinfold import __version__
from pinfold.integrations.tools import TOOLS, Outcome, Tool, use
from pinfold.model.permission import LONGEST_QUESTION, Answer, PermissionNeeded
from pinfold.model.visible import visible
from pinfold.policy.summary import summarize
from pinfold.session import Session
from pinfold.session.execution import Execution

if TYPE_CHECKING:
    from pinfold.approval import Approver

MOST_WAITING = 64
"""Calls that may wait for a client to come back with an answer."""
KEY = "permission"

MEANINGS = {
    Answer.NO: "no",
    Answer.ONCE: "this once",
    Answer.SESSION: "for this session",
    Answer.ALWAYS: "always",
    Answer.RULE: "always, as a rule in your settings",
}


class _Asked:
    """A question on its way to the client, and the answer."""

    def __init__(self, question: PermissionNeeded) -> None:
        self.question = question
        self.answer: Answer | None = None
        self.settled = threading.Event()
        self.is_lost = False
        """Whether the client never came back with an answer."""
        self.scope: anyio.CancelScope | None = None
        """In which the client is being asked."""

    def settle(self, answer: Answer | None) -> None:
        """The first time counts."""
        if not self.settled.is_set():
            self.answer = answer
            self.settled.set()

    def stop(self) -> None:
        """On the loop: the client is asked no longer."""
        if self.scope is not None:
            self.scope.cancel()


class _Call:
    """A tool's call: it runs on a thread, and tells its loop what it asks and how it ended."""

    def __init__(self, tool: Tool, arguments: dict[str, Any]) -> None:
        self.tool, self.arguments = tool, arguments
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[_Asked | Outcome | Exception] = asyncio.Queue()
        self._lock = threading.Lock()
        self._execution: Execution | None = None
        self._open: list[_Asked] = []
        self._is_cancelled = False
        self._is_over = False

    def begin(self, session: Session) -> None:
        def work() -> None:
            try:
                self._tell(use(self.tool, session, self.arguments, self._started))
            except Exception as error:  # noqa: BLE001  (raised again where the client waits)
                self._tell(error)

        threading.Thread(target=work, name=f"pinfold-{self.tool.name}", daemon=True).start()

    def _tell(self, said: "_Asked | Outcome | Exception") -> None:
        try:
            self._loop.call_soon_threadsafe(self._told.put_nowait, said)
        except RuntimeError:  # the loop is closed: the client has gone
            self.cancel()

    def _started(self, execution: Execution) -> None:
        with self._lock:
            self._execution = execution
            is_cancelled = self._is_cancelled
        if is_cancelled:
            execution.cancel()

    def is_about(self, question: PermissionNeeded) -> bool:
        if self.tool.name == "execute_command":
            return question.command == self.arguments.get("command")
        return bool(question.operation) and question.operation in self.tool.name

    def ask(self, question: PermissionNeeded) -> Answer | None:
        """From an approver's thread: None if the client cannot ask a person."""
        asked = _Asked(question)
        with self._lock:
            if self._is_cancelled or self._is_over:
                return Answer.NO if self._is_cancelled else None
            self._open.append(asked)
        self._tell(asked)
        if not asked.settled.wait(LONGEST_QUESTION):
            asked.is_lost = True
            asked.settle(Answer.NO)
        return asked.answer

    def withdraw(self, question: PermissionNeeded) -> None:
        """From any thread: nobody waits for the answer any more."""
        with self._lock:
            found = [each for each in self._open if each.question.request_id == question.request_id]
        for each in found:
            each.settle(Answer.NO)
            with suppress(RuntimeError):  # the loop is closed: the client has gone
                self._loop.call_soon_threadsafe(each.stop)

    async def next(self) -> "_Asked | Outcome":
        said = await self._told.get()
        if isinstance(said, Exception):
            raise said
        return said

    def finish(self) -> None:
        """Its outcome is told: what is still asked is not its own."""
        with self._lock:
            self._is_over = True
            asked = self._open
        for each in asked:
            each.settle(None)

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._is_cancelled = True
            execution, asked = self._execution, self._open
        for each in asked:
            each.settle(Answer.NO)
        if execution is not None:
            execution.cancel()


class McpServer:
    """One session's tools for one client. It is an approver of that session too."""

    name = "the person at the client"

    def __init__(
        self, open_session: "Callable[[Sequence[Approver]], Session]", others: "Sequence[Approver]" = ()
    ):
        self._calls: list[_Call] = []
        self._waiting: dict[str, tuple[_Call, _Asked]] = {}
        self.session = open_session([self, *others])

    def __call__(self, question: PermissionNeeded) -> Answer | None:
        calls = list(self._calls)
        about = [call for call in calls if call.is_about(question)] or calls
        # A question of something that a call has left running is nobody's at the moment.
        return about[-1].ask(question) if about else None

    def withdraw(self, question: PermissionNeeded) -> None:
        for call in list(self._calls):
            call.withdraw(question)

    def server(self) -> Server[Any]:
        session = self.session
        return Server(
            "pinfold",
            version=__version__,
            instructions=summarize(session.policy, session.settings, session.roots) or None,
            on_list_tools=self._list,
            on_call_tool=self._called,
        )

    async def _list(self, _: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def _called(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name not in TOOLS:
            return _result(Outcome(f"there is no tool `{visible(params.name)}`", {"kind": "invalid"}, True))
        call = self._resumed(params) if params.request_state else self._begun(params)
        if call is None:
            said = "that question is not open any more: it was answered, or took too long; call the tool anew"
            return _result(Outcome(said, {"kind": "stale", "message": said}, True))
        try:
            return await self._carried(context, call)
        except BaseException:
            self._end(call)
            raise

    def _begun(self, params: types.CallToolRequestParams) -> _Call:
        self._forget_lost()
        call = _Call(TOOLS[params.name], params.arguments or {})
        self._calls.append(call)
        call.begin(self.session)
        return call

    def _forget_lost(self) -> None:
        """Calls whose client never came back with an answer."""
        for state, (call, asked) in list(self._waiting.items()):
            if asked.is_lost:
                del self._waiting[state]
                self._end(call)

    def _resumed(self, params: types.CallToolRequestParams) -> _Call | None:
        call, asked = self._waiting.pop(params.request_state or "", (None, None))
        if call is None or asked is None:
            return None
        if (call.tool.name, call.arguments) != (params.name, params.arguments or {}):
            asked.settle(Answer.NO)
            self._end(call)  # nobody comes back for it: no other question may be put to it
            return None
        response = (params.input_responses or {}).get(KEY)
        asked.settle(_answer(response, asked.question))
        return call

    async def _carried(
        self, context: ServerRequestContext[Any], call: _Call
    ) -> types.CallToolResult | types.InputRequiredResult:
        while not isinstance(said := await call.next(), Outcome):
            if said.settled.is_set():
                continue
            if not _can_ask(context) or len(self._waiting) >= MOST_WAITING:
                said.settle(None)
            elif context.session.can_send_request:
                with anyio.CancelScope() as said.scope:
                    said.settle(await _elicited(context, said.question))
            else:
                state = secrets.token_urlsafe(24)
                self._waiting[state] = call, said
                request = types.ElicitRequest(params=_form(said.question))
                return types.InputRequiredResult(input_requests={KEY: request}, request_state=state)
        self._calls.remove(call)
        call.finish()
        return _result(said)

    def _end(self, call: _Call) -> None:
        if call in self._calls:
            self._calls.remove(call)
        call.cancel()

    async def serve(self) -> None:
        """On stdio, until the client goes."""
        server = self.server()
        try:
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            for call in list(self._calls):
                self._end(call)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=tool.is_open,
        ),
    )


def _result(outcome: Outcome) -> types.CallToolResult:
    import msgspec

    return types.CallToolResult(
        content=[types.TextContent(type="text", text=outcome.text)],
        structured_content=msgspec.to_builtins(outcome.data),
        is_error=outcome.is_error,
    )


def _can_ask(context: ServerRequestContext[Any]) -> bool:
    """An empty capability means forms; one that names only URLs does not."""
    capabilities = context.session.client_capabilities
    asks = capabilities.elicitation if capabilities else None
    return asks is not None and (asks.form is not None or asks.url is None)


async def _elicited(context: ServerRequestContext[Any], question: PermissionNeeded) -> Answer:
    form = _form(question)
    try:
        response = await context.session.elicit_form(
            form.message, form.requested_schema, related_request_id=context.request_id
        )
    except Exception:  # noqa: BLE001  (a client that fails to ask has not said yes)
        return Answer.NO
    return _answer(response, question)


def _form(question: PermissionNeeded) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(
        message="\n".join(_told(question)),
        requested_schema={
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Allow it?",
                    "enum": [str(choice) for choice in question.choices],
                    "enumNames": [MEANINGS[choice] for choice in question.choices],
                }
            },
            "required": ["decision"],
        },
    )


def _told(question: PermissionNeeded) -> list[str]:
    """What a person is shown. What comes from the agent is on lines of its own, and cannot make others."""
    lines = [f"{question.capability}: {visible(question.command)}", f"in {visible(question.cwd)}"]
    if question.host:
        lines.append(f"it wants to connect to {visible(question.host)}:{question.port}")
    if question.operation and question.path:
        lines.append(f"{visible(question.operation)} {visible(question.path)}")
    lines += [f"- {visible(reason.message)}" for reason in question.decision.reasons]
    if question.description:
        lines.append(f"the agent says: {visible(question.description)}")
    return lines


def _answer(response: object, question: PermissionNeeded) -> Answer:
    """Whatever is not clearly one of the choices is a no."""
    if not isinstance(response, types.ElicitResult) or response.action != "accept" or not response.content:
        return Answer.NO
    said = response.content.get("decision")
    return Answer(said) if isinstance(said, str) and said in tuple(question.choices) else Answer.NO
