"""What a resumed session had caps what it gets: the values in force then, and those of today, key by key.

INVARIANT (resume_never_widens): of a scalar the narrower value holds; a list that grants keeps what both
have; a list that restricts has what either has.
"""

from collections.abc import Mapping
from typing import Any

from pinfold.model.settings import Settings
from pinfold.settings.defaults import default_data, default_layer
from pinfold.settings.keys import BY_NAME, TABLE, Direction, Key, ValueKind
from pinfold.settings.merge import MergedSettings, shown
from pinfold.settings.parse_layer import SettingsLayer, WrittenValue, read_layer
from pinfold.settings.toml import Document

LAYER = "session"
_IN_OTHERS = frozenset({"admin.sandboxing", "admin.networking", "admin.git"})
"""Words whose effect is in the values of other keys."""


def held_of(settings: Settings) -> dict[str, Any]:
    """Each key whose value in force is not its default, as it would be written in a file."""
    from pinfold.settings.build import effective

    usual = effective_defaults()
    values = effective(settings)
    return {name: _written(BY_NAME[name], value) for name, value in values.items() if value != usual[name]}


def effective_defaults() -> dict[str, Any]:
    """What `effective` says without any settings."""
    from pinfold.settings.build import build, effective

    return effective(build([default_layer()], _no_shape))


def held_layer(held: Mapping[str, object]) -> SettingsLayer:
    """The values as a layer, with a default for each key that it does not name.

    Raises a `PolicyError` for what is no value of its key.
    """
    data = default_data()
    for name, value in held.items():
        section, _, key = name.rpartition(".")
        place = data.setdefault(section, {}) if section else data
        assert isinstance(place, dict)  # noqa: S101 - a section is never also a key
        place[key] = value
    return read_layer(Document(LAYER, "", "", data, told="what the session had"))


def hold(merged: MergedSettings, held: SettingsLayer) -> None:
    """Narrows merged values to what the session had."""
    for key in TABLE:
        if key.name in _IN_OTHERS:
            continue
        if key.is_scalar:
            _hold_scalar(merged, key, held.scalars[key.name])
        else:
            _hold_list(merged, key, held.lists.get(key.name, []))


def _hold_scalar(merged: MergedSettings, key: Key, before: WrittenValue) -> None:
    now = merged.scalars[key.name]
    if key.rank(before.value) < key.rank(now.value):
        merged.scalars[key.name] = before
        merged.notices.append(
            f"`{key.name} = {shown(now.value)}` has no effect: this session had `{shown(before.value)}`"
        )


def _hold_list(merged: MergedSettings, key: Key, before: list[WrittenValue]) -> None:
    now = merged.lists.get(key.name, ())
    if key.narrows is Direction.RESTRICT:
        known = [entry.value for entry in now]
        merged.lists[key.name] = (*now, *(entry for entry in before if entry.value not in known))
        return
    had = [entry.value for entry in before]
    kept = tuple(entry for entry in now if entry.value in had)
    if len(kept) < len(now):
        lost = ", ".join(f"`{shown(entry.value)}`" for entry in now if entry not in kept)
        merged.notices.append(f"{shown(lost)} of `{key.name}` has no effect: this session did not have it")
    merged.lists[key.name] = kept


def with_change(held: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """What a session may have once the person in front of it has changed values of it."""
    widened = dict(held)
    for section, values in change.items():
        named = values.items() if isinstance(values, Mapping) and section not in BY_NAME else [("", values)]
        for last, value in named:
            name = f"{section}.{last}" if last else section
            key = BY_NAME.get(name)
            if key is None or (
                not key.is_scalar and key.kind in (ValueKind.TEXT_TABLE, ValueKind.LIST_TABLE)
            ):
                continue
            before = widened.get(name)
            is_list = key.narrows is Direction.GRANT and isinstance(value, list | tuple)
            widened[name] = [*(before or []), *value] if is_list else value
    return widened


def _written(key: Key, value: Any) -> Any:
    """As a file has it: a duration with its unit, no limit as an empty text."""
    if value is None:
        return ""
    return (
        f"{value:g}s"
        if key.kind is ValueKind.DURATION
        else f"{value}B"
        if key.kind is ValueKind.SIZE
        else value
    )


def _no_shape(text: str) -> Any:
    raise AssertionError(f"`{text}` is shipped, and needs no shape")
