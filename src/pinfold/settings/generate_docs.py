"""docs/settings.md and the JSON Schema of a settings file, made from the key table.

The schema is for editors, and for checking a file without pinfold. It says what one file may hold; each
description says which layers may set the key.

Run `python -m pinfold.settings.generate_docs > docs/settings.md` after a change of the table; a test compares.
"""

# ruff: noqa: E501

from typing import Any

from pinfold.settings.defaults import LISTS
from pinfold.settings.keys import DECISIONS, RULE_KEYS, SECTIONS, Direction, Key, ValueKind, WrittenBy
from pinfold.settings.values import LARGEST, PROXY, PROXY_WORDS, SOMEBODYS, VARIABLE, WEBHOOK

_HEAD = """\
# Settings

<!-- Made by `python -m pinfold.settings.generate_docs` from src/pinfold/settings/keys.py; do not edit. -->

Settings are TOML. `pinfold settings show` prints every value in force with the file and line it came from
(of shipped lists only their length; `--json` prints them whole), `pinfold settings validate` checks a file,
`pinfold settings schema` prints the JSON Schema.

## Layers

| layer | where | what it may do |
|---|---|---|
| managed | `/etc/pinfold/managed.toml`, `/etc/pinfold/managed.d/*.toml` | sets caps: other layers may only narrow what it sets |
| command line | flags, `PINFOLD_POLICY`, `PINFOLD_MODE`, `PINFOLD_NETWORK` | overrides the user file; adds to lists. In hooks, in what an agent runs and in `pinfold mcp`, the variables only narrow |
| user | `~/.config/pinfold/settings.toml`, or `--settings FILE` | anything managed leaves open |
| project-local | `.pinfold/settings.local.toml` | narrow only |
| project | `.pinfold/settings.toml` | narrow only |

- **One value**: managed's value is in force, or a narrower one of a lower layer. A wider value in a project's file
  has no effect, and a notice says so. If a project turns the sandbox on and you turned it off, sandboxed commands
  ask too.
- **Grants** (lists that allow more): managed's list replaces all others; otherwise the entries of the command line
  and the user count. A project cannot add to them.
- **Restrictions** (lists that allow less): the entries of all layers count.
- Several managed files are one layer: the narrower value is in force, and lists are joined.
- A project is the nearest repository around the working directory, or that directory; a repository in a directory that
  all users share, such as `/tmp`, does not count. The `.pinfold` files of directories around it, up to the home
  directory, are project files too, unless they belong to another user.
- A broken, unreadable or misspelt file is an error, never an empty file. A managed file must belong to root and
  only root may be able to write it.
- A relative path in a grant starts at the first project root; in a restriction it holds in every root, or, from
  a project's file, in that project. `~` is the home directory; environment variables are not expanded.
- Durations are written `"90s"`, `"10m"`, `"1h30m"`; sizes `"512MB"` (thousands) or `"2GiB"` (1024); `""` is no
  limit.

The column "narrower" below says which of two values is the narrower one.
"""

_RULES = """\
## `[[rule]]`

An entry of `commands.allow`, `ask` or `deny` with a reason and examples.

```toml
[[rule]]
decision = "deny"
command = "git push --force"
reason = "rewrites what others have pulled"
match = ["git push --force origin main", "git push origin main --force"]
not_match = ["git push origin main"]
```

| key | meaning |
|---|---|
"""


def document() -> str:
    """The whole page."""
    parts = [_HEAD]
    for section, keys in SECTIONS.items():
        title = f"`[{section}]`" if section else "At the top of the file"
        rows = "\n".join(_row(key) for key in keys)
        parts.append(
            f"## {title}\n\n| key | value | default | narrower | meaning |\n|---|---|---|---|---|\n{rows}\n"
        )
    parts.append(_RULES + "\n".join(f"| `{name}` | {doc} |" for name, doc in RULE_KEYS.items()) + "\n")
    return "\n".join(parts)


def _row(key: Key) -> str:
    value = " ".join(f"`{word}`" for word in key.words) or key.kind.value
    return f"| `{key.path[-1]}` | {value} | {_default(key)} | {_narrower(key)} | {key.doc}{note(key)} |"


def _default(key: Key) -> str:
    if key.name in LISTS:
        return "shipped"
    return f"`{written(key.default)}`"


def _narrower(key: Key) -> str:
    if key.narrows is Direction.GRANT:
        return "grant"
    if key.narrows is Direction.RESTRICT:
        return "restriction"
    if key.kind is ValueKind.BOOL:
        return "`false`" if key.narrows is Direction.AND else "`true`"
    return "the earlier" if key.words else "the smaller"


def written(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        from pinfold.settings.toml_edit import quoted

        return quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(name)} = {written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value)


ADDRESS = "https://json-schema.org/draft/2020-12/schema"

_TEXT = {"type": "string", "pattern": r"\S"}
_DURATION = r"^(\d+(\.\d+)?(ms|[smhd]))*$"
_SIZE = r"^(\d+(\.\d+)? ?(B|kB|[KMGT]B|[KMGT]iB|[KMGT])?)?$"


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_KINDS: dict[ValueKind, dict[str, Any]] = {
    ValueKind.BOOL: {"type": "boolean"},
    ValueKind.WORD: {"type": "string"},
    ValueKind.DURATION: {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": LARGEST},
            {"type": "string", "pattern": _DURATION},
        ]
    },
    ValueKind.SIZE: {
        "anyOf": [
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": LARGEST},
            {"type": "string", "pattern": _SIZE},
        ]
    },
    ValueKind.COUNT: {
        "anyOf": [{"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": LARGEST}, {"const": ""}]
    },
    ValueKind.RULES: _list(_TEXT),
    ValueKind.TEXTS: _list(_TEXT),
    ValueKind.PATH: {"type": "string", "pattern": "^([/~].*)?$"},
    ValueKind.PROXY: {"type": "string", "pattern": f"^({'|'.join(PROXY_WORDS)}|{PROXY})$"},
    ValueKind.URL: {"type": "string", "pattern": f"^({WEBHOOK})?$"},
    ValueKind.PATHS: _list({"type": "string", "pattern": rf"^(?!{SOMEBODYS})(?!{VARIABLE}).*\S"}),
    ValueKind.HOSTS: _list({"type": "string", "pattern": r"^(?!.*://)\S+$"}),
    ValueKind.NAMES: _list({"type": "string", "pattern": r"^[A-Za-z0-9_*?]+$"}),
    ValueKind.PORTS: _list({"type": "integer", "minimum": 1, "maximum": 65535}),
    ValueKind.HOOKS: _list({"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}),
    ValueKind.TEXT_TABLE: {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": {"type": "string"},
    },
    ValueKind.LIST_TABLE: {"type": "object", "additionalProperties": _list(_TEXT)},
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of one settings file."""
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
    """Which layers may write the key, if not all may."""
    if key.written_by is WrittenBy.MANAGED:
        return " Managed files only."
    if key.written_by is WrittenBy.TRUSTED:
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


if __name__ == "__main__":
    import sys

    sys.stdout.write(document())
