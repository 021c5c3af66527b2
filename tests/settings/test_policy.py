"""What the words of the file mean for a policy."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.settings.loaded import layered, shape

from pinfold.model.decision import Widening
from pinfold.model.policy import NetworkRules, PolicyType
from pinfold.model.settings import Settings
from pinfold.policy.widen import with_approved
from pinfold.settings import Sources, cap_of, load, policy_of
from pinfold.settings.defaults import SECRETS

HOME, ROOTS = "/home/u", ("/srv/a", "/srv/b")


def user(**values: object) -> Settings:
    return load(
        Sources(user_values={name.replace("__", "."): value for name, value in values.items()}), shape
    )


def test_defaults() -> None:
    policy = policy_of(user(), ROOTS, HOME)
    assert policy.type is PolicyType.WORKSPACE_READWRITE
    assert policy.network_access is False
    assert policy.network == NetworkRules(allow=())
    assert policy.block_git_writes is True
    assert policy.disable_tmp_write is False
    assert policy.limits.processes == 512
    for path in ("~/.ssh", "~/.aws", "~/.claude.json", "~/.config/pinfold", "~/.bash_history"):
        assert path.replace("~", HOME) in policy.hidden


def test_network_words() -> None:
    table = [
        ("none", False, NetworkRules(allow=(), deny=("d",))),
        ("rules", False, NetworkRules(allow=("a",), deny=("d",))),
        ("ask", False, NetworkRules(allow=("a",), deny=("d",))),
        ("all", True, NetworkRules(allow=None, deny=("d",))),
    ]
    for access, wide, rules in table:
        policy = policy_of(user(network={"access": access, "allow": ["a"], "deny": ["d"]}), ROOTS, HOME)
        assert (policy.network_access, policy.network) == (wide, rules)


def test_paths() -> None:
    files = {
        "write": ["~/cache", "out", "/srv/../data/"],
        "read": ["~"],
        "hide": ["secret", "~/x"],
        "protect": [".env", "conf/", "a/b"],
    }
    policy = policy_of(user(filesystem=files), ROOTS, HOME)
    assert policy.additional_readwrite_paths == (f"{HOME}/cache", "/srv/a/out", "/data")
    assert policy.additional_readonly_paths == (HOME,)
    assert policy.hidden[:2] == ("secret", f"{HOME}/x")
    assert policy.protected == (".env", "conf", "/srv/a/a/b", "/srv/b/a/b")


def test_secrets_are_reopened_by_name_only() -> None:
    everything = len(SECRETS)
    table = [
        ([], [], everything),
        (["~/.ssh"], [], everything - 1),
        ([], ["~/.kube/"], everything - 1),
        (["~", "~/.config", "/"], [], everything),
        (["~/.ssh/config"], [], everything),
    ]
    for read, write, count in table:
        policy = policy_of(user(filesystem__read=read, filesystem__write=write), ROOTS, HOME)
        assert len(policy.hidden) == count
    hidden = policy_of(user(filesystem__read=["~/.ssh"], filesystem__hide=["~/.ssh"]), ROOTS, HOME).hidden
    assert f"{HOME}/.ssh" in hidden


def test_secrets_are_well_formed() -> None:
    paths = [path for path, _ in SECRETS]
    assert len(set(paths)) == len(paths) > 80
    assert all(path.startswith("~/") and not path.endswith("/") and why for path, why in SECRETS)


@pytest.mark.parametrize(
    ("word", "write", "disabled"),
    [("none", (), True), ("private", (), False), ("shared", ("/tmp", "/var/tmp"), False)],
)
def test_tmp(tmp_path: Path, word: str, write: tuple[str, ...], disabled: bool) -> None:
    policy = policy_of(layered(tmp_path, user=f"[filesystem]\ntmp = '{word}'"), ROOTS, HOME)
    assert policy.additional_readwrite_paths == write and policy.disable_tmp_write is disabled


def test_cap_spells_out_paths(tmp_path: Path) -> None:
    settings = layered(tmp_path, managed="[filesystem]\nhide = ['~/x']\nprotect = ['.env', 'a/b']")
    cap = cap_of(settings, ROOTS, HOME)
    assert cap.policy.hidden == (f"{HOME}/x",)
    assert cap.policy.protected == (".env", "/srv/a/a/b", "/srv/b/a/b")


def test_cap_on_grants(tmp_path: Path) -> None:
    """A managed list of grants is all that can be granted later, though it be empty."""
    settings = layered(tmp_path, managed="[filesystem]\nwrite = ['~/x', 'out']\n[environment]\nkeep = []")
    cap = cap_of(settings, ROOTS, HOME)
    assert cap.grants == ("additional_readwrite_paths", "environment")
    assert cap.policy.additional_readwrite_paths == (f"{HOME}/x", "/srv/a/out", *ROOTS)
    assert cap.policy.additional_readonly_paths == cap.policy.environment.keep == ()


def test_an_approval_does_not_pass_the_cap(tmp_path: Path) -> None:
    settings = layered(tmp_path, managed="[filesystem]\nwrite = ['/srv']")
    cap, policy = cap_of(settings, ("/w",), HOME), policy_of(settings, ("/w",), HOME)
    for path, writable in (("/etc", False), ("/srv/x", True)):
        widening = Widening("additional_readwrite_paths", path)
        after = with_approved(replace(policy, additional_readwrite_paths=()), [widening], cap)
        assert (path in after.additional_readwrite_paths) is writable
