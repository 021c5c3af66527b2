"""Refusals in full, and which of them are reported."""

import pytest
from msgspec.structs import replace

from pinfold.model.codes import ViolationCode
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.settings import FilesystemSettings, NetworkAccess, NetworkSettings, Settings, TmpAccess
from pinfold.model.text_positions import Origin
from pinfold.model.violation import Violation
from pinfold.policy.explain_violation import drop_closed_ports, explained, is_ignored, sufficient_policy

SETTINGS = Settings(
    filesystem=FilesystemSettings(protect=("kept",)),
    origins={
        "filesystem.protect[0]": Origin("user", "/u/settings.toml", 7),
        "filesystem.git_writes": Origin("managed", "/etc/pinfold/managed.toml", 3),
    },
    violations_ignore={"*": ("/noise", "*.local"), "git push": ("/usr/bin/nc",)},
)


def refused(
    operation: str,
    path: str,
    rule: str = "",
    why: str = "",
    grantable: bool = True,
    code: ViolationCode = ViolationCode.OUTSIDE,
    remedy: str = "",
) -> Violation:
    return Violation(operation, path, rule, why, "p", 7, grantable, code, remedy=remedy)


GIT_WRITES = replace(refused("open", "/w/.git/x", ".git", "git writes are blocked"), is_git_writes=True)


@pytest.mark.parametrize(
    ("violation", "origin", "remedy"),
    [
        (refused("open", "/o/x"), "filesystem.write", "add `/o` to `filesystem.write`"),
        (refused("open", "/w/kept", "kept"), "/u/settings.toml:7", "remove `kept`"),
        (refused("mkdir", "/w/.vscode", ".vscode"), "pinfold's list", "answer yes"),
        (refused("mkdir", "/w/.pinfold", ".pinfold", grantable=False), "pinfold's list", ""),
        (GIT_WRITES, "managed.toml:3", "administrator"),
        (
            refused("connect", "x.example:443", why="no rule; or so", remedy="add `x` to `network.allow`"),
            "network.access",
            "add `x`",
        ),
        (refused("connect", "x.example:443", why="the name is not known"), "network.access", ""),
        (refused("connect", "/run/docker.sock"), "network.unix_sockets", "add `/run/docker.sock`"),
        (refused("resolve", "10.0.0.2:53"), "network.access", "add the host to `network.allow`"),
        (
            refused("connect", "localhost:5432", code=ViolationCode.HEARD_OUTSIDE),
            "network.allow",
            "add `localhost:5432` to",
        ),
        (refused("warden", ""), "", ""),
    ],
)
def test_where_it_is_written_and_what_would_allow_it(violation: Violation, origin: str, remedy: str) -> None:
    told = explained(violation, SETTINGS, "the line")
    assert told.command == "the line" and origin in told.origin and remedy in told.remedy
    assert bool(told.remedy) is bool(remedy)


def test_what_git_would_write_outside_waits_for_its_writes() -> None:
    """As a commit in a linked worktree: no entry of `filesystem.write` would be enough for it."""
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True)
    file = refused("open", "/m/.git/worktrees/x/index.lock", why="it is outside the writable directories")

    def told(each: Violation, policy: SandboxPolicy = policy) -> Violation:
        return explained(each, Settings(), "", policy, ("/w",), is_git_file=lambda path: path == file.path)

    assert told(file).is_git_writes and told(file).why == "git writes are blocked"
    assert told(file).remedy == "set `filesystem.git_writes = true`"
    assert sufficient_policy((told(file),), lambda _: True) == SandboxPolicy(block_git_writes=False)
    for other in (
        replace(file, path="/m/x"),
        replace(file, answered="the person at the terminal said no"),
        replace(file, rule=".vscode"),
        replace(file, grantable=False),
    ):
        assert not told(other).is_git_writes and told(other).why == file.why
    assert not told(file, replace(policy, block_git_writes=False)).is_git_writes


def test_nobody_is_named_who_could_grant_what_pinfold_obeys() -> None:
    file = refused("open", "/w/.venv/x", "/w/.venv", "your settings protect it")
    told = explained(file, SETTINGS, "", own=lambda: ("/w/.venv",))
    assert told.why == "pinfold reads or runs it, and this cannot be granted"
    assert (told.remedy, told.grantable) == ("", False)
    assert explained(file, SETTINGS, "", own=lambda: ("/w/other",)).grantable


def test_a_tmp_that_settings_withhold_is_given_back_by_them() -> None:
    """Opened as a path it would be the machine's own."""
    settings = Settings(filesystem=FilesystemSettings(tmp=TmpAccess.NONE))
    for path in ("/tmp/x", "/var/tmp/x/y"):
        told = explained(refused("open", path, "", "it lies outside"), settings, "")
        assert told.remedy == 'set `filesystem.tmp = "private"`' and "filesystem.tmp" in told.origin, told
    assert "filesystem.write" in explained(refused("open", "/tmp/x", "", "it"), Settings(), "").remedy
    assert "filesystem.write" in explained(refused("open", "/srv/x", "", "it"), settings, "").remedy


def test_what_pinfold_is_installed_in_is_not_told_as_protected_by_settings() -> None:
    code = ViolationCode.PROTECTED_BY_SETTINGS
    file = refused("open", "/usr/new", "/usr", "your settings protect it", code=code)
    told = explained(file, SETTINGS, "", own=lambda: ("/usr/lib/python3", "/usr/bin/python3"))
    assert told.why == "pinfold, or the Python that runs it, is installed there" and told.grantable
    assert explained(file, SETTINGS, "", own=lambda: ("/usr2/lib",)).why == file.why
    listed = replace(file, rule=".vscode", why="editors run it", code=ViolationCode.PROTECTED)
    assert explained(listed, SETTINGS, "", own=lambda: ("/usr/lib",)).why == "editors run it"


@pytest.mark.parametrize(
    ("operation", "path", "remedy"),
    [
        ("open", "/home/me/.bashrc", "add `/home/me/.bashrc` to `filesystem.write`"),
        ("unlink", "/srv/there", "add `/srv` to `filesystem.write`"),
        ("open", "/srv/new", "add `/srv` to `filesystem.write`"),
        # That would open all of the home, and more.
        ("open", "/home/me/new", "answer yes when pinfold asks"),
        ("open", "/home/you", "answer yes when pinfold asks"),
        # A directory that is made beforehand is all that need be opened.
        ("mkdir", "/home/me/.local/share", "create `/home/me/.local/share` and add it to `filesystem.write`"),
        ("mkdir", "/home/me/new", "create `/home/me/new` and add it to `filesystem.write`"),
    ],
)
def test_no_more_is_named_than_the_call_needs(operation: str, path: str, remedy: str) -> None:
    there = {"/home/me/.bashrc", "/srv/there"}.__contains__
    told = explained(refused(operation, path), SETTINGS, "", home="/home/me", is_there=there)
    assert told.remedy == remedy
    hidden = refused(operation, path, why="it is hidden", code=ViolationCode.NEVER)
    assert not explained(hidden, SETTINGS, "", home="/home/me", is_there=there).remedy


@pytest.mark.parametrize(
    ("operation", "path"), [("mkdir", "/home/me/a"), ("mkdir", "/home/me/a/b"), ("open", "/home/me/a/b/c")]
)
def test_what_is_granted_and_not_there_is_to_be_made(operation: str, path: str) -> None:
    policy = SandboxPolicy(additional_readwrite_paths=("/srv", "/home/me/a/b"))
    for there, remedy in (
        ({"/srv"}, "create `/home/me/a/b`: `filesystem.write` lists it"),
        (
            {"/srv", "/home/me/a", "/home/me/a/b"},
            "",
        ),
    ):
        told = explained(
            refused(operation, path), SETTINGS, "", policy, home="/home/me", is_there=there.__contains__
        )
        assert told.remedy.startswith(remedy) and ("but it does not exist" in told.remedy) is bool(remedy)


def test_what_is_not_theirs_to_write_has_no_remedy() -> None:
    told = explained(refused("open", "/etc/new"), SETTINGS, "", may_write={"/srv"}.__contains__)
    assert not told.remedy and told.origin


def test_a_policy_that_is_read_only_is_named() -> None:
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
    for path, remedy in (("/w/new", "use the policy `workspace-write`"), ("/o/new", "add `/o` to")):
        told = explained(refused("open", path), SETTINGS, "", policy, ("/w",))
        assert told.remedy.startswith(remedy) and told.origin


@pytest.mark.parametrize("layer", ["project", "project-local", "user"])
def test_what_a_project_has_narrowed_is_changed_in_its_file(layer: str) -> None:
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
    origin = Origin(layer, "/w/.pinfold/settings.toml", 2)
    told = explained(
        refused("open", "/w/new"), Settings(origins={"sandbox.policy": origin}), "", policy, ("/w",)
    )
    assert told.remedy.endswith(", in /w/.pinfold/settings.toml:2") is (layer != "user")


def test_a_network_that_is_off_is_named() -> None:
    off = Settings(network=NetworkSettings(access=NetworkAccess.NONE))
    assert explained(refused("resolve", "10.0.0.2:53"), off, "").remedy == 'set `network.access = "ask"`'
    lending = explained(
        refused("connect", "localhost:5432", code=ViolationCode.HEARD_OUTSIDE), off, ""
    ).remedy
    assert lending == 'add `localhost:5432` to `network.allow` and set `network.access = "rules"`'


def test_a_loopback_where_nobody_listens_is_told_if_the_machine_has_a_listener() -> None:
    one, other = (refused("connect", f"localhost:{port}", code=ViolationCode.UNHEARD) for port in (1, 2))
    write = refused("open", "/o/x")
    told = list(drop_closed_ports((one, write, other), lambda port: port == 2))
    assert [(each.path, each.code) for each in told] == [
        ("/o/x", ViolationCode.OUTSIDE),
        ("localhost:2", ViolationCode.HEARD_OUTSIDE),
    ]


@pytest.mark.parametrize(
    ("path", "rule", "origin", "remedy"),
    [
        ("/h/.ssh/id", "/h/.ssh", "pinfold's list of secrets", "`/h/.ssh` in `filesystem.read`"),
        ("/w/x.key", "*.key", "/u/settings.toml:4", "remove `*.key` from `filesystem.hide`"),
        ("/h/diary", "/h/diary", "/etc/pinfold/managed.toml:5", "ask your administrator"),
        ("/w/deep/plans", "/w/deep/plans", "`filesystem.hide`", "remove `deep/plans`"),
        ("/w/.env", "an ignore file", "`.env` of an ignore file in /w", "remove it from that file"),
        ("/h/.local/state/pinfold/journal", "/h/.local/state/pinfold", "", ""),
    ],
)
def test_what_hides_what_was_to_be_read(path: str, rule: str, origin: str, remedy: str) -> None:
    settings = Settings(
        filesystem=FilesystemSettings(hide=("*.key", "~/diary", "deep/plans")),
        origins={
            "filesystem.hide[0]": Origin("user", "/u/settings.toml", 4),
            "filesystem.hide[1]": Origin("managed", "/etc/pinfold/managed.toml", 5),
        },
    )
    policy = SandboxPolicy(
        hidden=("*.key", "/h/diary", "/w/deep/plans", "/h/.ssh", "/h/.local/state/pinfold"),
        ignore_mapping={"/w": (".env",)},
    )
    told = explained(refused("read", path, grantable=False), settings, "the line", policy, ("/w",))
    assert (told.command, told.rule) == ("the line", rule)
    assert remedy in told.remedy and bool(told.remedy) is bool(remedy)
    assert origin in told.origin or told.origin == "default"


@pytest.mark.parametrize("remedy", ["add `y` to `network.allow`", "ask your administrator", ""])
def test_what_the_gate_says_would_help_is_told(remedy: str) -> None:
    """Without a remedy the host was let through: no list would change it."""
    settings = Settings(network=NetworkSettings(allow=("y.example:443",)))
    said = refused("connect", "y.example:443", why="why; and more", code=ViolationCode.DENIED, remedy=remedy)
    told = explained(said, settings, "the line")
    assert (told.why, told.remedy) == ("why; and more", remedy)


@pytest.mark.parametrize(
    ("path", "commands", "ignored"),
    [
        ("/noise", ["make"], True),
        ("/noise/x", ["make"], True),
        ("/noises", ["make"], False),
        ("printer.local:631", ["make"], True),
        ("/usr/bin/nc", ["git push origin"], True),
        ("/usr/bin/nc", ["git pushes"], False),
        ("/usr/bin/nc", ["ls", "git push"], True),
    ],
)
def test_what_is_not_reported(path: str, commands: list[str], ignored: bool) -> None:
    assert is_ignored(refused("open", path), SETTINGS, commands) is ignored


def test_what_would_have_been_enough() -> None:
    there = {"/o/old"}.__contains__
    every = (
        refused("open", "/o/old"),
        refused("mkdir", "/p/new"),
        refused("connect", "x.example:443"),
        refused("connect", "/run/x.sock"),
        GIT_WRITES,
    )
    policy = sufficient_policy(every, there)
    assert policy is not None
    assert policy.additional_readwrite_paths == ("/o/old", "/p")
    assert policy.network.allow == ("x.example:443",) and policy.unix_sockets == ("/run/x.sock",)
    assert policy.block_git_writes is False
    # A new name beside it needs the directory.
    assert sufficient_policy((refused("open", "/o/new"),), there) == SandboxPolicy(
        additional_readwrite_paths=("/o",)
    )
    # What no policy adds is not made up for by the rest.
    for other in (refused("open", "/w/.vscode/x", ".vscode"), refused("open", "/x", grantable=False)):
        assert sufficient_policy((*every, other), there) is None
    assert sufficient_policy((), there) is None
