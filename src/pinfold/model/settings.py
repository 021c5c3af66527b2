"""The settings in force: every layer merged, every value with its origin.

`settings.build` makes these. A stage that reads them never asks which layer a value came from in order to
decide; `origin` is for telling a person. Names and defaults of the approval settings are Cursor's.
"""

from enum import IntEnum, StrEnum

from msgspec import Struct

from pinfold.model.policy import Cap, EnvironmentRules, Limits, PolicyType
from pinfold.model.script import Shape
from pinfold.model.text_positions import Origin


class AutoRunMode(StrEnum):
    """When a command runs without a person; the most careful comes first."""

    ASK_EVERY_TIME = "ask_every_time"
    USE_ALLOWLIST = "use_allowlist"
    RUN_EVERYTHING = "run_everything"


class SandboxingMode(IntEnum):
    UNSPECIFIED = 0
    ENABLED = 1
    DISABLED = 2


class Control(StrEnum):
    """Who decides about a capability of the sandbox."""

    ALWAYS_DISABLED = "ALWAYS_DISABLED"
    USER_CONTROLLED = "USER_CONTROLLED"


class SandboxingControls(Struct, frozen=True, rename="camel"):
    sandboxing: SandboxingMode = SandboxingMode.UNSPECIFIED
    sandbox_networking: Control = Control.USER_CONTROLLED
    sandbox_git: Control = Control.USER_CONTROLLED


class AutoRunControls(Struct, frozen=True, rename="camel"):
    """How far the administrator limits running without a person."""

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


class IfUnavailable(StrEnum):
    """What happens where the machine cannot provide the sandbox."""

    REFUSE = "refuse"
    ASK = "ask"
    RUN = "run"


class TmpAccess(StrEnum):
    NONE = "none"
    PRIVATE = "private"
    SHARED = "shared"


class NetworkAccess(StrEnum):
    NONE = "none"
    RULES = "rules"
    ASK = "ask"
    ALL = "all"


class Rule(Struct, frozen=True):
    """One line of an allow, ask, deny, safe or exclusion list."""

    text: str
    """As its author wrote it."""
    shape: Shape
    origin: Origin
    reason: str = ""
    """Its author's reason, shown when it matches."""


class SandboxSettings(Struct, frozen=True):
    enabled: bool = True
    policy: PolicyType = PolicyType.WORKSPACE_READWRITE
    auto_allow: bool = True
    """Commands inside the sandbox run without a question."""
    allow_unsandboxed: bool = True
    """A bypass may be asked for."""
    excluded_commands: tuple[Rule, ...] = ()
    if_unavailable: IfUnavailable = IfUnavailable.REFUSE
    debug_output_dir: str = ""


class CommandRules(Struct, frozen=True):
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    safe: tuple[Rule, ...] = ()
    composite: tuple[str, ...] = ()


class Protections(Struct, frozen=True):
    delete_files: bool = False
    dotfiles: bool = True
    outside_workspace: bool = True
    git_ignored: bool = True
    mcp_tools: bool = True
    browser: bool = False


class McpSettings(Struct, frozen=True):
    allow: tuple[str, ...] = ()
    cli: bool = False


class FilesystemSettings(Struct, frozen=True):
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    git_writes: bool = False
    ask: bool = True
    tmp: TmpAccess = TmpAccess.PRIVATE
    ignore_files: tuple[str, ...] = (".pinfoldignore", ".cursorignore")
    env_files: bool = False


class NetworkSettings(Struct, frozen=True):
    access: NetworkAccess = NetworkAccess.ASK
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    unix_sockets: tuple[str, ...] = ()
    publish: tuple[int, ...] = ()
    proxy: str = "environment"
    """`http://HOST:PORT`, `environment` or `none`."""


class Hook(Struct, frozen=True):
    """A program asked before each command."""

    command: tuple[str, ...]
    origin: Origin


class HookSettings(Struct, frozen=True):
    before_command: tuple[Hook, ...] = ()
    timeout: float = 10.0
    """Seconds; a hook that takes longer counts as a no."""


class JournalSettings(Struct, frozen=True):
    size: int | None = 200_000_000
    """Bytes; None sets no limit."""


class AnswerSettings(Struct, frozen=True):
    keep: float | None = 30 * 86400.0
    """How many seconds Pinfold keeps an answer for longer than once; None is for good."""
    wait: float | None = 120.0
    """Seconds that a person at the terminal or the page has for an answer; None is the longest that any
    approver gets."""
    notify: bool = False
    webhook: str = ""
    """Empty for none."""

    @property
    def question_timeout(self) -> float:
        """How many seconds a question stays open."""
        from pinfold.model.permission import LONGEST_QUESTION

        return min(self.wait or LONGEST_QUESTION, LONGEST_QUESTION)


class SessionSettings(Struct, frozen=True):
    idle: float | None = 7200.0
    """Seconds that an agent's conversation keeps its session without a command or a process."""


class Settings(Struct, frozen=True):
    """Everything that is decided before Pinfold looks at a request."""

    mode: AutoRunMode = AutoRunMode.USE_ALLOWLIST
    sandbox: SandboxSettings = SandboxSettings()
    commands: CommandRules = CommandRules()
    protect: Protections = Protections()
    mcp: McpSettings = McpSettings()
    admin: AutoRunControls = AutoRunControls()
    filesystem: FilesystemSettings = FilesystemSettings()
    network: NetworkSettings = NetworkSettings()
    environment: EnvironmentRules = EnvironmentRules()
    environment_set: dict[str, str] = {}
    limits: Limits = Limits()
    answer: float = 2.0
    """Seconds that judging a request may take; a request that takes longer is denied."""
    hooks: HookSettings = HookSettings()
    approvals: AnswerSettings = AnswerSettings()
    journal: JournalSettings = JournalSettings()
    sessions: SessionSettings = SessionSettings()
    violations_ignore: dict[str, tuple[str, ...]] = {}
    projects: tuple[str, ...] = ()
    """Directories a client may add to a session without asking."""
    cap: Cap = Cap()
    """What the managed files limit: it bounds anything that is approved later."""
    origins: dict[str, Origin] = {}
    """`section.key` -> where its value is written; keys left at their default are absent."""
    notices: tuple[str, ...] = ()
    """Entries of a layer that Pinfold ignored, and why: one line each."""

    def origin(self, key: str, entry: int | None = None) -> Origin:
        """Where a key's value is written, or one entry of its list."""
        whole = self.origins.get(key, Origin("default"))
        return whole if entry is None else self.origins.get(f"{key}[{entry}]", whole)

    @property
    def approval(self) -> ApprovalSettings:
        """These settings in Cursor's words."""
        return ApprovalSettings(
            is_admin_controlled=self.admin.enabled,
            is_disabled_by_admin=self.admin.disabled,
            browser_features=self.admin.browser_features,
            allowed_commands=tuple(rule.text for rule in self.commands.allow),
            blocked_commands=tuple(rule.text for rule in self.commands.ask),
            delete_file_protection=self.protect.delete_files,
            dot_files_protection=self.protect.dotfiles,
            outside_workspace_protection=self.protect.outside_workspace,
            enable_run_everything=(
                self.admin.enable_run_everything
                if self.admin.enabled
                else self.mode is AutoRunMode.RUN_EVERYTHING
            ),
            mcp_allowed_tools=self.mcp.allow,
            mcp_tools_protection=self.protect.mcp_tools,
            playwright_protection=self.protect.browser,
        )

    @property
    def server(self) -> ServerConfiguration:
        return ServerConfiguration(
            composite_shell_commands=self.commands.composite,
            safe_shell_commands=tuple(rule.text for rule in self.commands.safe),
        )
