"""The key table: every setting, what it may hold, and how far each layer is believed about it.

Merging, checking, the JSON Schema and docs/settings.md are all driven by this one table; a new
setting is one row here and one line in `build`. Nothing here reads a file.

Directions. Two values of a scalar compare by `rank`: the smaller rank is the narrower value, and a less
trusted layer can only ever bring the rank down. A GRANT list lets more through with each entry,
so it is taken from the trusted layers alone; a RESTRICT list lets less through, so all layers unite.
"""

from enum import Enum
from math import inf

from msgspec import Struct

from pinfold.model.policy import POLICY_WORDS


class ValueKind(Enum):
    """What a value is; `values` says what is accepted for each."""

    BOOL = "true or false"
    WORD = "a word"
    DURATION = "a duration"
    SIZE = "a size"
    COUNT = "a number"
    PATH = "a path"
    PROXY = "a proxy"
    URL = "an address"
    RULES = "a list of commands"
    TEXTS = "a list of strings"
    PATHS = "a list of paths"
    HOSTS = "a list of hosts"
    NAMES = "a list of variable names"
    PORTS = "a list of ports"
    HOOKS = "a list of programs"
    TEXT_TABLE = "a table of strings"
    LIST_TABLE = "a table of lists of strings"


class Direction(Enum):
    """Which of two values is the narrower."""

    AND = "false is narrower"
    OR = "true is narrower"
    ORDER = "an earlier word is narrower"
    SMALLER = "a smaller number is narrower"
    GRANT = "only entries of trusted layers count"
    RESTRICT = "entries of all layers count"


class WrittenBy(Enum):
    """The least trusted layer that may write a key at all."""

    MANAGED = "managed"
    """Elsewhere it is an error."""
    TRUSTED = "trusted"
    """Managed, command line and user; a project that writes it is not believed."""
    ANYONE = "anyone"


SCALARS = frozenset(
    [
        ValueKind.BOOL,
        ValueKind.WORD,
        ValueKind.DURATION,
        ValueKind.SIZE,
        ValueKind.COUNT,
        ValueKind.PATH,
        ValueKind.PROXY,
        ValueKind.URL,
    ]
)
TABLES = frozenset([ValueKind.TEXT_TABLE, ValueKind.LIST_TABLE])
LAYERS = ("managed", "command line", "user", "project-local", "project", "default")
"""Most trusted first; the places in this tuple are compared."""
PROJECT_LAYERS = ("project-local", "project")


class Key(Struct, frozen=True):
    name: str
    """`section.key`, or the bare key for one at the top level."""
    kind: ValueKind
    narrows: Direction
    default: object
    """As it would be written in the file."""
    doc: str
    words: tuple[str, ...] = ()
    """For a WORD: what may be written, narrowest first."""
    written_by: WrittenBy = WrittenBy.ANYONE

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    @property
    def is_scalar(self) -> bool:
        return self.kind in SCALARS

    def rank(self, value: object) -> float:
        """How much the value lets through; the smaller, the narrower."""
        match self.narrows:
            case Direction.AND:
                return int(bool(value))
            case Direction.OR:
                return int(not value)
            case Direction.ORDER:
                return self.words.index(str(value))
            case _:
                return value if isinstance(value, int | float) else inf


_AND, _OR, _ORDER, _SMALLER = Direction.AND, Direction.OR, Direction.ORDER, Direction.SMALLER
_GRANT, _RESTRICT = Direction.GRANT, Direction.RESTRICT


def _switch(
    name: str, narrows: Direction, default: bool, doc: str, written_by: WrittenBy = WrittenBy.ANYONE
) -> Key:
    return Key(name, ValueKind.BOOL, narrows, default, doc, (), written_by)


def _word(name: str, words: str, default: str, doc: str, written_by: WrittenBy = WrittenBy.ANYONE) -> Key:
    return Key(name, ValueKind.WORD, _ORDER, default, doc, tuple(words.split()), written_by)


def _list(
    name: str, kind: ValueKind, narrows: Direction, doc: str, written_by: WrittenBy = WrittenBy.ANYONE
) -> Key:
    return Key(name, kind, narrows, {} if kind in TABLES else [], doc, (), written_by)


# fmt: off
# ruff: noqa: E501
TABLE: tuple[Key, ...] = (
    _word("mode", "ask_every_time use_allowlist run_everything", "use_allowlist", "When a command runs without a question."),
    _list("projects", ValueKind.PATHS, _GRANT, "Directories that a client may add to a session without asking."),

    _switch("sandbox.enabled", _OR, True, "Run commands in the sandbox."),
    _word("sandbox.policy", " ".join(POLICY_WORDS), "workspace-write", "What the sandbox lets commands write."),
    _switch("sandbox.auto_allow", _AND, True, "Commands in the sandbox run without a question."),
    _switch("sandbox.allow_unsandboxed", _AND, True, "A request may ask to run a command outside the sandbox."),
    _list("sandbox.excluded_commands", ValueKind.RULES, _GRANT, "Commands that run outside the sandbox; they still need approval. If `allow_unsandboxed` is false, only entries of the layer that set it, or of a more trusted layer, count."),
    _word("sandbox.if_unavailable", "refuse ask run", "refuse", "What to do if the sandbox is not available on this machine."),
    Key("sandbox.debug_output_dir", ValueKind.PATH, _SMALLER, "", "A directory to which Pinfold writes the policy, the plan and the timings of each run; empty for none.", (), WrittenBy.TRUSTED),

    _list("commands.allow", ValueKind.RULES, _GRANT, "Commands that run without a question."),
    _list("commands.ask", ValueKind.RULES, _RESTRICT, "Commands that always ask."),
    _list("commands.deny", ValueKind.RULES, _RESTRICT, "Commands that never run."),
    _list("commands.safe", ValueKind.RULES, _GRANT, "Commands that need no entry in the allowlist; replaces the shipped list.", WrittenBy.MANAGED),
    _list("commands.composite", ValueKind.TEXTS, _GRANT, "Programs that questions and suggestions show with their subcommand; replaces the shipped list.", WrittenBy.MANAGED),

    _switch("protect.delete_files", _OR, False, "Ask before a command deletes files."),
    _switch("protect.dotfiles", _OR, True, "Ask before a file whose name begins with a dot is written."),
    _switch("protect.outside_workspace", _OR, True, "Ask before a file outside the workspace is written."),
    _switch("protect.git_ignored", _OR, True, "Ask before a file that git ignores is touched by a file tool."),
    _switch("protect.mcp_tools", _OR, True, "Ask before an MCP tool that is not in `mcp.allow` is called."),
    _switch("protect.browser", _OR, False, "Ask before an agent drives a browser."),

    _list("mcp.allow", ValueKind.TEXTS, _GRANT, "MCP tools that run without a question, as `server:tool`."),
    _switch("mcp.cli", _AND, False, "A line that runs only `mcp-cli` asks to run outside the sandbox."),

    _word("admin.auto_run", "disabled allowed", "allowed", "Whether anything runs without a person's approval.", WrittenBy.MANAGED),
    _switch("admin.run_everything", _AND, True, "Whether users may choose the mode `run_everything`.", WrittenBy.MANAGED),
    _word("admin.sandboxing", "enabled disabled user", "user", "Whether the sandbox is on, off, or the user's choice. If it is `enabled`, only a managed file can let a command out of it: exclusions, `allow_unsandboxed` and `if_unavailable` of other layers have no effect.", WrittenBy.MANAGED),
    _word("admin.networking", "disabled user", "user", "Whether the sandbox has no network, or the user decides.", WrittenBy.MANAGED),
    _word("admin.git", "disabled user", "user", "Whether commands may never write to `.git`, or the user decides.", WrittenBy.MANAGED),
    _switch("admin.browser", _AND, True, "Whether agents may drive a browser.", WrittenBy.MANAGED),

    _list("filesystem.write", ValueKind.PATHS, _GRANT, "Paths outside the workspace that commands may write."),
    _list("filesystem.read", ValueKind.PATHS, _GRANT, "Paths that commands may read although Pinfold hides them by default."),
    _list("filesystem.hide", ValueKind.PATHS, _RESTRICT, "Paths, or bare names at any depth, that commands cannot read."),
    _list("filesystem.protect", ValueKind.PATHS, _RESTRICT, "Paths, bare names at any depth, and endings of names (`*.pem`), that commands may not write."),
    _switch("filesystem.git_writes", _AND, False, "Commands in the sandbox may write to `.git`, and to repositories of other names."),
    _switch("filesystem.ask", _AND, True, "Pinfold asks about a write that the sandbox denies, while the write waits. If there is no way to ask, the write is denied."),
    _word("filesystem.tmp", "none private shared", "private", "The /tmp (and /var/tmp) that commands see: `none`, an empty read-only one; `private`, the session's own, which in a conversation of an agent is a directory of yours below the machine's /tmp, where the agent's file tools find the same files; `shared`, the machine's, in which names are protected as in a project."),
    Key("filesystem.ignore_files", ValueKind.TEXTS, _RESTRICT, [(
        ".pinfoldignore"
    ), (
        ".cursorignore"
    )], "Names of files that list hidden files of a project, in the format of .gitignore; commands may not write them."),
    _switch("filesystem.env_files", _AND, False, "Commands may read `.env` files (`.env.local`, `.envrc`) that git does not track and that no command of the session created. They may always read samples such as `.env.example`. To allow one file, use `filesystem.read`."),

    _word("network.access", "none rules ask all", "ask", "The hosts that commands reach: `none`; `rules`, those in `allow`; `ask`, those and the hosts that a person grants; `all`, every host except those in `deny`."),
    _list("network.allow", ValueKind.HOSTS, _GRANT, "Allowed hosts: `x.example`, `*.x.example` for every subdomain, an address, a network such as `10.0.0.0/8`, any of them with `:443`; an IPv6 address with a port as `[2001:db8::1]:443`. Loopback, private and other special addresses are allowed only if an entry names them. `localhost:5432` gives commands that port of this machine's loopback, instead of the sandbox's own."),
    _list("network.deny", ValueKind.HOSTS, _RESTRICT, "Hosts that are never allowed, written as in `allow`; `*` is every host."),
    _list("network.unix_sockets", ValueKind.PATHS, _GRANT, "Unix sockets of this machine that commands may connect to. `$SSH_AUTH_SOCK` names a socket by its variable, which commands then keep. Datagram sockets stay blocked."),
    _list("network.publish", ValueKind.PORTS, _GRANT, "Ports of commands that this machine reaches on its loopback, under the same number."),
    Key("network.proxy", ValueKind.PROXY, _SMALLER, "environment", "The proxy for connections to allowed hosts: `http://HOST:PORT`, with user and password in the variable `PINFOLD_PROXY_CREDENTIALS` as `USER:PASSWORD`; `environment`, the one in `https_proxy` or `all_proxy` when Pinfold starts; or `none`. Hosts in `no_proxy` and addresses that are not public are reached without it.", (), WrittenBy.TRUSTED),

    _list("environment.keep", ValueKind.NAMES, _GRANT, "Variables that commands get although they look like secrets."),
    _list("environment.drop", ValueKind.NAMES, _RESTRICT, "Variables that commands never get."),
    _list("environment.set", ValueKind.TEXT_TABLE, _GRANT, "Variables that every command gets, with their values."),

    Key("limits.timeout", ValueKind.DURATION, _SMALLER, "10m", "How long a command may take; empty for no limit."),
    Key("limits.memory", ValueKind.SIZE, _SMALLER, "", "How much memory a command may use; empty for no limit."),
    Key("limits.processes", ValueKind.COUNT, _SMALLER, 512, "How many processes a command may have at once."),
    Key("limits.output", ValueKind.SIZE, _SMALLER, "10MB", "How much of a command's output is kept, for each stream; empty for no limit."),
    Key("limits.answer", ValueKind.DURATION, _SMALLER, "2s", "How long Pinfold may work on a decision, without the time of hooks; on a busy machine it may take five times as long. A later one is a deny.", (), WrittenBy.TRUSTED),

    _list("hooks.before_command", ValueKind.HOOKS, _RESTRICT, "Programs to ask before each command; a crash or a timeout is a deny.", WrittenBy.TRUSTED),
    Key("hooks.timeout", ValueKind.DURATION, _SMALLER, "10s", "How long a hook may take.", (), WrittenBy.TRUSTED),

    Key("approvals.keep", ValueKind.DURATION, _SMALLER, "30d", "How long an answer `always` holds, and how long an answer `session` can be resumed; empty for no limit."),
    Key("approvals.wait", ValueKind.DURATION, _SMALLER, "2m", "How long a question stays open on the terminal or the page; then the answer is no. At most 10 minutes."),

    _switch("approvals.notify", _AND, False, "Show a desktop notification (`notify-send`) for each question that is put on the page, or would be.", WrittenBy.TRUSTED),
    Key("approvals.webhook", ValueKind.URL, _SMALLER, "", "An `https://` address, or `http://` of this machine, that gets questions that no terminal and no page has answered, and answers them, both signed; empty for none.", (), WrittenBy.TRUSTED),

    Key("journal.size", ValueKind.SIZE, _SMALLER, "200MB", "The size at which the journal deletes its oldest rows, all projects together; empty for no limit. An administrator may set more or less than the default; your own value counts if it is smaller.", (), WrittenBy.TRUSTED),

    Key("sessions.idle", ValueKind.DURATION, _SMALLER, "2h", "How long an agent's conversation keeps its sandbox while neither a command nor a process runs in it; empty for no limit.", (), WrittenBy.TRUSTED),

    _list("violations.ignore", ValueKind.LIST_TABLE, _GRANT, "Command -> paths or hosts whose violations are not reported."),
)
# fmt: on

BY_NAME: dict[str, Key] = {key.name: key for key in TABLE}
SECTIONS: dict[str, tuple[Key, ...]] = {}
"""Section -> its keys; the empty name is the top of the file."""
for _key in TABLE:
    _section = _key.name.rpartition(".")[0]
    SECTIONS[_section] = (*SECTIONS.get(_section, ()), _key)

RULE_KEYS: dict[str, str] = {
    "decision": "`allow`, `ask` or `deny`.",
    "command": "The command that it matches, such as `git push`.",
    "reason": "Shown when the rule matches.",
    "match": "Command lines that must match; `pinfold settings validate` checks them.",
    "not_match": "Command lines that must not match.",
}
"""What a `[[rule]]` table may hold."""
DECISIONS = ("allow", "ask", "deny")
