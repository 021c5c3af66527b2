"""A policy in others' words: the executor's object, and the protobuf JSON mapping.

INVARIANT: what is written is read back as the same policy, and no field is lost on the way. What is not
understood (a key, a type, a value) refuses: the part left out may be the one that narrows.

Nothing is enforced or compared here, and no file is read. The binary form is `policy.protobuf_format`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import fields

from pinfold.model.errors import PolicyError
from pinfold.model.load_structs import ready
from pinfold.model.policy import (
    POLICY_WORDS,
    EnvironmentRules,
    Limits,
    NetworkRules,
    PolicyType,
    SandboxPolicy,
)
from pinfold.policy.level import require_type
from pinfold.policy.paths import require_text

EXECUTOR_KEYS = (
    "type",
    "networkAccess",
    "additionalReadwritePaths",
    "additionalReadonlyPaths",
    "blockGitWrites",
    "disableTmpWrite",
    "ignoreMappingJson",
    "debugOutputDir",
)
_NESTED: dict[str, type[msgspec.Struct]] = {
    "network": NetworkRules,
    "environment": EnvironmentRules,
    "limits": Limits,
}
_PATHS = ("additionalReadwritePaths", "additionalReadonlyPaths", "hidden", "unixSockets", "envFiles")
LARGEST_INTEGER = 2**63 - 1
"""The wire's integers are signed, of 64 bits."""


def to_executor(policy: SandboxPolicy) -> dict[str, Any]:
    """The executor's eight keys, always; further ones only where they say something."""
    plain = _plain(policy)
    mapping = plain.pop("ignoreMapping", None)
    plain["type"] = require_type(policy.type).name
    plain["ignoreMappingJson"] = None if mapping is None else _json(mapping)
    lists: dict[str, list[str]] = {key: [] for key in ("additionalReadwritePaths", "additionalReadonlyPaths")}
    return {**dict.fromkeys(EXECUTOR_KEYS), **lists, **plain}


def to_json(policy: SandboxPolicy) -> str:
    """The protobuf JSON mapping of `sandbox_policy.proto`: defaults left out, 64-bit integers as text."""
    plain = _plain(policy)
    if "type" in plain:
        plain["type"] = f"TYPE_{PolicyType(policy.type).name}"
    if "ignoreMapping" in plain:
        plain["ignoreMappingJson"] = _json(plain.pop("ignoreMapping"))
    if policy.network.allow == ():
        # The mapping cannot tell an empty list from none.
        plain["network"] = {**plain["network"], "allow": [], "allowNone": True}
    limits = plain.get("limits", {})
    plain.update(
        {"limits": {name: str(value) if type(value) is int else value for name, value in limits.items()}}
        if limits
        else {}
    )
    return _json(plain)


def from_json(data: str | bytes | Mapping[str, Any]) -> SandboxPolicy:
    """A policy from either form, as JSON text or as what a JSON text has already become."""
    if isinstance(data, str | bytes):
        try:
            data = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise PolicyError(f"the policy is not JSON: {error}") from None
    return _policy(data)


def require_carried(policy: SandboxPolicy) -> SandboxPolicy:
    """The policy, if every format can carry it."""
    require_type(policy.type)
    try:
        _check(msgspec.to_builtins(policy))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise PolicyError(f"the policy cannot be written: {error}") from None
    return policy


def _plain(policy: SandboxPolicy) -> dict[str, Any]:
    """The fields that say something, in plain values and camelCase."""
    plain: dict[str, Any] = msgspec.to_builtins(require_carried(policy))
    return {key: value for key, value in plain.items() if value != {}}


def _policy(data: object) -> SandboxPolicy:
    given = _known_keys(data, SandboxPolicy, "the policy", also=("ignoreMappingJson",))
    if (word := given.get("type")) is not None:
        name = _type_word(word)
        if name is None:
            raise PolicyError(f"unknown policy type `{word}`")
        given["type"] = PolicyType[name].value
    if (text := given.pop("ignoreMappingJson", None)) is not None:
        if "ignoreMapping" in given:
            raise PolicyError("the ignore mapping is given twice")
        given["ignoreMapping"] = _mapping(text)
    for key, kind in _NESTED.items():
        if key in given:
            given[key] = _known_keys(given[key], kind, f"`{key}`", also=("allowNone",) * (key == "network"))
    network = given.get("network", {})
    if network.pop("allowNone", False) is True:
        network.setdefault("allow", [])
    limits = given.get("limits", {})
    for name in ("memory", "processes", "output"):
        if isinstance(limits.get(name), str):
            limits[name] = _integer(limits[name])
    try:
        return require_carried(msgspec.convert(given, ready(SandboxPolicy)))
    except msgspec.ValidationError as error:
        raise PolicyError(f"the policy is malformed: {error}") from None


def _known_keys(data: object, kind: type[msgspec.Struct], what: str, also: tuple[str, ...]) -> dict[str, Any]:
    """The object's entries under their camelCase keys; null is the same as absent."""
    if not isinstance(data, Mapping):
        raise PolicyError(f"{what} is not an object")
    names = {field.name: field.encode_name for field in fields(kind)}
    keys = {**names, **{key: key for key in (*names.values(), *also)}}
    if "ignoreMappingJson" in also:
        keys["ignore_mapping_json"] = "ignoreMappingJson"
    given: dict[str, Any] = {}
    for key, value in data.items():
        if key not in keys:
            raise PolicyError(f"{what} has an unknown key `{key}`")
        if keys[key] in given:
            raise PolicyError(f"{what} gives `{key}` twice")
        if value is not None:
            given[keys[key]] = value
    return given


def _type_word(word: object) -> str | None:
    """A type by its name, with or without TYPE_, by its number, or by the word settings use."""
    if isinstance(word, int) and not isinstance(word, bool):
        return require_type(word).name
    if not isinstance(word, str):
        return None
    if word in POLICY_WORDS:
        return POLICY_WORDS[word].name
    name = word.removeprefix("TYPE_")
    return name if name in PolicyType.__members__ else None


def _mapping(text: object) -> object:
    try:
        return msgspec.json.decode(require_text(text, "the ignore mapping"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise PolicyError(f"the ignore mapping is not JSON: {error}") from None


def _integer(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise PolicyError(f"not a whole number: `{text}`")
    return int(text)


def _check(plain: dict[str, Any]) -> None:
    for key in _PATHS:
        if "" in plain.get(key, ()):
            raise PolicyError(f"`{key}` has an empty path")
    _check_value(plain)


def _check_value(value: object) -> None:
    if isinstance(value, str):
        require_text(value, "a policy's text")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            require_text(key, "a policy's text")
            _check_value(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_value(inner)
    elif isinstance(value, float) and not abs(value) < float("inf"):
        raise PolicyError(f"not a finite number: `{value}`")
    elif isinstance(value, int) and not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise PolicyError(f"number out of range: `{value}`")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
