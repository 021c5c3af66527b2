"""Makes `model.settings.Settings` of the values in force, and with `effective` plain values by key again.

The only module that knows every key by name. It decides nothing about layers; the `[admin]` table is applied
first (`merge.bind`). A test checks that `effective` forgets no key.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from msgspec.structs import replace

from pinfold.model.escape_text import visible
from pinfold.model.policy import (
    POLICY_WORDS,
    Cap,
    EnvironmentRules,
    Limits,
    NetworkRules,
    PolicyType,
    SandboxPolicy,
)
from pinfold.model.script import Shape
from pinfold.model.settings import (
    AnswerSettings,
    AutoRunControls,
    AutoRunMode,
    CommandRules,
    Control,
    FilesystemSettings,
    Hook,
    HookSettings,
    IfUnavailable,
    JournalSettings,
    McpSettings,
    NetworkAccess,
    NetworkSettings,
    Protections,
    Rule,
    SandboxingControls,
    SandboxingMode,
    SandboxSettings,
    SessionSettings,
    Settings,
    TmpAccess,
)
from pinfold.model.text_positions import Origin
from pinfold.settings.keys import BY_NAME, TABLE, ValueKind
from pinfold.settings.merge import EMPTIED, MergedSettings, bind, insisting, merge
from pinfold.settings.parse_layer import SettingsLayer, WrittenValue

_SANDBOXING = {
    "user": SandboxingMode.UNSPECIFIED,
    "enabled": SandboxingMode.ENABLED,
    "disabled": SandboxingMode.DISABLED,
}
_GRANTS = {
    "filesystem.write": "additional_readwrite_paths",
    "filesystem.read": "additional_readonly_paths",
    "network.unix_sockets": "unix_sockets",
    "network.publish": "published_ports",
    "environment.keep": "environment",
}
"""A list that grants -> the field of the policy that a managed list of it caps."""


def build(
    layers: Sequence[SettingsLayer],
    shape: Callable[[str], Shape],
    check_host: Callable[[str, str], None] | None = None,
    held: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of these layers, or a `PolicyError` where an entry of one is no rule or no host.

    They are no wider than `held`, what a resumed session had.
    """
    shape = cache(shape)
    for layer in layers:
        require_sound(layer, shape, check_host)
    merged = merge(layers)
    managed = [layer for layer in layers if layer.document.layer == "managed"]
    bind(merged, managed)
    if held is not None:
        from pinfold.settings.cap_resumed import held_layer, hold

        hold(merged, held_layer(held))
    values = _Values(merged, shape)
    return Settings(
        mode=AutoRunMode(values.word("mode")),
        sandbox=SandboxSettings(
            enabled=values.flag("sandbox.enabled"),
            policy=POLICY_WORDS[values.word("sandbox.policy")],
            auto_allow=values.flag("sandbox.auto_allow"),
            allow_unsandboxed=values.flag("sandbox.allow_unsandboxed"),
            excluded_commands=values.rules("sandbox.excluded_commands"),
            if_unavailable=IfUnavailable(values.word("sandbox.if_unavailable")),
            debug_output_dir=values.word("sandbox.debug_output_dir"),
        ),
        commands=CommandRules(
            allow=values.rules("commands.allow"),
            ask=values.rules("commands.ask"),
            deny=values.rules("commands.deny"),
            safe=values.rules("commands.safe"),
            composite=values.items("commands.composite"),
        ),
        protect=Protections(
            delete_files=values.flag("protect.delete_files"),
            dotfiles=values.flag("protect.dotfiles"),
            outside_workspace=values.flag("protect.outside_workspace"),
            git_ignored=values.flag("protect.git_ignored"),
            mcp_tools=values.flag("protect.mcp_tools"),
            browser=values.flag("protect.browser"),
        ),
        mcp=McpSettings(allow=values.items("mcp.allow"), cli=values.flag("mcp.cli")),
        admin=_controls(managed, values),
        filesystem=FilesystemSettings(
            write=values.items("filesystem.write"),
            read=values.items("filesystem.read"),
            hide=values.items("filesystem.hide"),
            protect=values.items("filesystem.protect"),
            git_writes=values.flag("filesystem.git_writes"),
            ask=values.flag("filesystem.ask"),
            tmp=TmpAccess(values.word("filesystem.tmp")),
            ignore_files=values.items("filesystem.ignore_files"),
            env_files=values.flag("filesystem.env_files"),
        ),
        network=NetworkSettings(
            access=NetworkAccess(values.word("network.access")),
            allow=values.items("network.allow"),
            deny=values.items("network.deny"),
            unix_sockets=values.items("network.unix_sockets"),
            publish=values.items("network.publish"),
            proxy=values.word("network.proxy"),
        ),
        environment=EnvironmentRules(
            keep=values.items("environment.keep"), drop=values.items("environment.drop")
        ),
        environment_set=dict(values.items("environment.set")),
        limits=Limits(
            timeout=values.number("limits.timeout"),
            memory=values.number("limits.memory"),
            processes=values.number("limits.processes"),
            output=values.number("limits.output"),
        ),
        answer=values.number("limits.answer"),
        hooks=HookSettings(
            before_command=tuple(
                Hook(entry.value, entry.origin)  # type: ignore[arg-type]  # checked by `values`
                for entry in merged.lists.get("hooks.before_command", ())
            ),
            timeout=values.number("hooks.timeout"),
        ),
        approvals=AnswerSettings(
            keep=values.number("approvals.keep"),
            wait=values.number("approvals.wait"),
            notify=values.flag("approvals.notify"),
            webhook=values.word("approvals.webhook"),
        ),
        journal=JournalSettings(size=values.number("journal.size")),
        sessions=SessionSettings(idle=values.number("sessions.idle")),
        violations_ignore=dict(values.items("violations.ignore")),
        projects=values.items("projects"),
        cap=_cap(managed),
        origins=_origins(merged),
        notices=tuple(merged.notices),
    )


class _Values:
    """Reads merged values as what `values` made them."""

    def __init__(self, merged: MergedSettings, shape: Callable[[str], Shape]) -> None:
        self._merged = merged
        self._shape = shape

    def _scalar(self, name: str) -> Any:
        return self._merged.scalars[name].value

    def flag(self, name: str) -> bool:
        return bool(self._scalar(name))

    def word(self, name: str) -> str:
        return str(self._scalar(name))

    def number(self, name: str) -> Any:
        return self._scalar(name)

    def items(self, name: str) -> tuple[Any, ...]:
        return tuple(entry.value for entry in self._merged.lists.get(name, ()))

    def rules(self, name: str) -> tuple[Rule, ...]:
        entries = self._merged.lists.get(name, ())
        if entries and entries[0].layer == "default":
            return _shipped_rules(entries)
        return tuple(
            Rule(str(entry.value), self._shape(str(entry.value)), entry.origin, entry.reason)
            for entry in entries
        )


def require_sound(
    layer: SettingsLayer, shape: Callable[[str], Shape], check_host: Callable[[str, str], None] | None
) -> None:
    """Raises `PolicyError` at the first entry that is no rule or no host, though it may not be in force."""
    if layer.document.layer == "default":
        return
    checks: dict[ValueKind, tuple[Callable[..., object], str]] = {ValueKind.RULES: (shape, "rule")}
    if check_host is not None:
        checks[ValueKind.HOSTS] = (check_host, "host")
    for name, entries in layer.lists.items():
        if BY_NAME[name].kind not in checks:
            continue
        check, noun = checks[BY_NAME[name].kind]
        more = (name,) if noun == "host" else ()
        for entry in entries:
            try:
                check(str(entry.value), *more)
            except ValueError as error:
                shown = visible(str(entry.value)[:80])
                message = f"`{shown}` in `{name}` is not a {noun}: {visible(str(error))}"
                raise entry.document.error(entry.path, message) from None


@lru_cache(2)
def _shipped_rules(entries: tuple[WrittenValue, ...]) -> tuple[Rule, ...]:
    """Made once in a process, and without `shape`, which would read the chart of each program (18 ms cold).

    A permissive rule compares words alone, and ours are plain ones; a test holds them against `shape`.
    """
    texts = [str(entry.value) for entry in entries]
    return tuple(Rule(text, Shape(text.split()[0], tuple(text.split())), Origin("default")) for text in texts)


def _controls(managed: list[SettingsLayer], values: _Values) -> AutoRunControls:
    is_controlled = any(
        "commands.allow" in layer.lists or "admin" in layer.document.data for layer in managed
    )
    closed = {"disabled": Control.ALWAYS_DISABLED, "user": Control.USER_CONTROLLED}
    return AutoRunControls(
        enabled=is_controlled,
        disabled=values.word("admin.auto_run") == "disabled",
        enable_run_everything=values.flag("admin.run_everything"),
        browser_features=values.flag("admin.browser"),
        sandboxing_controls=SandboxingControls(
            sandboxing=_SANDBOXING[values.word("admin.sandboxing")],
            sandbox_networking=closed[values.word("admin.networking")],
            sandbox_git=closed[values.word("admin.git")],
        ),
    )


def _cap(managed: list[SettingsLayer]) -> Cap:
    """What the managed files themselves limit; nothing is said where they are silent."""
    said: dict[str, Any] = {}
    for name in BY_NAME:
        entries = [layer.scalars[name] for layer in managed if name in layer.scalars]
        if entries:
            said[name] = min((entry.value for entry in entries), key=BY_NAME[name].rank)

    def listed(name: str) -> tuple[Any, ...] | None:
        lists = [layer.lists[name] for layer in managed if name in layer.lists]
        return tuple(dict.fromkeys(entry.value for entries in lists for entry in entries)) if lists else None

    types = [said["sandbox.policy"]] if "sandbox.policy" in said else []
    types += ["workspace-write"] if insisting(managed) else []
    widest = min(types, key=BY_NAME["sandbox.policy"].rank, default="")
    access = "none" if said.get("admin.networking") == "disabled" else said.get("network.access")
    hosts = {"none": (), "rules": listed("network.allow") or ()}
    no_git = said.get("filesystem.git_writes") is False or said.get("admin.git") == "disabled"
    policy = SandboxPolicy(
        type=POLICY_WORDS.get(widest, PolicyType.UNSPECIFIED),
        network_access=False if access in ("none", "rules", "ask") else None,
        additional_readwrite_paths=listed("filesystem.write") or (),
        additional_readonly_paths=listed("filesystem.read") or (),
        block_git_writes=True if no_git else None,
        disable_tmp_write=True if said.get("filesystem.tmp") == "none" else None,
        hidden=listed("filesystem.hide") or (),
        protected=listed("filesystem.protect") or (),
        network=NetworkRules(allow=hosts.get(str(access)), deny=listed("network.deny") or ()),
        unix_sockets=listed("network.unix_sockets") or (),
        published_ports=listed("network.publish") or (),
        environment=EnvironmentRules(
            keep=listed("environment.keep") or (), drop=listed("environment.drop") or ()
        ),
        limits=Limits(
            timeout=said.get("limits.timeout"),
            memory=said.get("limits.memory"),
            processes=said.get("limits.processes"),
            output=said.get("limits.output"),
        ),
    )
    emptied = [name for control, word, name in EMPTIED if said.get(control) == word]
    capped = [name for name in _GRANTS if name in emptied or listed(name) is not None]
    policy = replace(policy, **{_GRANTS[name]: () for name in emptied})
    return Cap(policy, tuple(_GRANTS[name] for name in capped))


def _origins(merged: MergedSettings) -> dict[str, Origin]:
    origins: dict[str, Origin] = {}
    for name, entry in merged.scalars.items():
        if entry.layer != "default":
            origins[name] = entry.origin
    for name, entries in merged.lists.items():
        if not entries and name in merged.emptied:
            origins[name] = merged.emptied[name]
        for index, entry in enumerate(entries):
            if entry.layer != "default":
                origin = origins[f"{name}[{index}]"] = entry.origin
                origins.setdefault(name, origin)
    return origins


_TIMES = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_SIZES = (
    ("GiB", 2**30), ("GB", 10**9), ("MiB", 2**20), ("MB", 10**6), ("KiB", 2**10), ("KB", 10**3), ("B", 1),
)  # fmt: skip
_ELSEWHERE = {
    "environment.set": "environment_set",
    "violations.ignore": "violations_ignore",
    "limits.answer": "answer",
}


def effective(settings: Settings) -> dict[str, Any]:
    """Key -> value: a bool, a word, a number, None for no limit, a list or a table."""
    return {key.name: _plain(_value(settings, key.name)) for key in TABLE}


def limit_shown(name: str, value: float | None) -> str:
    """A limit as a person would write it: `10m`, `10MB`."""
    if value is None:
        return "no limit"
    units = {
        "limits.memory": _SIZES,
        "limits.output": _SIZES,
        "journal.size": _SIZES,
        "limits.processes": (),
    }.get(name, _TIMES)
    for unit, amount in units:
        if value >= amount and value % amount == 0:
            return f"{int(value // amount)}{unit}"
    return f"{value:g}s" if units is _TIMES else str(value)


def _value(settings: Settings, name: str) -> Any:
    if name.startswith("admin."):
        return _admin_words(settings)[name]
    if name == "sandbox.policy":
        return next(word for word, policy in POLICY_WORDS.items() if policy is settings.sandbox.policy)
    found: Any = settings
    for part in _ELSEWHERE.get(name, name).split("."):
        found = getattr(found, part)
    return found


def _admin_words(settings: Settings) -> dict[str, Any]:
    admin = settings.admin
    sandboxing = admin.sandboxing_controls
    closed = {Control.ALWAYS_DISABLED: "disabled", Control.USER_CONTROLLED: "user"}
    words = {SandboxingMode.UNSPECIFIED: "user", SandboxingMode.ENABLED: "enabled"}
    return {
        "admin.auto_run": "disabled" if admin.disabled else "allowed",
        "admin.run_everything": admin.enable_run_everything,
        "admin.sandboxing": words.get(sandboxing.sandboxing, "disabled"),
        "admin.networking": closed[sandboxing.sandbox_networking],
        "admin.git": closed[sandboxing.sandbox_git],
        "admin.browser": admin.browser_features,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Rule):
        return value.text
    if isinstance(value, Hook):
        return list(value.command)
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value
