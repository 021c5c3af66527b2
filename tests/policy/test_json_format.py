"""What is written is read back; what is not understood refuses."""

from typing import Any

import pytest
from hypothesis import given

from pinfold.model.errors import PolicyError
from pinfold.model.policy import NetworkRules, PolicyType, SandboxPolicy
from pinfold.policy.json_format import EXECUTOR_KEYS, from_json, to_executor, to_json
from tests.policy.policies import policies


@given(policies)
def test_round_trips(policy: SandboxPolicy) -> None:
    assert from_json(to_executor(policy)) == policy
    assert from_json(to_json(policy)) == policy


def test_the_executors_keys() -> None:
    policy = SandboxPolicy(
        type=PolicyType.WORKSPACE_READWRITE, disable_tmp_write=True, ignore_mapping={"/w": ("a",)}
    )
    written = to_executor(policy)
    assert tuple(written) == EXECUTOR_KEYS
    assert written["type"] == "WORKSPACE_READWRITE"
    assert written["disableTmpWrite"] is True
    assert written["ignoreMappingJson"] == '{"/w":["a"]}'
    assert written["networkAccess"] is None


@pytest.mark.parametrize("word", ["TYPE_WORKSPACE_READWRITE", "WORKSPACE_READWRITE", 2, "workspace-write"])
def test_words_for_a_type(word: object) -> None:
    assert from_json({"type": word}).type is PolicyType.WORKSPACE_READWRITE


def test_proto_names_and_an_empty_allow() -> None:
    assert from_json('{"network_access": true, "network": {"allow": []}}') == SandboxPolicy(
        network_access=True, network=NetworkRules(allow=())
    )


@pytest.mark.parametrize(
    "data",
    [
        *(
            {"nope": 1},
            {"type": "NOPE"},
            {"type": 9},
            {"type": True},
            {"network": {"nope": 1}},
            {"limits": []},
        ),
        *({"hidden": ["a\0"]}, {"hidden": ["\udcff"]}, {"hidden": [""]}, {"networkAccess": "yes"}),
        *({"ignoreMappingJson": "{"}, {"ignoreMappingJson": '{"/w": 1}'}, {"limits": {"memory": 2**63}}),
        {"networkAccess": True, "network_access": False},
    ],
)
def test_refused(data: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        from_json(data)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1"])
def test_not_an_object(text: str) -> None:
    with pytest.raises(PolicyError):
        from_json(text)


def test_what_cannot_be_written_refuses() -> None:
    for policy in (SandboxPolicy(hidden=("/\udcff",)), SandboxPolicy(ignore_mapping={"/w": ("a\0",)})):
        with pytest.raises(PolicyError):
            to_executor(policy)
