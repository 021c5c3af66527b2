"""Levels, and that silence and nonsense have none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.model.errors import PolicyError
from pinfold.model.policy import (
    Cap,
    EnvironmentRules,
    Level,
    Limits,
    NetworkRules,
    PolicyType,
    SandboxPolicy,
)
from pinfold.policy.json_format import to_json
from pinfold.policy.level import level, settled_level
from pinfold.policy.widen import narrowed, with_approved
from tests.policy.world import judged


@pytest.mark.parametrize(
    ("kind", "network", "expected"),
    [
        (PolicyType.WORKSPACE_READONLY, None, Level.SANDBOX_READONLY),
        (PolicyType.WORKSPACE_READONLY, True, Level.SANDBOX_READONLY_NETWORK),
        (PolicyType.WORKSPACE_READWRITE, False, Level.SANDBOX_NO_NETWORK),
        (PolicyType.WORKSPACE_READWRITE, None, Level.SANDBOX_NO_NETWORK),
        (PolicyType.WORKSPACE_READWRITE, True, Level.SANDBOX_NETWORK),
        (PolicyType.INSECURE_NONE, False, Level.UNSANDBOXED),
    ],
)
def test_level(kind: PolicyType, network: bool | None, expected: Level) -> None:
    assert level(SandboxPolicy(type=kind, network_access=network)) is expected


@pytest.mark.parametrize("kind", [PolicyType.UNSPECIFIED, 4, -1])
def test_no_level(kind: PolicyType) -> None:
    with pytest.raises(PolicyError):
        level(SandboxPolicy(type=kind))


POLICIES = st.builds(
    SandboxPolicy, type=st.sampled_from(PolicyType), network_access=st.sampled_from([None, False, True])
)


@given(POLICIES, POLICIES)
def test_a_higher_level_is_asked_for_by_name(user: SandboxPolicy, requested: SandboxPolicy) -> None:
    """Without a yes the level is the user's at most, and with one no higher than was named."""
    policy, widenings = narrowed(user, requested, Cap())
    assert settled_level(policy) <= settled_level(user)
    if requested.type is not PolicyType.UNSPECIFIED and level(requested) > settled_level(user):
        assert {widening.field for widening in widenings} & {"type", "network_access"}
    assert settled_level(with_approved(policy, (), Cap())) <= settled_level(user)


def test_a_question_about_a_higher_level_says_so() -> None:
    wanted = SandboxPolicy(network_access=True)
    decision = judged("make", request={"policy": wanted})
    assert decision.reasons[0].step == "widening"
    assert "which is level 20; your own policy is level 10" in decision.reasons[0].message


@pytest.mark.parametrize(
    "policy",
    [
        SandboxPolicy(),
        SandboxPolicy(
            network=NetworkRules(), environment=EnvironmentRules(), limits=Limits(), ignore_mapping={}
        ),
    ],
)
def test_empty_sections_are_left_out(policy: SandboxPolicy) -> None:
    assert to_json(policy) == "{}"
