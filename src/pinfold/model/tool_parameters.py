"""The parameters of the tools that agents and programs are given, with what a model reads about each.

MCP takes them as they are, and their JSON Schemas come from here. The service adds a session to each, and has
names of its own for some (`service.messages`). A field's name is a promise to every agent that knows the
tool. The tool itself rejects a value of the right type that it cannot use.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct, field


class ToolParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """INVARIANT: unknown parameters are rejected, since ignoring one could drop a restriction."""


def _about(text: str) -> Any:
    return Meta(description=text)


class CommandOptions(ToolParameters, frozen=True, kw_only=True):
    description: Annotated[str, _about("what it is for, in a few words; a person may read it")] = ""
    cwd: Annotated[str | None, _about("where to start; the project if left out")] = None
    timeout: Annotated[float | None, _about("seconds it may take")] = None
    sandbox_policy: Annotated[
        dict[str, Any] | None,
        _about(
            "a policy for this call alone: restrictions apply at once, and the person is asked about the rest"
        ),
    ] = field(default=None, name="sandboxPolicy")
    dangerously_disable_sandbox: Annotated[
        bool, _about("only if the person explicitly asked for it; they are asked again")
    ] = field(default=False, name="dangerouslyDisableSandbox")


class ExecuteCommand(CommandOptions, frozen=True):
    command: Annotated[str, _about("a shell line, as bash reads it")]


MOST_PATIENCE = 30
"""Seconds that a call may wait for a background process: clients give up a call after about a minute."""


class StartProcess(CommandOptions, frozen=True):
    command: Annotated[str, _about("a shell line, as bash reads it; do not end it with `&`")]
    wait: Annotated[
        float,
        Meta(ge=0, le=MOST_PATIENCE, description="seconds to wait for its end, so that you see it fail"),
    ] = 1.0


class ReadProcess(ToolParameters, frozen=True):
    id: Annotated[str, _about("as start_process gave it")]
    since: Annotated[
        int, Meta(ge=0, description="the `cursor` of the last answer; 0 for all output that is kept")
    ] = 0
    wait: Annotated[
        float, Meta(ge=0, le=MOST_PATIENCE, description="seconds to wait for new output or the end")
    ] = 0.0


class WriteProcess(ToolParameters, frozen=True):
    id: Annotated[str, _about("as start_process gave it")]
    text: Annotated[str, _about("what to write; end a line with a newline")]
    end: Annotated[bool, _about("close its standard input behind the text")] = False


class StopProcess(ToolParameters, frozen=True):
    id: Annotated[str, _about("as start_process gave it")]
    since: Annotated[
        int, Meta(ge=0, description="the `cursor` of the last answer; 0 for all output that is kept")
    ] = 0


class ReadFileParameters(ToolParameters, frozen=True):
    path: str
    first_line: Annotated[int, _about("counted from 1")] = 1
    lines: Annotated[int | None, _about("how many; all if left out")] = None


class WriteFileParameters(ToolParameters, frozen=True):
    path: str
    text: Annotated[str, _about("the whole new content of the file")]


class Block(ToolParameters, frozen=True):
    """One replacement in a file's text."""

    search: Annotated[str, _about("text that occurs exactly once in the file")]
    replace: Annotated[str, _about("the text to put in its place")]


class ReplaceInFileParameters(ToolParameters, frozen=True):
    path: str
    blocks: Annotated[tuple[Block, ...], _about("all of them are replaced, or none")]


class ListFilesParameters(ToolParameters, frozen=True):
    path: str = "."
    pattern: Annotated[str, _about("such as `**/*.py`; without one, the entries of the directory itself")] = (
        ""
    )


class SearchFilesParameters(ToolParameters, frozen=True):
    pattern: Annotated[str, _about("a regular expression of RE2")]
    path: str = "."
    only: Annotated[str, _about("which files, such as `**/*.py`")] = "**"


class ExplainParameters(ToolParameters, frozen=True):
    command: Annotated[str, _about("a shell line; it is not run")]


class PermissionParameters(ToolParameters, frozen=True):
    why: Annotated[str, _about("which restriction blocks which task, in a sentence")]
    write: Annotated[tuple[str, ...], _about("paths to write")] = ()
    read: Annotated[tuple[str, ...], _about("hidden paths to read")] = ()
    hosts: Annotated[tuple[str, ...], _about("hosts to reach, such as `pypi.org`")] = ()
    git_writes: Annotated[bool, _about("commit, checkout, stash and so on")] = False


class PermissionAndProjects(PermissionParameters, frozen=True):
    projects: Annotated[tuple[str, ...], _about("other directories to work in, like the project")] = ()
