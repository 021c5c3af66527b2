"""What an answer is about, what nobody may grant, and what a session's grants cover."""

import pytest
from msgspec.structs import replace

from pinfold.model.policy import Cap, PolicyType, SandboxPolicy
from pinfold.model.settings import FilesystemSettings, Settings
from pinfold.model.text_positions import Origin
from pinfold.policy.grants import (
    GrantContext,
    Grants,
    covers,
    directory_to_offer,
    granted,
    key_of,
    objection,
    widened,
)

ROOT, HOME = "/home/u/work", "/home/u"
POLICY = SandboxPolicy(
    type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True, hidden=(f"{HOME}/.ssh", "*.key")
)
OWN = (f"{HOME}/.config/pinfold", "/etc/pinfold")
CONTEXT = GrantContext(POLICY, (ROOT,), HOME, OWN, Settings())


@pytest.mark.parametrize(
    ("operation", "paths", "is_git_writes", "key"),
    [
        # one answer for all that changes a file
        ("open", ("/a/b",), False, ("write", "/a/b")),
        ("truncate", ("/a/b",), False, ("write", "/a/b")),
        # and others for what a person would not expect with it
        ("unlink", ("/a/b",), False, ("remove", "/a/b")),
        ("chmod", ("/a/b",), False, ("chmod", "/a/b")),
        ("rename", ("/a/b", "/a/c"), False, ("rename", "/a/b", "/a/c")),
        # git's writes are one thing
        ("open", ("/r/.git/index.lock",), True, ("git", "/r/.git")),
        ("rename", ("/r/.git/index", "/r/.git/index.lock"), True, ("git", "/r/.git")),
        ("open", ("/r/.git/modules/m/index",), True, ("git", "/r/.git")),
        # but not what comes from elsewhere, nor what has a rule of its own
        ("rename", ("/r/.git/index", "/r/x"), True, ("rename", "/r/.git/index", "/r/x")),
        ("open", ("/r/.git/hooks/x",), False, ("write", "/r/.git/hooks/x")),
    ],
)
def test_what_an_answer_is_about(
    operation: str, paths: tuple[str, ...], is_git_writes: bool, key: tuple[str, ...]
) -> None:
    assert key_of(operation, paths, is_git_writes) == key


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (f"{HOME}/notes", ""),
        (f"{HOME}/.bashrc", ""),
        (f"{ROOT}/.vscode/tasks.json", ""),
        (f"{HOME}/.ssh/config", "it is hidden"),
        (f"{ROOT}/x.key", "it is hidden"),
        (f"{HOME}/.config/pinfold/settings.toml", "it belongs to pinfold"),
        ("/etc/pinfold/managed.toml", "it belongs to pinfold"),
        (f"{ROOT}/.pinfold/settings.toml", "this cannot be granted"),
        (f"{HOME}/other/.PINFOLD/x", "this cannot be granted"),
    ],
)
def test_what_nobody_may_grant(path: str, why: str) -> None:
    found = objection(("write", path), "open", (path,), CONTEXT)
    assert found.message.startswith(why) and not found.by_administrator if found else not why
    # As what a rename takes it is judged alike.
    key = ("rename", f"{HOME}/x", path)
    assert bool(objection(key, "rename", key[1:], CONTEXT)) is bool(why)


def test_a_mode_above_pinfolds_own_is_nobodys_to_change() -> None:
    assert objection(("chmod", f"{HOME}/.config"), "chmod", (f"{HOME}/.config",), CONTEXT)
    assert not objection(("chmod", f"{HOME}/x"), "chmod", (f"{HOME}/x",), CONTEXT)


def test_administrator_only_narrows_grants() -> None:
    settings = Settings(
        filesystem=FilesystemSettings(protect=("kept", "mine")),
        origins={"filesystem.protect[0]": Origin("managed", "/etc/pinfold/managed.toml", 1)},
    )
    context = replace(CONTEXT, settings=settings)
    assert objection(("write", f"{ROOT}/kept"), "open", (f"{ROOT}/kept",), context)
    assert not objection(("write", f"{ROOT}/mine"), "open", (f"{ROOT}/mine",), context)
    capped = Cap(SandboxPolicy(block_git_writes=True), ("additional_readwrite_paths",))
    context = replace(CONTEXT, settings=Settings(cap=capped))
    assert objection(("write", f"{HOME}/x"), "open", (f"{HOME}/x",), context)
    assert objection(("git", f"{ROOT}/.git"), "open", (f"{ROOT}/.git/index",), context)
    assert not objection(("git", f"{ROOT}/.git"), "open", (f"{ROOT}/.git/index",), CONTEXT)


def test_under_a_read_only_policy_each_write_is_granted_by_itself() -> None:
    policy = replace(POLICY, type=PolicyType.WORKSPACE_READONLY)
    context = replace(CONTEXT, policy=policy)
    key = ("write", f"{ROOT}/x")
    assert not objection(key, "open", key[1:], context)
    assert not covers(Grants(), key, context)
    grants = granted(Grants(), key, context)
    assert covers(grants, key, context) and not covers(grants, ("write", f"{ROOT}/y"), context)
    # No later pen is wider for it.
    assert widened(policy, replace(grants, git=True), policy, context) is policy


def test_the_administrators_read_only_policy_is_nobodys_to_lift() -> None:
    settings = Settings(cap=Cap(SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)))
    context = replace(CONTEXT, policy=replace(POLICY, type=PolicyType.WORKSPACE_READONLY), settings=settings)
    assert objection(("write", f"{ROOT}/x"), "open", (f"{ROOT}/x",), context)


def test_a_grant_covers_its_path_and_no_other() -> None:
    grants = granted(Grants(), ("write", f"{HOME}/a"), CONTEXT)
    assert covers(grants, ("write", f"{HOME}/a"), CONTEXT)
    assert not covers(grants, ("write", f"{HOME}/a/b"), CONTEXT)
    # Both ends count, unless commands may write one anyway.
    assert covers(grants, ("rename", f"{HOME}/a", f"{ROOT}/x"), CONTEXT)
    assert not covers(grants, ("rename", f"{HOME}/a", f"{HOME}/b"), CONTEXT)
    assert not covers(grants, ("rename", f"{HOME}/a", f"{ROOT}/.git/x"), CONTEXT)
    assert not covers(grants, ("git", f"{ROOT}/.git"), CONTEXT)
    # What commands may write as it is, but for something else that the warden found.
    assert covers(grants, ("write", f"{ROOT}/x"), CONTEXT)
    assert not covers(grants, ("write", f"{ROOT}/x"), CONTEXT, "a rule")
    assert covers(grants, ("write", f"{HOME}/a"), CONTEXT, "a rule")


def test_a_directory_covers_what_is_in_it_but_protected_names() -> None:
    key = ("write", f"{HOME}/out/a")
    grants = granted(Grants(), key, CONTEXT, directory_to_offer(key, CONTEXT))
    assert covers(grants, ("remove", f"{HOME}/out/deep/b"), CONTEXT)
    assert not covers(grants, ("write", f"{HOME}/out/.vscode/x"), CONTEXT)
    assert not covers(grants, ("link", f"{HOME}/out/x", f"{HOME}/.profile"), CONTEXT)


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        (f"{HOME}/out/a", f"{HOME}/out"),
        (f"{HOME}/a", ""),
        ("/home/a", ""),
        ("/x", ""),
        ("/usr/a", ""),
        (f"{HOME}/.config/a", ""),  # pinfold's own settings are in it
        (f"{ROOT}/sub/.vscode", ""),
    ],
)
def test_which_directory_is_offered(path: str, offered: str) -> None:
    assert directory_to_offer(("write", path), CONTEXT) == offered


def test_grants_widen_what_comes_later() -> None:
    grants = Grants(frozenset({f"{HOME}/a", f"{ROOT}/.vscode"}), frozenset({f"{HOME}/out"}), git=True)
    wider = widened(POLICY, grants, POLICY, CONTEXT)
    assert wider.additional_readwrite_paths == (f"{HOME}/a", f"{HOME}/out")
    assert wider.block_git_writes is False and wider.hidden == POLICY.hidden
    # What a request has narrowed stays narrow.
    assert widened(POLICY, grants, replace(POLICY, block_git_writes=False), CONTEXT).block_git_writes
    assert widened(POLICY, Grants(), POLICY, CONTEXT) is POLICY
