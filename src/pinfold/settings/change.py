"""Changes the user's settings file: some entries more, or one fewer.

Joins `toml_edit` (pure) to `files`, and believes no result that does not read back as valid settings. Used by
the command line and by an approval that is to hold always.
"""

from collections.abc import Callable, Iterable

from pinfold.model.escape_text import visible
from pinfold.model.script import Shape
from pinfold.settings import toml_edit
from pinfold.settings.files import locked, read_text, write_text
from pinfold.settings.keys import BY_NAME, ValueKind
from pinfold.settings.parse_layer import WrittenValue, read_layer
from pinfold.settings.toml import parse


def add_command(path: str, key: str, text: str, shape: Callable[[str], Shape], reason: str = "") -> bool:
    """Adds a command to the list `key`, such as `commands.allow`; False where it was there already."""
    section, name = key.split(".")
    require_rule(text, key, shape)

    def edited(before: str) -> str:
        if _same(before, key, text, shape):
            return before
        if reason and section == "commands":
            return toml_edit.add_rule(before, name, text, reason)
        return toml_edit.add_entry(before, section, name, text)

    return _change(path, edited)


def add_host(path: str, key: str, text: str, check: Callable[[str], None]) -> bool:
    """Adds a host to the list `key`, such as `network.allow`; False where it was there already."""
    from pinfold.model.errors import PolicyError

    assert BY_NAME[key].kind is ValueKind.HOSTS  # noqa: S101 - callers name the key
    try:
        check(text)
    except ValueError as error:
        raise PolicyError(f"`{visible(text[:80])}` is not a host: {visible(str(error))}") from None
    section, name = key.split(".")
    return _change(path, lambda before: toml_edit.add_entry(before, section, name, text))


def with_values(text: str, values: Iterable[tuple[str, str]]) -> str:
    """The text with each of these in it: one more entry of a list, or the value of a switch."""
    for key, value in values:
        section, name = key.split(".")
        if BY_NAME[key].is_scalar:
            text = toml_edit.set_value(text, section, name, value)
        else:
            text = toml_edit.add_entry(text, section, name, value)
    return text


def add_values(path: str, values: Iterable[tuple[str, str]]) -> bool:
    """Adds all of these to the file, or none of them; False where they were there already."""
    return _change(path, lambda before: with_values(before, values))


def remove_command(path: str, key: str, text: str, shape: Callable[[str], Shape]) -> bool:
    """Removes a command from the list `key`, and `[[rule]]` tables of it; False where there was none."""
    section, name = key.split(".")

    def edited(before: str) -> str:
        for entry in _same(before, key, text, shape):
            before = toml_edit.remove_entry(before, section, name, str(entry.value))
            if section == "commands":
                before = toml_edit.remove_rules(before, name, str(entry.value))
        return before

    return _change(path, edited)


def list_commands(path: str, key: str) -> list[str]:
    """What the file has in the list `key`, in force or not."""
    return [
        str(entry.value)
        for entry in read_layer(parse("user", path, read_text(path) or "")).lists.get(key, [])
    ]


def find_command(path: str, key: str, text: str, shape: Callable[[str], Shape]) -> WrittenValue | None:
    """The entry that says the same as `text`."""
    return next(iter(_same(read_text(path) or "", key, text, shape, path)), None)


def require_rule(text: str, key: str, shape: Callable[[str], Shape]) -> None:
    """Raises `PolicyError` where the text is no rule."""
    from pinfold.model.errors import PolicyError

    assert BY_NAME[key].kind is ValueKind.RULES  # noqa: S101 - callers name the key
    try:
        shape(text)
    except ValueError as error:
        raise PolicyError(f"`{visible(text[:80])}` is not a rule: {visible(str(error))}") from None


def _same(
    before: str, key: str, text: str, shape: Callable[[str], Shape], path: str = ""
) -> list[WrittenValue]:
    """The entries that mean what `text` does: `docker` and `docker:*` are two spellings of one rule."""
    entries = read_layer(parse("user", path, before)).lists.get(key, [])
    return [entry for entry in entries if is_same_rule(str(entry.value), text, shape)]


def is_same_rule(one: str, other: str, shape: Callable[[str], Shape]) -> bool:
    try:
        return one == other or shape(one).words == shape(other).words
    except ValueError:
        return False


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
