"""What each layer may say, and how it is told when it may not."""

import os
from pathlib import Path

import pytest
from tests.settings.loaded import layered, shape, write

from pinfold.model.errors import PolicyError
from pinfold.model.policy import Cap, NetworkRules, PolicyType, SandboxPolicy
from pinfold.model.settings import (
    ApprovalSettings,
    AutoRunMode,
    Control,
    NetworkAccess,
    SandboxingMode,
    Settings,
    TmpAccess,
)
from pinfold.model.text_positions import Origin
from pinfold.settings import Sources, load
from pinfold.settings.build import effective
from pinfold.settings.keys import TABLE
from pinfold.settings.lint import warnings
from pinfold.settings.parse_layer import read_layer
from pinfold.settings.toml import parse
from pinfold.shell.rule_text import shape as shell_shape


def texts(settings: Settings, name: str = "allow") -> list[str]:
    return [rule.text for rule in getattr(settings.commands, name)]


def test_defaults() -> None:
    settings = load(Sources(), shape)
    assert settings.origins == {}
    assert settings.notices == ()
    assert settings.cap == Cap()
    assert settings.limits.timeout == 600
    assert settings.limits.memory is None
    assert settings.limits.output == 10_000_000
    assert "git status" in texts(settings, "safe")
    assert "docker" in settings.commands.composite
    assert warnings(settings) == ()


def test_in_cursors_words(tmp_path: Path) -> None:
    defaults = load(Sources(), shape)
    assert defaults.approval == ApprovalSettings()
    assert defaults.server.composite_shell_commands == defaults.commands.composite
    assert "git status" in defaults.server.safe_shell_commands
    said = """
        mode = "run_everything"
        [commands]
        allow = ["make"]
        ask = ["make clean"]
        [mcp]
        allow = ["docs.search"]
        [protect]
        delete_files = true
        dotfiles = false
        outside_workspace = false
        mcp_tools = false
        browser = true
    """
    assert layered(tmp_path, user=said).approval == ApprovalSettings(
        allowed_commands=("make",),
        blocked_commands=("make clean",),
        delete_file_protection=True,
        dot_files_protection=False,
        outside_workspace_protection=False,
        enable_run_everything=True,
        mcp_allowed_tools=("docs.search",),
        mcp_tools_protection=False,
        playwright_protection=True,
    )


def test_shipped_rules_are_what_the_shell_makes_of_them() -> None:
    for rule in load(Sources(), shape).commands.safe:
        made = shell_shape(rule.text)
        assert (made.program, made.words) == (rule.shape.program, rule.shape.words)


def test_every_key_is_shown() -> None:
    shown = effective(load(Sources(), shape))
    for key in TABLE:
        if key.is_scalar and key.kind.name in ("BOOL", "WORD"):
            assert shown[key.name] == key.default


def test_layers_of_a_scalar(tmp_path: Path) -> None:
    table = [
        # managed, command line, user, project -> in force
        (None, None, None, None, "ask"),
        (None, None, "all", None, "all"),
        (None, "rules", "all", None, "rules"),
        (None, "all", "none", None, "all"),
        (None, None, "all", "rules", "rules"),
        (None, None, "none", "all", "none"),
        ("ask", None, "all", None, "ask"),
        ("ask", "rules", "all", None, "rules"),
        ("ask", None, None, "none", "none"),
        ("all", None, None, None, "all"),
        ("all", None, "none", None, "none"),
    ]
    for index, (managed, flag, user, project, wanted) in enumerate(table):
        overrides = {} if flag is None else {"network__access": flag}
        files = [
            None if word is None else f'[network]\naccess = "{word}"' for word in (managed, user, project)
        ]
        settings = layered(tmp_path / str(index), files[0], files[1], None, files[2], **overrides)
        assert settings.network.access == wanted, index


def test_grants_come_from_trusted_layers(tmp_path: Path) -> None:
    settings = layered(
        tmp_path,
        user='[commands]\nallow = ["npm test"]',
        project='[commands]\nallow = ["curl"]\n[sandbox]\nexcluded_commands = ["sh"]',
        commands__allow=["make"],
    )
    assert texts(settings) == ["make", "npm test"]
    assert settings.sandbox.excluded_commands == ()
    assert len(settings.notices) == 2
    told = settings.notices[1]
    assert told.startswith(
        f"{tmp_path}/root/.pinfold/settings.toml:2: `curl` in `commands.allow` has no effect"
    )
    assert "~/.config/pinfold/settings.toml" in told


@pytest.mark.parametrize(
    ("managed", "user", "megabytes"),
    [
        (None, None, 200),
        (None, "1GB", 1_000),
        ("1GB", None, 1_000),
        ("50MB", None, 50),
        ("50MB", "1GB", 50),
        ("1GB", "50MB", 50),
        ("1GB", "", 1_000),
    ],
)
def test_an_administrator_sets_the_journals_size(
    managed: str | None, user: str | None, megabytes: int, tmp_path: Path
) -> None:
    """More or less than the default; a user's own counts where it is smaller."""
    said = [None if size is None else f'[journal]\nsize = "{size}"' for size in (managed, user)]
    settings = layered(tmp_path, managed=said[0], user=said[1])
    assert settings.journal.size == megabytes * 1_000_000


def test_managed_grants_replace(tmp_path: Path) -> None:
    settings = layered(
        tmp_path, managed="[commands]\nallow = []", user='[commands]\nallow = ["a", "b", "c", "d", "e"]'
    )
    assert texts(settings) == []
    assert settings.admin.enabled
    assert settings.origin("commands.allow") == Origin("managed", f"{tmp_path}/managed.toml", 2)
    assert "`a`, `b`, `c` and 2 more" in settings.notices[0]


def test_restrictions_unite(tmp_path: Path) -> None:
    settings = layered(
        tmp_path,
        managed='[commands]\ndeny = ["a"]',
        user='[commands]\ndeny = ["b"]\n[filesystem]\nhide = ["secret"]',
        local='[commands]\ndeny = ["c"]',
        project='[commands]\ndeny = ["d", "a"]\n[filesystem]\nhide = ["inner"]\nprotect = [".env", "x/y"]',
        commands__deny=["e"],
    )
    assert texts(settings, "deny") == ["a", "e", "b", "c", "d"]
    root = f"{tmp_path}/root"
    assert settings.filesystem.hide == ("secret", "inner")
    assert settings.filesystem.protect == (".env", f"{root}/x/y")


def test_a_trusted_list_replaces_a_shipped_one(tmp_path: Path) -> None:
    settings = layered(
        tmp_path / "a", user="[filesystem]\nignore_files = []", project='[filesystem]\nignore_files = [".x"]'
    )
    assert settings.filesystem.ignore_files == (".x",)
    settings = layered(tmp_path / "b", project='[filesystem]\nignore_files = [".x"]')
    assert settings.filesystem.ignore_files == (".x", ".pinfoldignore", ".cursorignore")
    settings = layered(tmp_path / "c", managed='[commands]\nsafe = ["ls"]')
    assert texts(settings, "safe") == ["ls"]


CLOSED = "[sandbox]\nallow_unsandboxed = false\n"
OPEN = '[sandbox]\nexcluded_commands = ["docker"]\n'


def test_exclusions_of_a_closed_policy(tmp_path: Path) -> None:
    table = [
        # managed, user, project -> how many count
        (None, OPEN, None, 1),
        (None, OPEN + "allow_unsandboxed = false", None, 1),
        (CLOSED, OPEN, None, 0),
        (CLOSED + 'excluded_commands = ["podman"]', None, None, 1),
        (None, OPEN, CLOSED, 1),
        (CLOSED, OPEN + "allow_unsandboxed = false", None, 0),
    ]
    for index, (managed, user, project, count) in enumerate(table):
        settings = layered(tmp_path / str(index), managed, user, None, project)
        assert len(settings.sandbox.excluded_commands) == count, index
    # The user closed it, and the command line opened it again for this run.
    settings = layered(tmp_path / "x", None, CLOSED, None, None, sandbox={"allow_unsandboxed": True})
    assert settings.sandbox.allow_unsandboxed


def test_admin_table_binds(tmp_path: Path) -> None:
    settings = layered(
        tmp_path,
        managed='[admin]\nauto_run = "disabled"\nrun_everything = false\nsandboxing = "enabled"\n'
        'networking = "disabled"\ngit = "disabled"\nbrowser = false',
        user='mode = "run_everything"\nsandbox.enabled = false\nnetwork.access = "all"\n'
        'filesystem.git_writes = true\nsandbox.policy = "danger-full-access"',
    )
    controls = settings.admin
    assert (controls.enabled, controls.disabled) == (True, True)
    assert (controls.enable_run_everything, controls.browser_features) == (False, False)
    assert controls.sandboxing_controls.sandboxing is SandboxingMode.ENABLED
    assert controls.sandboxing_controls.sandbox_networking is Control.ALWAYS_DISABLED
    assert settings.sandbox.enabled
    assert settings.sandbox.policy is PolicyType.WORKSPACE_READWRITE
    assert settings.network.access is NetworkAccess.NONE
    assert not settings.filesystem.git_writes
    assert settings.cap.policy == SandboxPolicy(
        type=PolicyType.WORKSPACE_READWRITE,
        network_access=False,
        block_git_writes=True,
        network=NetworkRules(allow=()),
    )
    assert len(settings.notices) == 5
    off = layered(
        tmp_path / "off", managed='[admin]\nsandboxing = "disabled"', user="[sandbox]\nenabled = true"
    )
    assert not off.sandbox.enabled


def test_cap_says_only_what_managed_limits(tmp_path: Path) -> None:
    managed = (
        '[sandbox]\npolicy = "read-only"\n[filesystem]\ntmp = "none"\nhide = ["/srv"]\n'
        '[network]\naccess = "rules"\nallow = ["a.example"]\ndeny = ["b.example"]\n[limits]\ntimeout = "1m"'
    )
    cap = layered(tmp_path, managed, '[network]\ndeny = ["c.example"]').cap.policy
    assert cap.type is PolicyType.WORKSPACE_READONLY
    assert cap.network == NetworkRules(allow=("a.example",), deny=("b.example",))
    assert (cap.network_access, cap.disable_tmp_write, cap.block_git_writes) == (False, True, None)
    assert cap.hidden == ("/srv",)
    assert cap.limits.timeout == 60
    open_ = layered(tmp_path / "open", '[network]\naccess = "all"\n[filesystem]\ngit_writes = true').cap
    assert open_ == Cap()


def test_managed_directory(tmp_path: Path) -> None:
    main = write(tmp_path, "managed.toml", '[commands]\nallow = ["a"]\n[filesystem]\ntmp = "private"')
    write(tmp_path, "managed.d/20.toml", '[commands]\nallow = ["c"]\n[filesystem]\ntmp = "shared"')
    write(tmp_path, "managed.d/10.toml", '[commands]\nallow = ["b"]')
    write(tmp_path, "managed.d/README", "not settings")
    settings = load(Sources(managed=main, managed_dir=f"{tmp_path}/managed.d"), shape)
    assert texts(settings) == ["a", "b", "c"]
    assert settings.filesystem.tmp is TmpAccess.PRIVATE


def test_environment_and_flags(tmp_path: Path) -> None:
    environ = {"PINFOLD_MODE": "ask_every_time", "PINFOLD_NETWORK": "none", "XDG_CONFIG_HOME": str(tmp_path)}
    write(tmp_path, "pinfold/settings.toml", 'mode = "run_everything"')
    sources = Sources.usual((), environ=environ, overrides={"network.access": "all"})
    assert sources.user == f"{tmp_path}/pinfold/settings.toml"
    assert sources.managed == "/etc/pinfold/managed.toml"
    settings = load(sources, shape)
    assert settings.mode is AutoRunMode.ASK_EVERY_TIME
    assert settings.network.access is NetworkAccess.ALL
    assert settings.origin("mode") == Origin("command line", "$PINFOLD_MODE")
    with pytest.raises(PolicyError, match=r"^\$PINFOLD_MODE: `mode` cannot be `x`$"):
        load(Sources.usual((), environ={"PINFOLD_MODE": "x", "HOME": str(tmp_path)}), shape)
    relative = Sources.usual((), environ={"XDG_CONFIG_HOME": "here", "HOME": "/home/u"})
    assert relative.user == "/home/u/.config/pinfold/settings.toml"


def test_values_for_the_user_layer() -> None:
    settings = load(
        Sources.usual((), user={"commands": {"allow": ("make",)}, "mode": "ask_every_time"}), shape
    )
    assert texts(settings) == ["make"]
    assert settings.origin("mode") == Origin("user")
    with pytest.raises(PolicyError, match=r"^the given `settings`: unknown key `mod`"):
        load(Sources(user_values={"mod": 1}), shape)


def test_hooks_only_from_trusted_layers(tmp_path: Path) -> None:
    hook = '[hooks]\nbefore_command = ["./evil"]\ntimeout = "1s"'
    settings = layered(
        tmp_path, project=hook, user='[hooks]\nbefore_command = [["/bin/check", "-x"], ["/bin/check", "-y"]]'
    )
    assert [hook.command for hook in settings.hooks.before_command] == [
        ("/bin/check", "-x"),
        ("/bin/check", "-y"),
    ]
    assert settings.hooks.timeout == 10
    assert len(settings.notices) == 2


def test_origins_reach_entries(tmp_path: Path) -> None:
    user = (
        '# head\n[filesystem]\nwrite = [\n  "/a",\n  "/b",\n]\n'
        '[[rule]]\ndecision = "deny"\ncommand = "rm"\nreason = "no"\n'
    )
    settings = layered(tmp_path, user=user)
    file = f"{tmp_path}/user.toml"
    assert settings.origin("filesystem.write") == Origin("user", file, 4)
    assert settings.origin("filesystem.write[1]") == Origin("user", file, 5)
    rule = settings.commands.deny[0]
    assert (rule.origin, rule.reason) == (Origin("user", file, 9), "no")


ERRORS = [
    # TOML
    ("mode = ", "invalid value", 1),
    ("a = 1\na = 2", "cannot overwrite a value", 2),
    ("[commands]\n[commands]", "cannot declare `commands` twice", 2),
    ("[a.b]\n[a.b]", "cannot declare `a.b` twice", 2),
    ("[commands]\ndeny = ['a'\n", "unclosed array", 3),
    # names
    ("[sandbox]\nauto_alow = true", "unknown key `sandbox.auto_alow`", 2),
    ("[sandbx]\nx = 1", "unknown key `sandbx`", 1),
    ("enabled = true", "unknown key `enabled`", 1),
    ("[commands]\n__class__ = []", "unknown key `commands.__class__`", 2),
    ("commands = 1", "`commands` must be a table", 1),
    ("\n[[hooks]]\n[[hooks]]", "`hooks` must be a table", 2),
    # types
    ("[sandbox]\nenabled = 'true'", "must be true or false, not a string; write it without quotes", 2),
    ("[sandbox]\nenabled = 1", "must be true or false, not a number", 2),
    ("mode = 'auto'", "`mode` cannot be `auto`", 1),
    ("mode = ['use_allowlist']", "`mode` cannot be a list", 1),
    ("[commands]\nallow = 'npm'", "`commands.allow` must be a list, not a string", 2),
    ("[commands]\nallow = [\n 'npm',\n 1]", "must be a string, not a number", 4),
    ("[commands]\nallow = ['']", "an entry is empty", 2),
    ("[limits]\ntimeout = '10 minutes'", "`10 minutes` is not a duration", 2),
    ("[limits]\ntimeout = nan", "out of range", 2),
    ("[limits]\nprocesses = -1", "out of range", 2),
    ("[limits]\nprocesses = 99999999999999999999", "too large", 2),
    ("[limits]\nprocesses = 1.5", "must be a number", 2),
    ("[limits]\nmemory = '1XB'", "`1XB` is not a size", 2),
    ("[limits]\nmemory = 1979-05-27", "must be a size, not a date", 2),
    ("[hooks]\ntimeout = ''", "is not a duration", 2),
    ("[hooks]\nbefore_command = [[]]", "a hook must be", 2),
    ("[network]\npublish = [80, 70000]", "a port must be", 2),
    ("[network]\nallow = ['https://x.example']", "is not a host", 2),
    ("[environment]\nset = {'A B' = '1'}", "`A B` is not a variable name", 2),
    ("[environment]\nset = {A = 5}", "must be a string, not a number", 2),
    ("[filesystem]\nhide = ['$HOME/secrets']", "environment variables are not expanded here", 2),
    ("[filesystem]\nwrite = ['x', '${XDG_CACHE_HOME}']", "environment variables are not expanded here", 2),
    ("[filesystem]\nread = ['~bob/x']", "only your own home", 2),
    ("[filesystem]\nprotect = ['$HOME']", "`$HOME`: environment variables are not expanded here", 2),
    ("[network]\nunix_sockets = ['$XDG_RUNTIME_DIR/bus']", "environment variables are not expanded here", 2),
    ("[environment]\nset = ['A']", "must be a table, not a list", 2),
    ("[violations]\nignore = {npm = 'x'}", "must be a list of strings", 2),
    # layers
    ("[admin]\nauto_run = 'disabled'", "`admin.auto_run` may be set only in a managed file", 2),
    ("[commands]\nsafe = ['rm']", "`commands.safe` may be set only in a managed file", 2),
    # rules
    ("[[rule]]\ncommand = 'x'", "a rule needs `decision`", 1),
    ("[[rule]]\ndecision = 'allow'", "a rule needs `command`", 1),
    ("[[rule]]\ndecision = 'permit'\ncommand = 'x'", "`decision` cannot be `permit`", 2),
    ("[[rule]]\ndecision = 'deny'\ncommand = 'x'\nwhy = ''", "unknown key `rule.0.why`", 4),
    ("[[rule]]\ndecision = 'deny'\ncommand = 'x'\nmatch = 'x'", "must be a list of command lines", 4),
    ("rule = 1", "must be written as [[rule]] tables", 1),
    (
        "[commands]\ndeny = [\n  'a | b']",
        "`a | b` in `commands.deny` is not a rule: a rule is one command",
        3,
    ),
    # what cannot be seen
    ("[commands]\nallow = ['npm\u200b test']", "contains an invisible character, U+200B", 2),
    ("[sandbox]\nexcluded_commands = ['a\u202eb']", "contains an invisible character, U+202E", 2),
]


@pytest.mark.parametrize(("text", "message", "line"), ERRORS)
def test_errors_show_the_place(tmp_path: Path, text: str, message: str, line: int) -> None:
    with pytest.raises(PolicyError) as caught:
        layered(tmp_path, user=text)
    error = caught.value
    assert message in error.message
    assert error.where == f"{tmp_path}/user.toml:{line}"
    first, second = error.excerpt.split("\n")
    assert first.startswith(f"{line} | ")
    assert second.strip(" |").strip("^") == ""
    assert "^" in second
    assert error.message[0].islower() or error.message[0] == "`"
    assert not error.message.endswith(".")
    assert (error.message + error.excerpt.replace("\n", "")).isprintable()


def test_suggestions(tmp_path: Path) -> None:
    table = [
        ("[sandbox]\nauto_alow = true", "did you mean `auto_allow`?"),
        ("[netwrok]\naccess = 'none'", "did you mean `network`?"),
        ("allow = []", "did you mean `commands.allow`?"),
        ("mode = 'yolo'", "one of ask_every_time, use_allowlist, run_everything"),
        ("[limits]\ntimeout = 'x'", 'write "10m", "90s" or "1h30m", or "" for no limit'),
        ("[approvals]\nkeep = 'x'", 'write "10m", "90s" or "1h30m", or "" for no limit'),
        ("[approvals]\nwait = ''", 'write "10m", "90s" or "1h30m"'),
    ]
    for text, suggestion in table:
        with pytest.raises(PolicyError) as caught:
            layered(tmp_path, user=text)
        assert caught.value.help == suggestion


def test_answers_may_be_kept_for_good(tmp_path: Path) -> None:
    keep = "[approvals]\nkeep = {}"
    assert layered(tmp_path / "a", user=keep.format("''")).approvals.keep is None
    for narrower in ("managed", "project"):
        layers = {"user": keep.format("''"), narrower: keep.format("'1d'")}
        assert layered(tmp_path / narrower, **layers).approvals.keep == 86400


def test_a_broken_layer_is_never_an_empty_one(tmp_path: Path) -> None:
    for name in ("managed", "user", "local", "project"):
        with pytest.raises(PolicyError):
            layered(tmp_path / name, **{name: "[commands]\ndeny = ['rm',,]"})


def test_invisible_characters_in_restrictions_are_told(tmp_path: Path) -> None:
    settings = layered(tmp_path, user="[commands]\ndeny = ['rm\u200b']")
    assert "`rm\\u200b` in `commands.deny` contains an invisible character, U+200B" in settings.notices[0]


def test_warnings(tmp_path: Path) -> None:
    table = [
        ("deny = ['git']\nallow = ['git status']", ["never takes effect"]),
        ("ask = ['git push']\nallow = ['git push origin']", ["never takes effect"]),
        ("deny = ['git push']\nask = ['git push']", ["never takes effect"]),
        ("deny = ['git push']\nallow = ['git status']", []),
        ("deny = ['rm -r']\nallow = ['rm']", []),
        ("allow = ['npm', 'npm test']", ["adds nothing"]),
        ("deny = ['rm', 'rm -r']", ["adds nothing"]),
        ("allow = ['npm test', 'npm start']", []),
        ("deny = ['__class__', 'toString']", []),
    ]
    for index, (text, wanted) in enumerate(table):
        settings = layered(tmp_path / str(index), user="[commands]\n" + text)
        told = warnings(settings)
        assert len(told) == len(wanted), told
        assert all(part in line for part, line in zip(wanted, told, strict=True))
    settings = layered(tmp_path / "hook", user="[hooks]\nbefore_command = ['~/ok', '/ok', ['no', 'x']]")
    assert ["the hook `no` is not an absolute path" in line for line in warnings(settings)] == [True]
    settings = layered(tmp_path / "twice", user="[commands]\nallow = ['npm', 'npm']")
    assert "`npm` is listed twice in `commands.allow`" in settings.notices[0]


def test_notices_cannot_disturb_a_terminal(tmp_path: Path) -> None:
    evil = '[filesystem]\nwrite = ["/a\\u001b[2J\\u202e"]\n[mcp]\nallow = ["x\\u0007"]'
    settings = layered(tmp_path, project=evil)
    assert len(settings.notices) >= 2
    assert all(notice.isprintable() for notice in settings.notices)


def test_no_variable_moves_the_managed_file(tmp_path: Path) -> None:
    environ = {
        name: str(tmp_path) for name in ("PINFOLD_MANAGED", "XDG_CONFIG_DIRS", "HOME", "PINFOLD_SETTINGS")
    }
    sources = Sources.usual((), environ=environ)
    assert (sources.managed, sources.managed_dir) == ("/etc/pinfold/managed.toml", "/etc/pinfold/managed.d")
    assert os.path.isabs(sources.user)


HIDES = '[filesystem]\nhide = ["~/vault"]\n'


def test_what_the_administrator_hides_is_not_left_behind_by_leaving_the_fence(tmp_path: Path) -> None:
    excluded = '[sandbox]\nexcluded_commands = ["npm"]\n'
    settings = layered(tmp_path / "x", HIDES, excluded, None, None)
    assert not settings.sandbox.allow_unsandboxed and not settings.sandbox.excluded_commands
    assert settings.origin("sandbox.allow_unsandboxed").layer == "managed"
    opened = layered(tmp_path / "y", HIDES + "[sandbox]\nallow_unsandboxed = true\n", excluded, None, None)
    assert opened.sandbox.allow_unsandboxed and opened.sandbox.excluded_commands
    # A project that closes it too does not become the closer, by whom the user's exclusions would count.
    twice = layered(tmp_path / "both", HIDES, excluded, CLOSED, None)
    assert not twice.sandbox.excluded_commands
    assert twice.origin("sandbox.allow_unsandboxed").layer == "managed"
    assert layered(tmp_path / "z", None, HIDES, None, None).sandbox.allow_unsandboxed


DEEP = "a." * 200_000 + "b"


@pytest.mark.parametrize("text", (f"{DEEP} = 1", f"[{DEEP}]", f"mode = {{ {DEEP} = 1 }}", f"{DEEP}.'c' = 1"))
def test_a_key_of_too_many_parts_is_refused_at_once(tmp_path: Path, text: str) -> None:
    """All that lead to each of them would be a hundred gigabytes."""
    with pytest.raises(PolicyError, match="nested too deeply"):
        layered(tmp_path, user=text)


def test_a_name_of_many_parts_is_no_key(tmp_path: Path) -> None:
    name = "0." * 32 + "ip6.arpa"
    assert layered(tmp_path, user=f'network.allow = ["{name}"]').network.allow == (name,)


def test_a_list_as_long_as_a_file_takes_no_time(tmp_path: Path) -> None:
    """Each compared with each would take minutes."""
    words = ", ".join(f'"x{number}"' for number in range(90_000))
    layer = read_layer(parse("user", "", f"[commands]\ndeny = [{words}]"))
    assert len(layer.lists["commands.deny"]) == 90_000
