"""The answer to a request: allow, ask or deny, and why."""

from enum import StrEnum

from msgspec import Struct

from pinfold.model.policy import SandboxPolicy
from pinfold.model.text_positions import Origin, Span


class Verdict(StrEnum):
    """Deny comes first: any doubt becomes a denial."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


class StepCode(StrEnum):
    """The step that gave a reason. The first block are the functions of `policy.decide`, by name."""

    NUL = "nul"
    LATE = "late"
    DENIED = "denied"
    NO_FENCE = "no_fence"
    TOO_LONG = "too_long"
    RUINOUS = "ruinous"
    BYPASS = "bypass"
    WIDENING = "widening"
    CHANGES_PINFOLD = "changes_pinfold"
    SUPERUSER = "superuser"
    PERSON_WANTED = "person_wanted"
    ASKED_BY_HOOK = "asked_by_hook"
    UNPARSED = "unparsed"
    ASK_RULES = "ask_rules"
    NOTHING_TO_RUN = "nothing_to_run"
    RUN_EVERYTHING = "run_everything"
    DELETE_PROTECTION = "delete_protection"
    ELEVATION = "elevation"
    UNFENCED_FILES = "unfenced_files"
    EMPTY_ALLOWLIST = "empty_allowlist"
    COVERED = "covered"
    FENCED = "fenced"
    OTHERWISE = "otherwise"

    MALFORMED_PATH = "malformed_path"
    PROCESS_OWN = "process_own"
    HIDDEN = "hidden"
    ENV_FILE = "env_file"
    HIDDEN_BELOW = "hidden_below"
    READ_ONLY = "read_only"
    FILE_PROTECTION = "file_protection"
    GIT_IGNORED = "git_ignored"
    FILE_READ = "file_read"
    FILE_WRITE = "file_write"

    MALFORMED_HOST = "malformed_host"
    NETWORK_NONE = "network_none"
    NETWORK_ALLOW = "network_allow"
    NETWORK_DENY = "network_deny"
    SPECIAL_ADDRESS = "special_address"
    NETWORK_ACCESS = "network_access"

    MCP_ALLOW = "mcp_allow"
    MCP_TOOLS = "mcp_tools"
    BROWSER = "browser"
    BROWSER_FEATURES = "browser_features"
    MALFORMED_URL = "malformed_url"

    OUTSIDE = "outside"
    """A running command wants to write where its policy does not allow it."""
    PROTECTED = "protected"
    """A running command wants to write a protected name."""
    GIT_WRITES = "git_writes"
    """A running command wants to write to a git directory."""
    LEFT = "left"
    """The command has ended, and a process that it left running asks."""
    AGAIN = "again"
    """The command failed, and would run again with a larger grant."""
    PROJECT = "project"
    """A client wants to work in one more directory."""


class Reason(Struct, frozen=True):
    """What one step of the decision found."""

    step: StepCode
    message: str
    """The finding, in one line; the user's text is in backticks."""
    verdict: Verdict
    """What this step alone would decide."""
    rule: str = ""
    """The rule that matched, as its author wrote it."""
    origin: Origin | None = None
    """Where that rule or setting is written."""
    span: Span | None = None
    """The part of the line this is about; None is the whole of it."""
    remedy: str = ""
    """What would change the answer."""
    arguments: tuple[str, ...] = ()
    """Further values of the finding, such as the path that a link leads to. `step`, `rule` and these tell
    reasons apart; the message never does."""


class Widening(Struct, frozen=True):
    """One thing a requested policy wants beyond what the user's own policy grants."""

    field: str
    """The field of `SandboxPolicy`."""
    value: str
    """What is wanted, such as a path or a host."""


class JudgedCommand(Struct, frozen=True):
    """One simple command as it was understood."""

    argv: tuple[str, ...]
    """Its words; a word that only the shell can compute is given as written."""
    text: str
    span: Span
    computed: tuple[int, ...] = ()
    """Which of `argv` only the shell can compute."""


class Decision(Struct, frozen=True):
    """Allow, ask or deny, and every reason for it; the deciding reason comes first."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    sandboxed: bool
    """Whether the command runs inside the sandbox, if it runs."""
    policy: SandboxPolicy
    """The effective policy, without anything that still needs approval."""
    widening: tuple[Widening, ...] = ()
    """What approval would add to `policy`, by name."""
    commands: tuple[JudgedCommand, ...] = ()
    candidates: tuple[str, ...] = ()
    """Rules that a person might add to the allowlist so as not to be asked again."""
