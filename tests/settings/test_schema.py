"""The JSON Schema accepts what `load` accepts, and the page is made from the same table."""

import os
import tomllib
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from tests.settings.loaded import shape
from tests.settings.test_load import ERRORS

from pinfold.model.errors import PolicyError
from pinfold.settings import Sources, load
from pinfold.settings.defaults import default_data
from pinfold.settings.generate_docs import document, json_schema
from pinfold.settings.keys import TABLE
from pinfold.settings.parse_layer import read_layer
from pinfold.settings.toml import Document

EXAMPLE = """
mode = "use_allowlist"
[sandbox]
enabled=true
policy="workspace-write"
auto_allow=true
allow_unsandboxed=true
excluded_commands=[]
if_unavailable="refuse"
[commands]
allow=[]
ask=[]
deny=[]
safe=[]
composite=[]
[protect]
delete_files=false
dotfiles=true
outside_workspace=true
git_ignored=true
mcp_tools=true
browser=false
[mcp]
allow=[]
cli=false
[admin]
auto_run="allowed"
run_everything=true
sandboxing="user"
networking="user"
git="user"
[filesystem]
write=[]
read=[]
hide=[]
protect=[]
git_writes=false
tmp="private"
ignore_files=[".pinfoldignore", ".cursorignore"]
[network]
access="ask"
allow=[]
deny=[]
unix_sockets=[]
publish=[]
[environment]
keep=[]
drop=[]
set={}
[limits]
timeout="10m"
memory=""
processes=512
output="10MB"
[hooks]
before_command=[]
[violations]
ignore={}
"""
"""The shape of the settings, every default written out."""

GOOD: list[dict[str, Any]] = [
    {},
    {"limits": {"timeout": "1h30m", "memory": "2GiB", "output": 1000, "processes": ""}},
    {"hooks": {"before_command": ["/a", ["/b", "c"]], "timeout": "5s"}},
    {"environment": {"set": {"CI": ""}, "keep": ["AWS_*"]}},
    {"violations": {"ignore": {"npm test": ["/a"]}}},
    {"rule": [{"decision": "deny", "command": "x", "reason": "y", "match": ["x"], "not_match": []}]},
    {"network": {"publish": [3000], "allow": ["*.example.com", "10.0.0.0/8"]}},
]
VALIDATOR = Draft202012Validator(json_schema())


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json_schema())
    for section in json_schema()["properties"].values():
        for value in section.get("properties", {}).values():
            assert value["description"]


def test_the_example_is_valid_and_says_the_defaults() -> None:
    data = tomllib.loads(EXAMPLE)
    VALIDATOR.validate(data)
    defaults = default_data()
    for section, values in data.items():
        for name, value in values.items() if isinstance(values, dict) else ():
            if (section, name) not in (("commands", "safe"), ("commands", "composite")):
                assert defaults[section][name] == value  # type: ignore[index]
    assert read_layer(Document("managed", "", "", data))
    VALIDATOR.validate(defaults)


@pytest.mark.parametrize("data", GOOD)
def test_good_files(data: dict[str, Any]) -> None:
    VALIDATOR.validate(data)
    load(Sources(user_values=data), shape)


BEYOND = ("may be set only", "is not a rule", "invisible", "is not a duration", "`$HOME`")
"""What a schema cannot say."""


@pytest.mark.parametrize(("text", "message", "line"), ERRORS)
def test_wrong_files(text: str, message: str, line: int) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    if "nan" not in text and "1979" not in text and not any(part in message for part in BEYOND):
        assert not VALIDATOR.is_valid(data)
    with pytest.raises(PolicyError):
        load(Sources(user_values=data), shape)


def test_the_page_is_up_to_date() -> None:
    """Run `python -m pinfold.settings.generate_docs > docs/settings.md` if this fails."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs", "settings.md"), encoding="utf-8") as file:
        assert file.read() == document()
    assert all(f"| `{key.path[-1]}` |" in document() for key in TABLE)
