"""Our bytes are the shipped .proto's, and no field is lost in them."""

import os
from typing import Any

import pytest
from hypothesis import given

import pinfold.policy.protobuf_format as wire
from pinfold.model.errors import PolicyError
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.policy.json_format import to_json
from pinfold.policy.protobuf_format import from_protobuf, to_protobuf
from tests.policy.policies import policies

SEVEN = SandboxPolicy(
    type=PolicyType.WORKSPACE_READWRITE,
    network_access=False,
    additional_readwrite_paths=("/a",),
    additional_readonly_paths=("/b",),
    debug_output_dir="",
    block_git_writes=True,
    disable_tmp_write=False,
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The message class of the shipped .proto, by protoc."""
    from google.protobuf import (  # type: ignore[import-untyped]
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )
    from grpc_tools import protoc  # type: ignore[import-untyped]

    out = str(tmp_path_factory.mktemp("proto") / "set")
    folder = os.path.dirname(wire.__file__)
    assert protoc.main(["", f"-I{folder}", f"--descriptor_set_out={out}", "sandbox_policy.proto"]) == 0
    with open(out, "rb") as file:
        described = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(described.file[0].SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("agent.v1.SandboxPolicy"))


@given(policies)
def test_round_trip(policy: SandboxPolicy) -> None:
    assert from_protobuf(to_protobuf(policy)) == policy


def test_bytes_by_hand() -> None:
    by_hand = (
        b"\x08\x02" + b"\x10\x00" + b"\x1a\x02/a" + b"\x22\x02/b" + b"\x2a\x00" + b"\x30\x01" + b"\x38\x00"
    )
    assert to_protobuf(SEVEN) == by_hand
    assert to_protobuf(SandboxPolicy()) == b""


def test_the_shipped_proto_reads_and_writes_the_same(compiled: Any) -> None:
    from google.protobuf import json_format

    @given(policies)
    def agree(policy: SandboxPolicy) -> None:
        ours = to_protobuf(policy)
        message = compiled.FromString(ours)
        assert message.SerializeToString(deterministic=True) == ours
        assert from_protobuf(json_format.Parse(to_json(policy), compiled()).SerializeToString()) == policy

    agree()


@pytest.mark.parametrize("data", [b"\x08\x09", b"\xff", b"\xc0\x3e\x01", b"\xb2\x06\x03{,}", b"\x1a\x01\xff"])
def test_refused(data: bytes) -> None:
    """An unknown type, no protobuf, an unknown field, a mapping that is no JSON, a path that is no UTF-8."""
    with pytest.raises(PolicyError):
        from_protobuf(data)
