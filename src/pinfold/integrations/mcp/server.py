"""The server: what the client calls is begun, and questions are carried between the calls and the person.

How a question reaches the person depends on what the client speaks.

Facts about the two eras of MCP that are served:
- Up to 2025-11-25 a server may send requests of its own: a question is `elicitation/create`, sent while the
  call waits.
- From 2026-07-28 on it may not. The call is answered with `input_required`, which carries the question and a
  state; the client asks, and sends the same call again with the answer and the state. The call that waits
  here is found by its state, which is not guessable, and only for the same tool and arguments.

What this means for us: a call outlives the request that began it (`call`). A client that cannot ask leaves
the question to the next approver; the end of the chain says no. When a call ends, the server withdraws its
question: by `notifications/cancelled` in the first era. In the second, the client's answer then changes
nothing.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from pinfold import __version__
from pinfold.integrations.mcp.call import McpCall, McpQuestion
from pinfold.integrations.mcp.elicitation import answer_of, form_of
from pinfold.integrations.mcp.resources import listed_prompts, listed_resources, prompt_text, read_resource
from pinfold.integrations.tools import TOOLS, Tool, ToolOutcome
from pinfold.model.errors import PinfoldError
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.policy.prompt_text import summarize
from pinfold.session import Session
from pinfold.workspace.granted_paths import told

if TYPE_CHECKING:
    from pinfold.approval import Approver

MOST_WAITING = 64
"""Calls that may wait for a client to come back with an answer."""
KEY = "permission"
PROGRESS = 2.0
"""Seconds between two notices about a call that takes long: clients wait on while they come."""


class McpServer:
    """One session's tools for one client. It is an approver of that session too."""

    name = "the person at the client"

    def __init__(
        self, open_session: "Callable[[Sequence[Approver]], Session]", others: "Sequence[Approver]" = ()
    ):
        self._calls: list[McpCall] = []
        self._waiting: dict[str, tuple[McpCall, McpQuestion]] = {}
        self.session = open_session([self, *others])

    def __call__(self, question: PermissionNeeded) -> Answer | None:
        calls = list(self._calls)
        about = [call for call in calls if call.is_about(question)] or calls
        # A question of a process that an ended call has left running belongs to no call.
        return about[-1].ask(question) if about else None

    def withdraw(self, question: PermissionNeeded) -> None:
        for call in list(self._calls):
            call.withdraw(question)

    def server(self) -> Server[Any]:
        session, roots = self.session, self.session.roots
        return Server(
            "pinfold",
            version=__version__,
            instructions=summarize(told(session.policy, roots), session.settings, roots) or None,
            on_list_tools=self._list,
            on_call_tool=self._called,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def _list_resources(self, _: Any, __: Any) -> types.ListResourcesResult:
        return listed_resources()

    async def _read_resource(
        self, _: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            return await asyncio.to_thread(read_resource, self.session, str(params.uri))
        except PinfoldError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None

    async def _list_prompts(self, _: Any, __: Any) -> types.ListPromptsResult:
        return listed_prompts()

    async def _get_prompt(self, _: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        try:
            return await asyncio.to_thread(prompt_text, self.session, params.name, params.arguments or {})
        except PinfoldError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None

    async def _list(self, _: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def _called(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name not in TOOLS:
            return _result(
                ToolOutcome(f"there is no tool `{visible(params.name)}`", {"kind": "invalid"}, True)
            )
        call = self._resumed(params) if params.request_state else self._begun(params)
        if call is None:
            said = "that question is not open any more: it was answered, or took too long; call the tool anew"
            return _result(ToolOutcome(said, {"kind": "stale", "message": said}, True))
        progress = asyncio.create_task(_tell_progress(context, call))
        try:
            return await self._carried(context, call)
        except BaseException:
            self._end(call)
            raise
        finally:
            progress.cancel()

    def _begun(self, params: types.CallToolRequestParams) -> McpCall:
        self._forget_lost()
        call = McpCall(TOOLS[params.name], params.arguments or {})
        self._calls.append(call)
        call.begin(self.session)
        return call

    def _forget_lost(self) -> None:
        """Calls whose client never came back with an answer."""
        for state, (call, asked) in list(self._waiting.items()):
            if asked.is_lost:
                del self._waiting[state]
                self._end(call)

    def _resumed(self, params: types.CallToolRequestParams) -> McpCall | None:
        call, asked = self._waiting.pop(params.request_state or "", (None, None))
        if call is None or asked is None:
            return None
        if (call.tool.name, call.arguments) != (params.name, params.arguments or {}):
            asked.settle(Answer.NO)
            self._end(call)  # the client will not come back for it: it may ask no other question
            return None
        response = (params.input_responses or {}).get(KEY)
        asked.settle(answer_of(response, asked.question))
        return call

    async def _carried(
        self, context: ServerRequestContext[Any], call: McpCall
    ) -> types.CallToolResult | types.InputRequiredResult:
        while not isinstance(said := await call.next(), ToolOutcome):
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
                request = types.ElicitRequest(params=form_of(said.question))
                return types.InputRequiredResult(input_requests={KEY: request}, request_state=state)
        self._calls.remove(call)
        call.finish()
        return _result(said)

    def _end(self, call: McpCall) -> None:
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


async def _tell_progress(context: ServerRequestContext[Any], call: McpCall) -> None:
    """Tells a client that asked for it how long a call has been at work, and what it wrote last."""
    with suppress(Exception):  # the client has gone, which its call notices too
        while True:
            await asyncio.sleep(PROGRESS)
            await context.session.report_progress(call.seconds, None, call.last_line or None)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=tool.is_open,
        ),
    )


def _result(outcome: ToolOutcome) -> types.CallToolResult:
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
    form = form_of(question)
    try:
        response = await context.session.elicit_form(
            form.message, form.requested_schema, related_request_id=context.request_id
        )
    except Exception:  # noqa: BLE001  (a client that fails to ask has not said yes)
        return Answer.NO
    return answer_of(response, question)
