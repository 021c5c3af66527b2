"""Changes the user's settings file: one entry more, or one fewer.

Joins `edit` (pure) to `files`, and believes no result that does not read back as valid settings. Used by the
command line and by an approval that is to hold always.
"""

from collections.abc import Callable

from pinfold.model.script import Shape
from pinfold.model.visible import visible
from pinfold.settings import edit
from pinfold.settings.files import locked, read_text, write_text
from pinfold.settings.keys import BY_NAME, Kind
from pinfold.settings.layers import read_layer
from pinfold.settings.toml import parse


def add_command(path: str, key: str, text: str, shape: Callable[[str], Shape], reason: str = "") -> bool:
    """Adds a command to the list `key`, such as `commands.allow`; False where it was there already."""
    section, name = key.split(".")
    require_rule(text, key, shape)

    def edited(before: str) -> str:
        if _is_listed(before, section, name, text):
            return before
        if reason and section == "commands":
            return edit.add_rule(before, name, text, reason)
        return edit.add_entry(before, section, name, text)

    return _change(path, edited)


def remove_command(path: str, key: str, text: str) -> bool:
    """Removes a command from the list `key`, and `[[rule]]` tables of it; False where there was none."""
    section, name = key.split(".")

    def edited(before: str) -> str:
        after = edit.remove_entry(before, section, name, text)
        return edit.remove_rules(after, name, text) if section == "commands" else after

    return _change(path, edited)


def require_rule(text: str, key: str, shape: Callable[[str], Shape]) -> None:
    """Raises `PolicyError` where the text is no rule."""
    from pinfold.model.errors import PolicyError

    assert BY_NAME[key].kind is Kind.RULES  # noqa: S101 - callers name the key
    try:
        shape(text)
    except ValueError as error:
        raise PolicyError(f"`{visible(text[:80])}` is not a rule: {visible(str(error))}") from None


def _is_listed(text: str, section: str, name: str, command: str) -> bool:
    layer = read_layer(parse("user", "", text))
    return any(entry.value == command for entry in layer.lists.get(f"{section}.{name}", []))


def _change(path: str, edited: Callable[[str], str]) -> bool:
    with locked(path):
        before = read_text(path) or ""
        read_layer(parse("user", path, before))  # a broken file is not edited
        after = edited(before)
        if after == before:
            return False
        read_layer(parse("user", path, after))
        write_text(path, after)
        return True
