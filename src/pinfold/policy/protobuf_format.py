"""A policy as protobuf bytes: `agent.v1.SandboxPolicy`, as `sandbox_policy.proto` writes it down.

The messages are built from the tables below when first needed, without generated code, and protobuf is
imported only then: it is an extra, and it is slow to import. Absent and false are kept apart.

Bytes with a field or a type that is not known here refuse: what a newer writer added may narrow.
"""

from functools import cache
from typing import Any

import msgspec

from pinfold.model.errors import PolicyError
from pinfold.model.policy import EnvironmentRules, Limits, NetworkRules, SandboxPolicy
from pinfold.policy.json_format import require_carried
from pinfold.policy.level import require_type

_Row = tuple[str, int, str, str]
"""Name, number, type, and how often: `one`, `optional` or `repeated`."""

NESTED: dict[str, tuple[_Row, ...]] = {
    "Network": (
        ("allow", 1, "string", "repeated"),
        ("deny", 2, "string", "repeated"),
        ("allow_none", 3, "bool", "one"),
    ),
    "Environment": (("keep", 1, "string", "repeated"), ("drop", 2, "string", "repeated")),
    "Limits": (
        ("timeout", 1, "double", "optional"),
        ("memory", 2, "int64", "optional"),
        ("processes", 3, "int64", "optional"),
        ("output", 4, "int64", "optional"),
    ),
}
FIELDS: tuple[_Row, ...] = (
    ("type", 1, "Type", "one"),
    ("network_access", 2, "bool", "optional"),
    ("additional_readwrite_paths", 3, "string", "repeated"),
    ("additional_readonly_paths", 4, "string", "repeated"),
    ("debug_output_dir", 5, "string", "optional"),
    ("block_git_writes", 6, "bool", "optional"),
    ("disable_tmp_write", 7, "bool", "optional"),
    ("hidden", 100, "string", "repeated"),
    ("protected", 101, "string", "repeated"),
    ("ignore_mapping_json", 102, "string", "optional"),
    ("network", 103, "Network", "one"),
    ("unix_sockets", 104, "string", "repeated"),
    ("published_ports", 105, "int64", "repeated"),
    ("environment", 106, "Environment", "one"),
    ("limits", 107, "Limits", "one"),
    ("env_files", 108, "string", "repeated"),
)
TYPES = ("UNSPECIFIED", "INSECURE_NONE", "WORKSPACE_READWRITE", "WORKSPACE_READONLY")


def to_protobuf(policy: SandboxPolicy) -> bytes:
    """The bytes of a policy, equal for equal policies; raises PolicyError for one that the message cannot
    carry."""
    message = _message_class()()
    require_carried(policy)
    for name, _, kind, often in FIELDS:
        if kind in NESTED:
            continue
        value = _mapping_text(policy) if name == "ignore_mapping_json" else getattr(policy, name)
        _put(message, name, often, value)
    for name in ("network", "environment", "limits"):
        part = getattr(policy, name)
        if part != type(part)():
            _put_part(getattr(message, name), name.capitalize(), part)
    if policy.network.allow == ():
        message.network.allow_none = True
    written: bytes = message.SerializeToString(deterministic=True)
    return written


def from_protobuf(data: bytes) -> SandboxPolicy:
    """The policy; raises PolicyError where anything in it is not understood: that may be what narrows."""
    message = _message_class()()
    try:
        message.ParseFromString(data)
    except Exception as error:  # noqa: BLE001 - each protobuf implementation has its own DecodeError
        raise PolicyError(f"the policy is not protobuf: {type(error).__name__}") from None
    _require_known(message)
    given = _taken(message, FIELDS)
    mapping = given.pop("ignore_mapping_json", None)
    given["type"] = require_type(given["type"])
    network = _taken(message.network, NESTED["Network"])
    allow = network["allow"] or (() if network["allow_none"] else None)
    try:
        return require_carried(
            SandboxPolicy(
                **given,
                ignore_mapping=msgspec.json.decode(mapping or "{}", type=dict[str, tuple[str, ...]]),
                network=NetworkRules(allow=allow, deny=network["deny"]),
                environment=EnvironmentRules(**_taken(message.environment, NESTED["Environment"])),
                limits=Limits(**_taken(message.limits, NESTED["Limits"])),
            )
        )
    except (msgspec.DecodeError, RecursionError) as error:
        raise PolicyError(f"the ignore mapping is not JSON: {error}") from None


def _mapping_text(policy: SandboxPolicy) -> str | None:
    return msgspec.json.encode(policy.ignore_mapping).decode() if policy.ignore_mapping else None


def _put(message: Any, name: str, often: str, value: Any) -> None:
    if often == "repeated":
        getattr(message, name).extend(value or ())
    elif value is not None:
        setattr(message, name, value)


def _put_part(message: Any, kind: str, part: msgspec.Struct) -> None:
    message.SetInParent()
    for name, _, _, often in NESTED[kind]:
        if name != "allow_none":
            _put(message, name, often, getattr(part, name))


def _taken(message: Any, rows: tuple[_Row, ...]) -> dict[str, Any]:
    """The plain fields of a message: lists as tuples, what is absent as None."""
    taken: dict[str, Any] = {}
    for name, _, kind, often in rows:
        if often == "repeated":
            taken[name] = tuple(getattr(message, name))
        elif kind not in NESTED:
            taken[name] = getattr(message, name) if often == "one" or message.HasField(name) else None
    return taken


def _require_known(message: Any) -> None:
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

    for part in (message, message.network, message.environment, message.limits):
        for field in UnknownFieldSet(part):
            raise PolicyError(f"the policy has an unknown field `{field.field_number}`")


@cache
def _message_class() -> Any:
    try:
        from google.protobuf import (  # type: ignore[import-untyped]
            descriptor_pb2,
            descriptor_pool,
            message_factory,
        )
    except ImportError:
        raise PolicyError('protobuf is not installed: pip install "pinfold[proto]"') from None
    file = descriptor_pb2.FileDescriptorProto(name="sandbox_policy.proto", package="agent.v1")
    file.syntax = "proto3"
    policy = file.message_type.add(name="SandboxPolicy")
    _describe(policy, FIELDS)
    for name, rows in NESTED.items():
        _describe(policy.nested_type.add(name=name), rows)
    types = policy.enum_type.add(name="Type")
    for number, name in enumerate(TYPES):
        types.value.add(name=f"TYPE_{name}", number=number)
    # A pool of our own: another library in this process may know an agent.v1.SandboxPolicy too.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("agent.v1.SandboxPolicy"))


def _describe(message: Any, rows: tuple[_Row, ...]) -> None:
    """Fill a DescriptorProto. An optional field of proto3 is a oneof of its own, named after it."""
    for name, number, kind, often in rows:
        field = message.field.add(name=name, number=number)
        field.label = field.LABEL_REPEATED if often == "repeated" else field.LABEL_OPTIONAL
        if kind in NESTED or kind == "Type":
            field.type = field.TYPE_ENUM if kind == "Type" else field.TYPE_MESSAGE
            field.type_name = f".agent.v1.SandboxPolicy.{kind}"
        else:
            field.type = getattr(field, f"TYPE_{kind.upper()}")
        if often == "optional":
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
