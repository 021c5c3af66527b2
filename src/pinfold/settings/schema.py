"""The JSON Schema of a settings file, made from the key table.

For editors and for checking a file without pinfold. It says what one file may hold; how far a layer is
believed is not a matter of schema, and is told in each description instead.
"""

from typing import Any

from pinfold.settings.keys import DECISIONS, RULE_KEYS, SECTIONS, Key, Kind, Who
from pinfold.settings.values import LARGEST, PROXY, PROXY_WORDS, SOMEBODYS, VARIABLE

ADDRESS = "https://json-schema.org/draft/2020-12/schema"

_TEXT = {"type": "string", "pattern": r"\S"}
_DURATION = r"^(\d+(\.\d+)?(ms|[smhd]))*$"
_SIZE = r"^(\d+(\.\d+)? ?(B|kB|[KMGT]B|[KMGT]iB|[KMGT])?)?$"


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_KINDS: dict[Kind, dict[str, Any]] = {
    Kind.BOOL: {"type": "boolean"},
    Kind.WORD: {"type": "string"},
    Kind.DURATION: {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": LARGEST},
            {"type": "string", "pattern": _DURATION},
        ]
    },
    Kind.SIZE: {
        "anyOf": [
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": LARGEST},
            {"type": "string", "pattern": _SIZE},
        ]
    },
    Kind.COUNT: {
        "anyOf": [{"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": LARGEST}, {"const": ""}]
    },
    Kind.RULES: _list(_TEXT),
    Kind.TEXTS: _list(_TEXT),
    Kind.PATH: {"type": "string", "pattern": "^([/~].*)?$"},
    Kind.PROXY: {"type": "string", "pattern": f"^({'|'.join(PROXY_WORDS)}|{PROXY})$"},
    Kind.PATHS: _list({"type": "string", "pattern": rf"^(?!{SOMEBODYS})(?!{VARIABLE}).*\S"}),
    Kind.HOSTS: _list({"type": "string", "pattern": r"^(?!.*://)\S+$"}),
    Kind.NAMES: _list({"type": "string", "pattern": r"^[A-Za-z0-9_*?]+$"}),
    Kind.PORTS: _list({"type": "integer", "minimum": 1, "maximum": 65535}),
    Kind.HOOKS: _list({"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}),
    Kind.TEXT_TABLE: {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": {"type": "string"},
    },
    Kind.LIST_TABLE: {"type": "object", "additionalProperties": _list(_TEXT)},
}


def json_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {"$schema": {"type": "string"}}
    for section, keys in SECTIONS.items():
        inner = {key.path[-1]: _of_key(key) for key in keys}
        if section:
            properties[section] = {"type": "object", "additionalProperties": False, "properties": inner}
        else:
            properties |= inner
    properties["rule"] = {
        "type": "array",
        "items": _rule(),
        "description": "Rules with a reason and examples.",
    }
    return {
        "$schema": ADDRESS,
        "title": "pinfold settings",
        "description": "A settings file of pinfold: managed, user or project.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def _of_key(key: Key) -> dict[str, Any]:
    schema = {**_KINDS[key.kind], "default": key.default, "description": key.doc + note(key)}
    if key.words:
        schema["enum"] = list(key.words)
    return schema


def note(key: Key) -> str:
    """Who may write the key, where that is not everybody."""
    if key.who is Who.MANAGED:
        return " Managed files only."
    if key.who is Who.TRUSTED:
        return " Not from a project."
    return ""


def _rule() -> dict[str, Any]:
    texts: dict[str, Any] = {name: {"type": "string", "description": doc} for name, doc in RULE_KEYS.items()}
    for name in ("match", "not_match"):
        texts[name] = {**_list({"type": "string"}), "description": RULE_KEYS[name]}
    texts["decision"] = {"enum": list(DECISIONS), "description": RULE_KEYS["decision"]}
    texts["command"] = {**_TEXT, "description": RULE_KEYS["command"]}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["decision", "command"],
        "properties": texts,
    }
