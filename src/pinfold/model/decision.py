"""The answer to a request: allow, ask or deny, and why."""

from enum import StrEnum

from msgspec import Struct

from pinfold.model.locations import Origin, Span
from pinfold.model.policy import SandboxPolicy


class Verdict(StrEnum):
    """The refusing one stands first: it is what any doubt falls to."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


class StepCode(StrEnum):
    """What gave a reason. The first block are the steps of `policy.decide`, by their functions' names."""

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
    """A running command wants to write where its policy does not let it."""
    PROTECTED = "protected"
    """A running command wants to write a protected name."""
    GIT_WRITES = "git_writes"
    """A running command wants to write what git keeps."""
    LEFT = "left"
    """The command has ended, and something it left running asks."""
    AGAIN = "again"
    """The command failed, and would be run again with more."""
    PROJECT = "project"
    """A client wants to work in one more directory."""


class Reason(Struct, frozen=True):
    """One step that spoke."""

    step: StepCode
    message: str
    """What was found, in one line; the user's text in backticks."""
    verdict: Verdict
    """What this step alone would answer."""
    rule: str = ""
    """The rule that matched, as its author wrote it."""
    origin: Origin | None = None
    """Where that rule or setting is written."""
    span: Span | None = None
    """The part of the line this is about; None is the whole of it."""
    remedy: str = ""
    """What would change the answer."""
    arguments: tuple[str, ...] = ()
    """What was found besides the rule, such as the path that a link leads to. `step`, `rule` and these tell
    reasons apart; the message never does."""


class Widening(Struct, frozen=True):
    """One thing a requested policy wants beyond what the user's own gives."""

    field: str
    """The field of `SandboxPolicy`."""
    value: str
    """What is wanted, such as a path or a host."""


class JudgedCommand(Struct, frozen=True):
    """One simple command as it was understood."""

    argv: tuple[str, ...]
    """Its words; a word that only the shell can compute stands as it was written."""
    text: str
    span: Span
    computed: tuple[int, ...] = ()
    """Which of `argv` only the shell can compute."""


class Decision(Struct, frozen=True):
    """What is to be done, and every reason for it; the one that decided stands first."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    sandboxed: bool
    """Whether it runs inside the fence, if it runs."""
    policy: SandboxPolicy
    """The effective policy, without anything that is still to be approved."""
    widening: tuple[Widening, ...] = ()
    """What approval would add to `policy`, by name."""
    commands: tuple[JudgedCommand, ...] = ()
    candidates: tuple[str, ...] = ()
    """What a person might add to the allowlist so as not to be asked again."""
