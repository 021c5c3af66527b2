"""The tools that agents are given over any protocol: run, read, write, search, explain, ask.

A tool takes a session and its parameters and gives an outcome: text for a model, and the same as an object.
It decides nothing. A refusal is an outcome too: an error that says which step and rule spoke, and what the
model may do next. Nothing here knows a protocol.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pinfold.integrations import tool_results as results
from pinfold.integrations.background import (
    BackgroundError,
    BackgroundProcess,
    background_of,
)
from pinfold.model.decision import Verdict
from pinfold.model.errors import FileRefused, PinfoldError
from pinfold.model.escape_text import visible
from pinfold.model.events import Output, Stream
from pinfold.model.load_structs import ready
from pinfold.model.request import RunCommand
from pinfold.model.tool_parameters import (
    CommandOptions,
    ExecuteCommand,
    ExplainParameters,
    ListFilesParameters,
    PermissionAndProjects,
    ReadFileParameters,
    ReadProcess,
    ReplaceInFileParameters,
    SearchFilesParameters,
    StartProcess,
    StopProcess,
    WriteFileParameters,
    WriteProcess,
)
from pinfold.model.violation import violations_text
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
Wrote = Callable[[bytes], None]
"""Told of what a command writes while it is waited for."""


class Watch(NamedTuple):
    """Who follows a call while it is at work."""

    started: Started
    wrote: Wrote = lambda _: None


class ToolOutcome(NamedTuple):
    text: str
    data: dict[str, Any]
    is_error: bool = False


class Tool(NamedTuple):
    name: str
    title: str
    description: str
    params: type[Struct]
    gives: type[Struct]
    run: Callable[[Session, Any, Watch], ToolOutcome]
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

    @property
    def output_schema(self) -> dict[str, Any]:
        """Of its data, as JSON Schema."""
        return results.schema_of(self.gives)


def execute(session: Session, asked: ExecuteCommand, watch: Watch) -> ToolOutcome:
    request = _request(asked, asked.command)
    execution = session.start(as_command(request, timeout=asked.timeout))
    watch.started(execution)
    result = _followed(execution, watch.wrote)
    if not result.ran:
        return _refusal(refusal_as_plain(result.decision, result.settlement))
    return _ran(result, _kept_inside(session, asked, result))


def _request(asked: CommandOptions, line: str) -> RunCommand:
    from pinfold.policy.json_format import from_json

    return RunCommand(
        line,
        cwd=asked.cwd,
        description=asked.description,
        policy=None if asked.sandbox_policy is None else from_json(asked.sandbox_policy),
        disable_sandbox=asked.dangerously_disable_sandbox,
    )


def _followed(execution: Execution, wrote: Wrote) -> Result:
    """How it ended, with its output, which is told as it comes."""
    kept = {stream: bytearray() for stream in Stream}
    decision, is_cut = execution.decision, False
    for event in execution.events():
        if not isinstance(event, Output):
            continue
        if execution.decision is not decision:  # it was granted what it needed, and runs once more
            decision, kept, is_cut = execution.decision, {stream: bytearray() for stream in Stream}, False
        wrote(event.data)
        most, store = decision.policy.limits.output, kept[event.stream]
        room = len(event.data) if most is None else max(0, most - len(store))
        is_cut |= room < len(event.data)
        store += event.data[:room]
    result = execution.wait()
    if not result.ran:
        return result
    return replace(
        result,
        stdout_bytes=bytes(kept[Stream.STDOUT]),
        stderr_bytes=bytes(kept[Stream.STDERR]),
        truncated=is_cut,
    )


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
    how = _how(result.exit_code, result.signal, result.timed_out, result.cancelled)
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


def start_process(session: Session, asked: StartProcess, watch: Watch) -> ToolOutcome:
    request = as_command(_request(asked, asked.command), timeout=asked.timeout)
    process = background_of(session).start(session, request, watch.started)
    execution = process.execution
    assert execution is not None  # noqa: S101  (it was started)
    if execution.refusal:
        return _refusal(refusal_as_plain(execution.decision, execution.settlement))
    process.wait(asked.wait)
    return _process(process, 0)


def read_process(session: Session, asked: ReadProcess, _: Watch) -> ToolOutcome:
    process = background_of(session).find(asked.id)
    process.wait(asked.wait, asked.since)
    return _process(process, asked.since)


def write_process(session: Session, asked: WriteProcess, _: Watch) -> ToolOutcome:
    process = background_of(session).find(asked.id)
    if not process.takes_input:
        raise BackgroundError(f"{process.id} reads nothing: it has ended, or its standard input was closed")
    taken = process.write(asked.text, is_last=asked.end)
    if taken < len(asked.text):
        raise BackgroundError(
            f"{process.id} took {taken} of {len(asked.text)} characters; it reads no more now"
        )
    return ToolOutcome(f"{process.id} took {taken} characters", {"id": process.id, "characters": taken})


def stop_process(session: Session, asked: StopProcess, _: Watch) -> ToolOutcome:
    process = background_of(session).find(asked.id)
    process.stop()
    return _process(process, asked.since)


def _process(process: BackgroundProcess, since: int) -> ToolOutcome:
    """What it wrote, and its state."""
    reading, end, execution = process.read(since), process.end, process.execution
    is_running = process.is_running or reading.has_more
    if process.is_running:
        how = f"[{process.id} is running; read on with since={reading.cursor}]"
    elif end is None:
        how = f"[{process.id} ended; {visible(process.error) or 'how is not known'}]"
    else:
        how = f"[{process.id} ended; {_how(end.exit_code, end.signal, end.timed_out, end.cancelled)[1:]}"
    missed = f"[{reading.missed} bytes before this are not kept]" if reading.missed else ""
    more = f"[there is more: since={reading.cursor}]" if reading.has_more else ""
    violations = execution.violations if execution and not is_running else ()
    data = {
        "id": process.id,
        "running": process.is_running,
        "output": reading.text,
        "cursor": reading.cursor,
        "missed": reading.missed,
        "hasMore": reading.has_more,
        "exitCode": end.exit_code if end else None,
        "signal": end.signal if end else None,
        "timedOut": bool(end and end.timed_out),
        "sandboxed": bool(execution and execution.decision.sandboxed),
        "violations": [violation_as_plain(each) for each in violations[:MOST_SHOWN]],
    }
    parts = [missed, reading.text.rstrip("\n"), more, how, violations_text(violations)]
    return ToolOutcome("\n".join(part for part in parts if part), data)


def _how(exit_code: int | None, signal: int | None, timed_out: bool, cancelled: bool) -> str:
    if timed_out:
        return "[its time was up]"
    if cancelled:
        return "[it was cancelled]"
    return f"[ended by signal {signal}]" if exit_code is None else f"[exit code {exit_code}]"


def read_file(session: Session, asked: ReadFileParameters, _: Watch) -> ToolOutcome:
    found = session.files.read(asked.path, first_line=asked.first_line, lines=asked.lines)
    return ToolOutcome(found.text, found._asdict())


def write_file(session: Session, asked: WriteFileParameters, _: Watch) -> ToolOutcome:
    written = session.files.write(asked.path, asked.text)
    return ToolOutcome(f"{'made' if written.created else 'wrote'} {visible(written.path)}", written._asdict())


def replace_in_file(session: Session, asked: ReplaceInFileParameters, _: Watch) -> ToolOutcome:
    written = session.files.replace(asked.path, [(each.search, each.replace) for each in asked.blocks])
    return ToolOutcome(f"replaced {len(asked.blocks)} in {visible(written.path)}", written._asdict())


def list_files(session: Session, asked: ListFilesParameters, _: Watch) -> ToolOutcome:
    if asked.pattern:
        found = [writable(path) for path in session.files.glob(asked.pattern, asked.path)]
        return _listed(found, {"files": [{"path": path} for path in found[:MOST_FOUND]]})
    entries = session.files.entries(asked.path)
    lines = [writable(each.path) + ("/" if each.kind == "a directory" else "") for each in entries]
    files = [{"path": writable(each.path), "kind": each.kind, "size": each.size} for each in entries]
    return _listed(lines, {"files": files[:MOST_FOUND]})


def search_files(session: Session, asked: SearchFilesParameters, _: Watch) -> ToolOutcome:
    hits = session.files.search(asked.pattern, asked.path, only=asked.only)
    lines = [f"{writable(hit.path)}:{hit.line}: {writable(hit.text)}" for hit in hits]
    told = [{"path": writable(hit.path), "line": hit.line, "text": writable(hit.text)} for hit in hits]
    return _listed(lines, {"hits": told[:MOST_FOUND]})


def _listed(lines: list[str], data: dict[str, Any]) -> ToolOutcome:
    more = [f"[{len(lines) - MOST_FOUND} more]"] if len(lines) > MOST_FOUND else []
    text = "\n".join([*lines[:MOST_FOUND], *more]) or "[nothing]"
    return ToolOutcome(text, {**data, "total": len(lines)})


def explain(session: Session, asked: ExplainParameters, _: Watch) -> ToolOutcome:
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


def request_permission(session: Session, asked: PermissionAndProjects, _: Watch) -> ToolOutcome:
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


def use(
    tool: Tool,
    session: Session,
    arguments: dict[str, Any],
    started: Started,
    wrote: Wrote = lambda _: None,
) -> ToolOutcome:
    """A tool's outcome, for a failure too; raises only for a bug in pinfold."""
    try:
        params = msgspec.convert(arguments, ready(tool.params))
    except msgspec.ValidationError as error:
        said = f"the arguments of `{tool.name}` are wrong: {error}"
        told = {"kind": "invalid", "message": said, "next": "call it again with arguments of its schema"}
        return _refusal(told)
    try:
        return tool.run(session, params, Watch(started, wrote))
    except FileRefused as refused:
        return _refusal(file_refusal_as_plain(refused))
    except BackgroundError as error:
        return _refusal(
            {"kind": "invalid", "message": str(error), "next": "call it again with another value"}
        )
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
            results.CommandOutput,
            execute,
            is_open=True,
        ),
        Tool(
            "start_process",
            "Start a background process",
            "Starts a shell line in the sandbox and leaves it running, such as a server or a watcher. It ends"
            " with this session. Read its output with read_process.",
            StartProcess,
            results.ProcessOutput,
            start_process,
            is_open=True,
        ),
        Tool(
            "read_process",
            "Read from a background process",
            "What a background process wrote since a cursor, and whether it has ended. With `wait` it returns"
            " as soon as there is new output.",
            ReadProcess,
            results.ProcessOutput,
            read_process,
            reads_only=True,
            destroys=False,
            is_idempotent=True,
        ),
        Tool(
            "write_process",
            "Write to a background process",
            "Writes to the standard input of a background process.",
            WriteProcess,
            results.InputTaken,
            write_process,
            is_open=True,
        ),
        Tool(
            "stop_process",
            "Stop a background process",
            "Ends a background process and all that it started, and gives the rest of its output.",
            StopProcess,
            results.ProcessOutput,
            stop_process,
            is_idempotent=True,
        ),
        Tool(
            "read_file",
            "Read a file",
            "The text of a file in the workspace, or some lines of it.",
            ReadFileParameters,
            results.FileOutput,
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
            results.FileWritten,
            write_file,
            is_idempotent=True,
        ),
        Tool(
            "replace_in_file",
            "Edit a file",
            "Replaces pieces of a file's text. Each must be found exactly once; else nothing is changed.",
            ReplaceInFileParameters,
            results.FileWritten,
            replace_in_file,
        ),
        Tool(
            "list_files",
            "List files",
            "What is in a directory of the workspace, or what a pattern matches below it. What is hidden is"
            " left out.",
            ListFilesParameters,
            results.FilesListed,
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
            results.LinesFound,
            search_files,
            reads_only=True,
            destroys=False,
            is_idempotent=True,
        ),
        Tool(
            "explain",
            "Explain a decision",
            "What would be done about a shell line (allow, ask or deny) and why. Nothing is run.",
            ExplainParameters,
            results.DecisionOutput,
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
            results.PermissionGiven,
            request_permission,
            destroys=False,
            is_idempotent=True,
        ),
    )
}
