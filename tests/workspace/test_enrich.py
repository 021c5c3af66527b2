"""Enrichment adds, and loses no field."""

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.policy.policies import policies

from pinfold.model.errors import PolicyError
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.policy.ignore import Ignore
from pinfold.workspace.policy_source import enrich, with_ignore_mapping, with_workspace

ROOTS = ("/one", "/two")


@given(policies)
def test_folders(policy: SandboxPolicy) -> None:
    richer = with_workspace(policy, ROOTS)
    if policy.type is not PolicyType.WORKSPACE_READWRITE:
        assert richer == policy
    else:
        assert set(richer.additional_readwrite_paths) == {*policy.additional_readwrite_paths, *ROOTS}
        assert replace(richer, additional_readwrite_paths=policy.additional_readwrite_paths) == policy
    assert with_workspace(policy, ("/one",)) == policy


def test_mapping() -> None:
    fenced = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, disable_tmp_write=True)
    assert enrich(fenced, ("/w",), {"/w": ("a",)}) == replace(fenced, ignore_mapping={"/w": ("a",)})
    free = SandboxPolicy(type=PolicyType.INSECURE_NONE)
    assert enrich(free, ROOTS, {"/w": ("a",)}) == free


def test_what_cannot_be_written_refuses() -> None:
    with pytest.raises(PolicyError):
        with_ignore_mapping(SandboxPolicy(), {"/w\udcff": ("a",)})


def test_nothing_is_taken_back() -> None:
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, ignore_mapping={"/w": ("secret",)})
    richer = with_ignore_mapping(policy, {"/w": ("x", "!secret")})
    assert Ignore(richer.ignore_mapping).is_ignored("/w/secret")
