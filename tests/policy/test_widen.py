"""A request narrows freely, widens by name only, and loses nothing it does not mention."""

import pytest
from hypothesis import given
from msgspec.structs import fields, replace

from pinfold.model.decision import Widening
from pinfold.model.errors import PolicyError
from pinfold.model.policy import Cap, EnvironmentRules, Limits, NetworkRules, PolicyType, SandboxPolicy
from pinfold.policy.paths import contains
from pinfold.policy.widen import PATHS, narrowed, with_approved
from tests.policy.policies import GRANTS, caps, is_within, policies

NO_CAP = Cap()
FIELDS = tuple(field.name for field in fields(SandboxPolicy))
USER = SandboxPolicy(
    type=PolicyType.WORKSPACE_READWRITE,
    network_access=False,
    additional_readwrite_paths=("/cache",),
    block_git_writes=True,
    disable_tmp_write=True,
    network=NetworkRules(allow=("*.x.org",)),
    environment=EnvironmentRules(keep=("AWS_*",), drop=("B",)),
    limits=Limits(timeout=60),
)
OPEN = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, network_access=True)


@pytest.mark.parametrize("request_", [None, SandboxPolicy()])
def test_absent_is_the_users(request_: SandboxPolicy | None) -> None:
    assert narrowed(USER, request_, NO_CAP) == (USER, ())


def test_narrowing_is_applied() -> None:
    policy, widenings = narrowed(USER, SandboxPolicy(type=PolicyType.WORKSPACE_READONLY), NO_CAP)
    assert policy == replace(USER, type=PolicyType.WORKSPACE_READONLY)
    assert widenings == ()


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
        (SandboxPolicy(debug_output_dir="/out"), "debug_output_dir", "/out"),
        (SandboxPolicy(environment=EnvironmentRules(keep=("AWS_KEY", "CI"))), "environment", "CI"),
        (SandboxPolicy(network=NetworkRules(allow=("a.x.org", "Y.org"))), "network", "y.org"),
        # as it is, not as it is spelled
        (SandboxPolicy(additional_readonly_paths=("/cache/../y/",)), "additional_readonly_paths", "/y"),
    ],
)
def test_widening_is_asked_for(request_: SandboxPolicy, field: str, value: str) -> None:
    policy, widenings = narrowed(USER, request_, NO_CAP)
    assert policy == USER
    assert widenings == (Widening(field, value),)
    approved = with_approved(policy, widenings, NO_CAP)
    assert approved != USER
    assert narrowed(approved, request_, NO_CAP)[1] == ()


def test_an_unknown_type_refuses() -> None:
    with pytest.raises(PolicyError):
        narrowed(USER, SandboxPolicy(type=9), NO_CAP)  # type: ignore[arg-type]


def test_the_cap_holds() -> None:
    cap = Cap(SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, network_access=False))
    widenings = (Widening("type", "INSECURE_NONE"), Widening("network_access", "true"))
    assert with_approved(USER, widenings, cap) == USER


def test_hosts_not_mentioned_are_kept() -> None:
    policy, widenings = narrowed(USER, SandboxPolicy(network=NetworkRules(allow=("y.org",))), NO_CAP)
    assert policy == USER
    assert [widening.value for widening in widenings] == ["y.org"]


def test_no_bypass_through_an_unspecified_user() -> None:
    policy, widenings = narrowed(SandboxPolicy(), SandboxPolicy(type=PolicyType.INSECURE_NONE), NO_CAP)
    assert policy.type is not PolicyType.INSECURE_NONE
    assert widenings


@pytest.mark.parametrize(
    ("user", "request_", "expected"),
    [
        # hosts beside `network_access=false` are all that is wanted
        (OPEN, (False, ("a.com",)), (False, ("a.com",))),
        (OPEN, (False, None), (False, None)),
        (OPEN, (None, ("a.com",)), (True, None)),
        (USER, (False, ("a.x.org",)), (False, ("a.x.org",))),
        (USER, (None, ("a.x.org",)), (False, ("*.x.org",))),
    ],
)
def test_hosts(
    user: SandboxPolicy,
    request_: tuple[bool | None, tuple[str, ...] | None],
    expected: tuple[bool | None, tuple[str, ...] | None],
) -> None:
    access, allow = request_
    requested = SandboxPolicy(network_access=access, network=NetworkRules(allow=allow))
    policy, widenings = narrowed(user, requested, NO_CAP)
    assert (policy.network_access, policy.network.allow) == expected
    assert widenings == ()


def test_what_a_request_drops_and_limits() -> None:
    requested = SandboxPolicy(environment=EnvironmentRules(drop=("A",)), limits=Limits(timeout=90, memory=5))
    policy, widenings = narrowed(USER, requested, NO_CAP)
    assert policy.environment == EnvironmentRules(keep=("AWS_*",), drop=("A", "B"))
    assert policy.limits == Limits(timeout=60, memory=5)
    assert widenings == ()


def test_no_opinion_is_not_an_open_door() -> None:
    """A user without an opinion is asked, as one with a narrow one is."""
    requested = SandboxPolicy(network_access=True, block_git_writes=False, disable_tmp_write=False)
    policy, widenings = narrowed(SandboxPolicy(), requested, NO_CAP)
    assert policy == SandboxPolicy()
    assert len(widenings) == 3


def test_a_request_for_no_host_widens_nothing() -> None:
    assert narrowed(USER, SandboxPolicy(network=NetworkRules(allow=("no host",))), NO_CAP) == (USER, ())


@given(policies, policies, caps)
def test_request_never_widens(user: SandboxPolicy, requested: SandboxPolicy, cap: Cap) -> None:
    policy, _ = narrowed(user, requested, cap)
    assert is_within(policy, user)
    assert is_within_cap(policy, cap)


@given(policies, policies)
def test_what_is_not_mentioned_is_kept(user: SandboxPolicy, requested: SandboxPolicy) -> None:
    for silent in FIELDS:
        asked = replace(requested, **{silent: getattr(SandboxPolicy(), silent)})
        assert getattr(narrowed(user, asked, NO_CAP)[0], silent) == getattr(user, silent)


@given(policies, policies)
def test_approved_is_exactly_what_was_asked(user: SandboxPolicy, requested: SandboxPolicy) -> None:
    policy, widenings = narrowed(user, requested, NO_CAP)
    after = with_approved(policy, widenings, NO_CAP)
    assert narrowed(after, requested, NO_CAP)[1] == ()
    for name in FIELDS:
        asked = [widening.value for widening in widenings if widening.field == name]
        if not asked:
            assert getattr(after, name) == getattr(policy, name)
        elif name in PATHS:
            held = (*getattr(policy, name), *asked)
            assert all(any(contains(path, new) for path in held) for new in getattr(after, name))
        elif name == "environment":
            assert set(after.environment.keep) == {*policy.environment.keep, *asked}
        elif name == "published_ports":
            assert set(after.published_ports) == {*policy.published_ports, *map(int, asked)}


@given(policies, policies, caps)
def test_approved_stays_within_the_cap(user: SandboxPolicy, requested: SandboxPolicy, cap: Cap) -> None:
    policy, widenings = narrowed(user, requested, cap)
    assert is_within_cap(with_approved(policy, widenings, cap), cap)


def is_within_cap(policy: SandboxPolicy, cap: Cap) -> bool:
    """What the cap has no opinion on is anything."""
    silent = {name: getattr(policy, name) for name in GRANTS if name not in cap.grants}
    if "environment" in silent:
        silent["environment"] = replace(policy.environment, drop=cap.policy.environment.drop)
    return is_within(policy, replace(cap.policy, **silent))


def test_a_cap_on_grants() -> None:
    srv = SandboxPolicy(additional_readwrite_paths=("/srv",))
    table = [
        (Cap(srv, ("additional_readwrite_paths",)), "/etc", ()),
        (Cap(srv, ("additional_readwrite_paths",)), "/srv/x", ("/srv/x",)),
        (Cap(srv, ("additional_readwrite_paths",)), "/", ("/srv",)),
        (Cap(SandboxPolicy(), ("additional_readwrite_paths",)), "/srv", ()),
        (Cap(), "/etc", ("/etc",)),
    ]
    for cap, path, expected in table:
        widening = Widening("additional_readwrite_paths", path)
        assert with_approved(SandboxPolicy(), [widening], cap).additional_readwrite_paths == expected
    none = Cap(SandboxPolicy(), GRANTS)
    widenings = [
        Widening("environment", "CI"),
        Widening("published_ports", "80"),
        Widening("unix_sockets", "/s"),
    ]
    assert with_approved(SandboxPolicy(), widenings, none) == SandboxPolicy()
