"""The tools that agents are given over any protocol: run, read, write, search, explain, ask.

A tool takes a session and its parameters and gives an outcome: text for a model, and the same as an object.
It decides nothing. A refusal is an outcome too: an error that says which step and rule spoke, and what the
model may do next. Nothing here knows a protocol.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from pinfold.model.decision import Verdict
from pinfold.model.errors import FileRefused, PinfoldError
from pinfold.model.escape_text import visible
from pinfold.model.load_structs import ready
from pinfold.model.request import RunCommand
from pinfold.model.tool_parameters import (
    ExecuteCommand,
    ExplainParameters,
    ListFilesParameters,
    PermissionAndProjects,
    ReadFileParameters,
    ReplaceInFileParameters,
    SearchFilesParameters,
    WriteFileParameters,
)
from pinfold.session import Session
from pinfold.session.execution import Execution
from pinfold.session.request import as_command
from pinfold.session.result import Result
from pinfold.session.serialize import (
    file_refusal_as_plain,
    question_as_plain,
    reason_as_plain,
    refusal_as_plain,
    violation_as_plain,
    writable,
)

MOST_TEXT = 60_000
"""Characters of each stream that a model is given: its beginning and its end."""
MOST_SHOWN = 20
MOST_FOUND = 500

Started = Callable[[Execution], None]
"""Told of a command once it runs, so that it can be cancelled."""


class ToolOutcome(NamedTuple):
    text: str
    data: dict[str, Any]
    is_error: bool = False


class Tool(NamedTuple):
    name: str
    title: str
    description: str
    params: type[Struct]
    run: Callable[[Session, Any, Started], ToolOutcome]
    reads_only: bool = False
    destroys: bool = True
    is_idempotent: bool = False
    is_open: bool = False
    """Whether it may reach beyond this machine."""

    @property
    def schema(self) -> dict[str, Any]:
        """Of its parameters, as JSON Schema: an object, with what it is made of in `$defs`."""
        _, parts = msgspec.json.schema_components([self.params], ref_template="#/$defs/{name}")
        whole: dict[str, Any] = {**parts.pop(self.params.__name__)}
        whole.pop("title", None)
        whole.setdefault("required", [])
        return {**whole, "$defs": parts} if parts else whole


def execute(session: Session, asked: ExecuteCommand, started: Started) -> ToolOutcome:
    from pinfold.policy.json_format import from_json

    request = RunCommand(
        asked.command,
        cwd=asked.cwd,
        description=asked.description,
        policy=None if asked.sandbox_policy is None else from_json(asked.sandbox_policy),
        disable_sandbox=asked.dangerously_disable_sandbox,
    )
    execution = session.start(as_command(request, timeout=asked.timeout))
    started(execution)
    result = execution.wait()
    if not result.ran:
        return _refusal(refusal_as_plain(result.decision, result.settlement))
    return _ran(result, _kept_inside(session, asked, result))


def _kept_inside(session: Session, asked: ExecuteCommand, result: Result) -> str:
    """What a model is to know that wanted out and ran inside."""
    programs = {command.argv[0] for command in result.decision.commands if command.argv}
    wanted = asked.dangerously_disable_sandbox or (session.settings.mcp.cli and programs == {"mcp-cli"})
    if not (wanted and result.decision.sandboxed):
        return ""
    return "[it ran in the sandbox: running without one is switched off, and asking again changes nothing]"


def _ran(result: Result, note: str) -> ToolOutcome:
    stdout, cut = _fitted(result.stdout)
    stderr, cut_too = _fitted(result.stderr)
    how = (
        "[its time was up]"
        if result.timed_out
        else "[it was cancelled]"
        if result.cancelled
        else f"[ended by signal {result.signal}]"
        if result.exit_code is None
        else f"[exit code {result.exit_code}]"
    )
    told = f"[stderr]\n{stderr}".rstrip("\n") if stderr else ""
    left = [f"[{visible(each)}]" for each in result.left_running]
    parts = [stdout.rstrip("\n"), told, how, note, *left, result.violations_text]
    data: dict[str, object] = {
        "exitCode": result.exit_code,
        "signal": result.signal,
        "stdout": stdout,
        "stderr": stderr,
        "timedOut": result.timed_out,
        "cancelled": result.cancelled,
        "truncated": result.truncated or cut or cut_too,
        "sandboxed": result.decision.sandboxed,
        "violations": [violation_as_plain(each) for each in result.violations[:MOST_SHOWN]],
    }
    if result.left_running:
        data["leftRunning"] = list(result.left_running)
    if result.needed:
        data["needed"] = question_as_plain(result.needed)
    return ToolOutcome("\n".join(part for part in parts if part), data)


def _fitted(text: str) -> tuple[str, bool]:
    if len(text) <= MOST_TEXT:
        return text, False
    half = MOST_TEXT // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out} characters left out]\n{text[-half:]}", True


def read_file(session: Session, asked: ReadFileParameters, _: Started) -> ToolOutcome:
    found = session.files.read(asked.path, first_line=asked.first_line, lines=asked.lines)
    return ToolOutcome(found.text, found._asdict())


def write_file(session: Session, asked: WriteFileParameters, _: Started) -> ToolOutcome:
    written = session.files.write(asked.path, asked.text)
    return ToolOutcome(f"{'made' if written.created else 'wrote'} {visible(written.path)}", written._asdict())


def replace_in_file(session: Session, asked: ReplaceInFileParameters, _: Started) -> ToolOutcome:
    written = session.files.replace(asked.path, [(each.search, each.replace) for each in asked.blocks])
    return ToolOutcome(f"replaced {len(asked.blocks)} in {visible(written.path)}", written._asdict())


def list_files(session: Session, asked: ListFilesParameters, _: Started) -> ToolOutcome:
    if asked.pattern:
        found = [writable(path) for path in session.files.glob(asked.pattern, asked.path)]
        return _listed(found, {"files": [{"path": path} for path in found[:MOST_FOUND]]})
    entries = session.files.entries(asked.path)
    lines = [writable(each.path) + ("/" if each.kind == "a directory" else "") for each in entries]
    files = [{"path": writable(each.path), "kind": each.kind, "size": each.size} for each in entries]
    return _listed(lines, {"files": files[:MOST_FOUND]})


def search_files(session: Session, asked: SearchFilesParameters, _: Started) -> ToolOutcome:
    hits = session.files.search(asked.pattern, asked.path, only=asked.only)
    lines = [f"{writable(hit.path)}:{hit.line}: {writable(hit.text)}" for hit in hits]
    told = [{"path": writable(hit.path), "line": hit.line, "text": writable(hit.text)} for hit in hits]
    return _listed(lines, {"hits": told[:MOST_FOUND]})


def _listed(lines: list[str], data: dict[str, Any]) -> ToolOutcome:
    more = [f"[{len(lines) - MOST_FOUND} more]"] if len(lines) > MOST_FOUND else []
    text = "\n".join([*lines[:MOST_FOUND], *more]) or "[nothing]"
    return ToolOutcome(text, {**data, "total": len(lines)})


def explain(session: Session, asked: ExplainParameters, _: Started) -> ToolOutcome:
    decision = session.check(asked.command)
    where = "in the sandbox" if decision.sandboxed else "outside the sandbox"
    head = str(decision.verdict) if decision.verdict is Verdict.DENY else f"{decision.verdict}, {where}"
    lines = [head]
    for reason in decision.reasons:
        lines.append(f"- {visible(reason.message)}")
        if reason.remedy:
            lines.append(f"  to change it: {visible(reason.remedy)}")
    data = {
        "decision": decision.verdict,
        "sandboxed": decision.sandboxed,
        "reasons": [reason_as_plain(reason) for reason in decision.reasons],
    }
    return ToolOutcome("\n".join(lines), data)


def request_permission(session: Session, asked: PermissionAndProjects, _: Started) -> ToolOutcome:
    from pinfold.session.permission_requests import ask_for_permission

    answered = ask_for_permission(session, asked)
    given = list(answered.given)
    if not answered.is_granted:
        return _refusal(refusal_as_plain(answered.decision, answered.settlement), given)
    told = f"granted for this session: {visible(', '.join(given))}" if given else "you have that already"
    return ToolOutcome(told, {"given": given})


def _refusal(told: dict[str, Any], given: list[str] | None = None) -> ToolOutcome:
    data = {key: value for key, value in told.items() if value is not None}
    if given:
        data["given"] = given
    next_ = told.get("next") or ""
    # A file tool's message ends with it already.
    said = "" if told["message"].endswith(next_) else f"\nnext: {next_}"
    return ToolOutcome(f"{visible(told['message'])}{said}", data, is_error=True)


def use(tool: Tool, session: Session, arguments: dict[str, Any], started: Started) -> ToolOutcome:
    """A tool's outcome, for a failure too; raises only for a bug in pinfold."""
    try:
        params = msgspec.convert(arguments, ready(tool.params))
    except msgspec.ValidationError as error:
        said = f"the arguments of `{tool.name}` are wrong: {error}"
        told = {"kind": "invalid", "message": said, "next": "call it again with arguments of its schema"}
        return _refusal(told)
    try:
        return tool.run(session, params, started)
    except FileRefused as refused:
        return _refusal(file_refusal_as_plain(refused))
    except ValueError as error:  # what no schema tells, such as a time below nothing
        return _refusal(
            {"kind": "invalid", "message": str(error), "next": "call it again with another value"}
        )
    except PinfoldError as error:
        # Whether anything was run, the error says: a pen may also break while a command runs.
        return _refusal({"kind": "failed", "message": str(error), "next": "tell the person"})


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "execute_command",
            "Run a command",
            "Runs a shell line in the sandbox. The result lists what the sandbox denied as"
            " violations: ask for exactly that with request_permission, and do not repeat the command in the"
            " hope that it passes. A command that is not run comes back as an error that says why and what to"
            " do next.",
            ExecuteCommand,
            execute,
            is_open=True,
        ),
        Tool(
            "read_file",
            "Read a file",
            "The text of a file in the workspace, or some lines of it.",
            ReadFileParameters,
            read_file,
            reads_only=True,
            destroys=False,
            is_idempotent=True,
        ),
        Tool(
            "write_file",
            "Write a file",
            "Makes a file in the workspace, or replaces all that is in it; its mode, encoding and line ends"
            " stay.",
            WriteFileParameters,
            write_file,
            is_idempotent=True,
        ),
        Tool(
            "replace_in_file",
            "Edit a file",
            "Replaces pieces of a file's text. Each must be found exactly once; else nothing is changed.",
            ReplaceInFileParameters,
            replace_in_file,
        ),
        Tool(
            "list_files",
            "List files",
            "What is in a directory of the workspace, or what a pattern matches below it. What is hidden is"
            " left out.",
            ListFilesParameters,
            list_files,
            reads_only=True,
            destroys=False,
            is_idempotent=True,
        ),
        Tool(
            "search_files",
            "Search in files",
            "The lines of the workspace's files that a regular expression finds.",
            SearchFilesParameters,
            search_files,
            reads_only=True,
            destroys=False,
            is_idempotent=True,
        ),
        Tool(
            "explain",
            "ExplainParameters a decision",
            "What would be done about a shell line (allow, ask or deny) and why. Nothing is run.",
            ExplainParameters,
            explain,
            reads_only=True,
            destroys=False,
            is_idempotent=True,
        ),
        Tool(
            "request_permission",
            "Ask the person for permission",
            "Asks the person for exactly what a task needs beyond the sandbox: paths, hosts, git writes,"
            " other projects. A yes holds for this session, from the next call on. A no is final.",
            PermissionAndProjects,
            request_permission,
            destroys=False,
            is_idempotent=True,
        ),
    )
}
