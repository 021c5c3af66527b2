"""What a client can read beside its tools: the policy in force and the session's journal, and prompts about
them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mcp_types as types
import msgspec

from pinfold.audit.history import actions, entries
from pinfold.model.errors import PinfoldError
from pinfold.model.escape_text import visible
from pinfold.policy.json_format import to_executor
from pinfold.policy.level import settled_level
from pinfold.policy.prompt_text import summarize
from pinfold.session import Session
from pinfold.session.serialize import all_writable
from pinfold.state.directory import journal_file
from pinfold.workspace.granted_paths import told

MOST_ROWS = 500
"""Rows of the journal that one reading gives: the last ones."""
JSON = "application/json"
DENIED = "Pinfold has denied this in the present session:"
WANTED = (
    "For each, say which task needed it, if any. Then propose the least that would allow those tasks:"
    " request_permission for this session, or a setting for good. Leave out what no task needs. Do not"
    " propose to open files with credentials."
)
EXPLAIN = (
    "Use the tool `explain` on the shell line below, and say in plain words what Pinfold would do about it"
    " and why. Do not run it."
)


class SessionResource(NamedTuple):
    uri: str
    name: str
    title: str
    description: str
    read: Callable[[Session], object]


def _policy(session: Session) -> object:
    policy, settings = session.policy, session.settings
    return {
        "session": session.id,
        "roots": session.roots,
        "mode": settings.mode,
        "sandboxed": settings.sandbox.enabled,
        "network": settings.network.access,
        "level": settled_level(policy).value if settings.sandbox.enabled else "unsandboxed",
        "policy": to_executor(policy),
        "notices": session.notices,
    }


def _journal(session: Session) -> object:
    rows = entries(journal_file(session.environ), session.id)
    shown = [
        {"id": row.id, "at": row.at, "kind": row.kind, "about": row.about, "data": row.data}
        for row in rows[-MOST_ROWS:]
    ]
    return {"session": session.id, "rows": shown, "leftOut": len(rows) - len(shown)}


RESOURCES = {
    resource.uri: resource
    for resource in (
        SessionResource(
            "pinfold://policy",
            "policy",
            "The policy in force",
            "What commands of this session may read, write and reach.",
            _policy,
        ),
        SessionResource(
            "pinfold://journal",
            "journal",
            "The journal of this session",
            "What this session ran, was denied and was asked; the newest last.",
            _journal,
        ),
    )
}


def listed_resources() -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=each.uri,
                name=each.name,
                title=each.title,
                description=each.description,
                mime_type=JSON,
            )
            for each in RESOURCES.values()
        ]
    )


def read_resource(session: Session, uri: str) -> types.ReadResourceResult:
    resource = RESOURCES.get(uri)
    if resource is None:
        raise PinfoldError(f"there is no resource {visible(uri)}; there are: {', '.join(RESOURCES)}")
    text = msgspec.json.format(msgspec.json.encode(all_writable(resource.read(session))), indent=2).decode()
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=JSON, text=text)])


class SessionPrompt(NamedTuple):
    name: str
    title: str
    description: str
    arguments: tuple[types.PromptArgument, ...]
    text: Callable[[Session, Mapping[str, str]], str]


def _sandbox(session: Session, _: Mapping[str, str]) -> str:
    text = summarize(told(session.policy, session.roots), session.settings, session.roots)
    return text or "Commands run without a sandbox: `sandbox.enabled` is false."


def _denied(session: Session, _: Mapping[str, str]) -> str:
    found = [
        line
        for action in actions(journal_file(session.environ), session=session.id)
        for line in _lines(action)
    ]
    if not found:
        return "Pinfold has denied nothing in this session yet. Say so."
    return "\n".join((DENIED, *(f"- {line}" for line in dict.fromkeys(found)), "", WANTED))


def _lines(action: Any) -> list[str]:
    data, end = action.entry.data, action.end or {}
    lines = []
    if action.entry.kind == "refused":
        what = data.get("command") or f"{data.get('tool')} {data.get('path')}"
        rule = f" (rule `{visible(str(data['rule']))}`)" if data.get("rule") else ""
        lines.append(f"`{visible(str(what))}` was not run{rule}")
    for each in end.get("violations") or ():
        what = f"{each.get('operation', '')} {each.get('path', '')}".strip()
        remedy = f"; to allow it: {visible(str(each['remedy']))}" if each.get("remedy") else ""
        lines.append(f"{visible(what)}: {visible(str(each.get('why', '')))}{remedy}")
    return lines


def _explain(_: Session, arguments: Mapping[str, str]) -> str:
    return f"{EXPLAIN}\n\n{visible(arguments['command'])}"


PROMPTS = {
    prompt.name: prompt
    for prompt in (
        SessionPrompt(
            "sandbox", "What commands may do", "Tells the model what commands may do here.", (), _sandbox
        ),
        SessionPrompt(
            "denied",
            "What was denied",
            "Lists what was denied in this session, and asks for the least that would allow it.",
            (),
            _denied,
        ),
        SessionPrompt(
            "explain",
            "Explain a command",
            "Asks why a command is allowed, asked about or denied.",
            (types.PromptArgument(name="command", description="a shell line", required=True),),
            _explain,
        ),
    )
}


def listed_prompts() -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=each.name,
                title=each.title,
                description=each.description,
                arguments=list(each.arguments) or None,
            )
            for each in PROMPTS.values()
        ]
    )


def prompt_text(session: Session, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise PinfoldError(f"there is no prompt `{visible(name)}`; there are: {', '.join(PROMPTS)}")
    missing = [each.name for each in prompt.arguments if each.required and not arguments.get(each.name)]
    if missing:
        raise PinfoldError(f"the prompt `{name}` needs `{missing[0]}`")
    content = types.TextContent(type="text", text=prompt.text(session, arguments))
    return types.GetPromptResult(
        description=prompt.description, messages=[types.PromptMessage(role="user", content=content)]
    )
