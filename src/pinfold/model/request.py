"""One thing an agent wants."""

from typing import TypeAlias

from msgspec import Struct

from pinfold.model.policy import SandboxPolicy


class RunCommand(Struct, frozen=True, tag="run_command"):
    """Run a shell line, or an argument vector without a shell."""

    command: str
    """The line. With `argv`, only what a person is shown of it."""
    argv: tuple[str, ...] | None = None
    """Set when no shell is to be involved."""
    cwd: str | None = None
    """Where it starts; None is the session's own directory."""
    description: str = ""
    """What the agent says it is for. Shown, never believed."""
    timeout: float | None = None
    policy: SandboxPolicy | None = None
    """A requested policy. What it narrows applies; what it would widen is asked for."""
    disable_sandbox: bool = False
    """Claude Code's `dangerouslyDisableSandbox`."""
    variables: tuple[tuple[str, str], ...] = ()
    """Those that whoever asks sets for it, where they may change what it does."""


class ReadFile(Struct, frozen=True, tag="read_file"):
    """Read a file, or list a directory."""

    path: str
    below: bool = False
    """Whatever lies in it is read as well, as a search does."""


class WriteFile(Struct, frozen=True, tag="write_file"):
    """Make, change or remove a file."""

    path: str
    delete: bool = False
    """The file is to be removed rather than written."""


class Connect(Struct, frozen=True, tag="connect"):
    """Reach a host at a port."""

    host: str
    port: int


class CallTool(Struct, frozen=True, tag="call_tool"):
    """Call a tool of an MCP server."""

    server: str
    tool: str


class UseBrowser(Struct, frozen=True, tag="use_browser"):
    """Drive a browser."""

    action: str
    url: str = ""


Request: TypeAlias = RunCommand | ReadFile | WriteFile | Connect | CallTool | UseBrowser
