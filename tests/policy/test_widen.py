"""A request narrows freely, widens by name only, and loses nothing it does not mention."""

import pytest
from msgspec.structs import replace

from pinfold.model.decision import Widening
from pinfold.model.errors import PolicyError
from pinfold.model.policy import NetworkRules, PolicyType, SandboxPolicy
from pinfold.policy.widen import narrowed, with_approved

NO_CAP = SandboxPolicy()
USER = SandboxPolicy(
    type=PolicyType.WORKSPACE_READWRITE,
    network_access=False,
    additional_readwrite_paths=("/cache",),
    block_git_writes=True,
    disable_tmp_write=True,
    network=NetworkRules(allow=("*.x.org",)),
)


@pytest.mark.parametrize("request_", [None, SandboxPolicy()])
def test_absent_is_the_users(request_: SandboxPolicy | None) -> None:
    assert narrowed(USER, request_, NO_CAP) == (USER, ())


def test_narrowing_is_applied() -> None:
    policy, wishes = narrowed(USER, SandboxPolicy(type=PolicyType.WORKSPACE_READONLY), NO_CAP)
    assert policy == replace(USER, type=PolicyType.WORKSPACE_READONLY)
    assert wishes == ()


@pytest.mark.parametrize(
    ("request_", "field", "value"),
    [
        (SandboxPolicy(network_access=True), "network_access", "true"),
        (SandboxPolicy(additional_readwrite_paths=("/cache/x", "/y")), "additional_readwrite_paths", "/y"),
        (SandboxPolicy(additional_readonly_paths=("/y",)), "additional_readonly_paths", "/y"),
        (SandboxPolicy(block_git_writes=False), "block_git_writes", "false"),
        (SandboxPolicy(disable_tmp_write=False), "disable_tmp_write", "false"),
        (SandboxPolicy(unix_sockets=("/run/s",)), "unix_sockets", "/run/s"),
        (SandboxPolicy(published_ports=(80,)), "published_ports", "80"),
        (SandboxPolicy(type=PolicyType.INSECURE_NONE), "type", "INSECURE_NONE"),
    ],
)
def test_widening_is_asked_for(request_: SandboxPolicy, field: str, value: str) -> None:
    policy, wishes = narrowed(USER, request_, NO_CAP)
    assert policy == USER
    assert wishes == (Widening(field, value),)
    approved = with_approved(policy, wishes, NO_CAP)
    assert approved != USER
    assert narrowed(approved, request_, NO_CAP)[1] == ()


def test_an_unknown_type_refuses() -> None:
    with pytest.raises(PolicyError):
        narrowed(USER, SandboxPolicy(type=9), NO_CAP)  # type: ignore[arg-type]


def test_the_cap_holds() -> None:
    cap = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, network_access=False)
    wishes = (Widening("type", "INSECURE_NONE"), Widening("network_access", "true"))
    assert with_approved(USER, wishes, cap) == USER


def test_hosts_not_mentioned_are_kept() -> None:
    policy, wishes = narrowed(USER, SandboxPolicy(network=NetworkRules(allow=("y.org",))), NO_CAP)
    assert policy == USER
    assert [wish.value for wish in wishes] == ["y.org"]


def test_no_bypass_through_an_unspecified_user() -> None:
    policy, wishes = narrowed(SandboxPolicy(), SandboxPolicy(type=PolicyType.INSECURE_NONE), NO_CAP)
    assert policy.type is not PolicyType.INSECURE_NONE
    assert wishes
