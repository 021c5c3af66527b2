"""One thing an agent wants."""

from typing import TypeAlias

from msgspec import Struct

from pinfold.model.policy import SandboxPolicy


class RunCommand(Struct, frozen=True, tag="run_command"):
    """Run a shell line, or an argument vector without a shell."""

    command: str
    """The line. With `argv`, it is only shown to people."""
    argv: tuple[str, ...] | None = None
    """Set to run a program without a shell."""
    cwd: str | None = None
    """Where it starts; None is the session's own directory."""
    description: str = ""
    """The agent's own account of what the command is for. Shown, never trusted."""
    timeout: float | None = None
    policy: SandboxPolicy | None = None
    """A requested policy. What it narrows applies; what it widens needs approval."""
    disable_sandbox: bool = False
    """Claude Code's `dangerouslyDisableSandbox`."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables that the caller sets for the command, where they may change what it does."""


class ReadFile(Struct, frozen=True, tag="read_file"):
    """Read a file, or list a directory."""

    path: str
    below: bool = False
    """Everything below it is read as well, as a search does."""


class WriteFile(Struct, frozen=True, tag="write_file"):
    """Make, change or remove a file."""

    path: str
    delete: bool = False
    """Remove the file instead of writing it."""


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
