"""Levels, and that silence and nonsense have none."""

import pytest

from pinfold.model.errors import PolicyError
from pinfold.model.policy import Level, PolicyType, SandboxPolicy
from pinfold.policy.level import level


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
