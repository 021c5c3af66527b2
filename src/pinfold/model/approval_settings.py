"""What the user, the administrator and the server have settled about approvals.

The names and defaults are Cursor's; `settings` fills these in from its own layers.
"""

from enum import IntEnum, StrEnum

from msgspec import Struct


class AutoRunMode(StrEnum):
    """When a command runs without a person; the most careful stands first."""

    ASK_EVERY_TIME = "ask_every_time"
    USE_ALLOWLIST = "use_allowlist"
    RUN_EVERYTHING = "run_everything"


class SandboxingMode(IntEnum):
    UNSPECIFIED = 0
    ENABLED = 1
    DISABLED = 2


class Control(StrEnum):
    """Who decides about a capability of the fence."""

    ALWAYS_DISABLED = "ALWAYS_DISABLED"
    USER_CONTROLLED = "USER_CONTROLLED"


class SandboxingControls(Struct, frozen=True, rename="camel"):
    sandboxing: SandboxingMode = SandboxingMode.UNSPECIFIED
    sandbox_networking: Control = Control.USER_CONTROLLED
    sandbox_git: Control = Control.USER_CONTROLLED


class AutoRunControls(Struct, frozen=True, rename="camel"):
    """The administrator's hold on running without a person."""

    enabled: bool = False
    """An administrator is in control."""
    disabled: bool = False
    """Nothing runs without a person."""
    enable_run_everything: bool = True
    browser_features: bool = True
    """Agents may drive a browser at all."""
    sandboxing_controls: SandboxingControls = SandboxingControls()


class ServerConfiguration(Struct, frozen=True, rename="camel"):
    composite_shell_commands: tuple[str, ...] = ()
    """Programs shown, and offered, together with their arguments."""
    safe_shell_commands: tuple[str, ...] = ()
    """Commands that need no entry in the user's allowlist."""


class ApprovalSettings(Struct, frozen=True, rename="camel"):
    """Cursor's twelve fields, with its defaults."""

    is_admin_controlled: bool = False
    is_disabled_by_admin: bool = False
    browser_features: bool = True
    allowed_commands: tuple[str, ...] = ()
    blocked_commands: tuple[str, ...] = ()
    delete_file_protection: bool = False
    dot_files_protection: bool = True
    outside_workspace_protection: bool = True
    enable_run_everything: bool = False
    mcp_allowed_tools: tuple[str, ...] = ()
    mcp_tools_protection: bool = True
    playwright_protection: bool = False
