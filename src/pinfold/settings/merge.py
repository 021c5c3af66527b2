"""Merges the layers: which value of each key is in force, and what the administrator's `[admin]` table caps.

The key table (`keys`) drives the merge.

INVARIANT (administrator_only_narrows): for a scalar that managed sets, the value in force never ranks
above managed's; a GRANT list that managed sets is exactly managed's; where a managed file insists on the
sandbox, no value of a lower layer lets a command run without one.
INVARIANT (project_cannot_widen): removing a project layer never narrows anything, and no project layer makes
a question disappear.

Several managed files are one layer: the narrower scalar holds, so their order cannot matter, and lists unite.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pinfold.model.escape_text import visible
from pinfold.model.text_positions import Origin
from pinfold.settings.keys import BY_NAME, LAYERS, PROJECT_LAYERS, TABLE, TABLES, Direction, Key, WrittenBy
from pinfold.settings.parse_layer import SettingsLayer, WrittenValue, shown_origin

_FENCE = {"sandbox.enabled": False, "sandbox.policy": "danger-full-access"}
"""The keys that switch the sandbox on or off, and the value that means off."""


class MergedSettings(Struct, frozen=True):
    """What is in force; keys that nothing set are absent from `scalars` and `lists`."""

    scalars: dict[str, WrittenValue]
    lists: dict[str, tuple[WrittenValue, ...]]
    notices: list[str]
    emptied: dict[str, Origin]
    """Lists that a trusted layer wrote as empty, which is not the same as not at all."""


def merge(layers: Sequence[SettingsLayer]) -> MergedSettings:
    """The values in force. `layers` may come in any order between names; within a name the first holds."""
    ordered = sorted(layers, key=lambda layer: LAYERS.index(layer.document.layer))
    merged = MergedSettings({}, {}, [notice for layer in ordered for notice in layer.notices], {})
    for key in TABLE:
        if key.is_scalar:
            entries = [layer.scalars[key.name] for layer in ordered if key.name in layer.scalars]
            _merge_scalar(key, entries, merged)
        else:
            lists = [(layer, layer.lists[key.name]) for layer in ordered if key.name in layer.lists]
            _merge_list(key, lists, merged)
    _keep_asking(merged, ordered)
    _close_over_hidden(merged, ordered)
    _close_exclusions(merged)
    return merged


def _merge_scalar(key: Key, entries: list[WrittenValue], merged: MergedSettings) -> None:
    managed = [entry for entry in entries if entry.layer == "managed"]
    own = [entry for entry in entries if entry.layer in ("command line", "user")]
    offered = [entry for entry in entries if entry.layer in PROJECT_LAYERS]
    shipped = [entry for entry in entries if entry.layer == "default"]
    # The administrator's narrowest word, the user's own if it is narrower, each project's if still narrower.
    # Of two paths neither is the narrower; which one counts must not depend on the files' order.
    force = min(managed, key=lambda entry: (key.rank(entry.value), str(entry.value))) if managed else None
    if own and (force is None or key.rank(own[0].value) < key.rank(force.value)):
        force = own[0]
    elif own and force is not None and own[0].value != force.value:
        merged.notices.append(_capped(key, own[0], force))
    if force is None:
        force = shipped[0]
    for entry in offered:
        if key.written_by is not WrittenBy.ANYONE or key.rank(entry.value) > key.rank(force.value):
            merged.notices.append(_not_believed(key, [entry]))
        elif key.rank(entry.value) < key.rank(force.value):
            force = entry
    merged.scalars[key.name] = force


def _merge_list(
    key: Key, lists: list[tuple[SettingsLayer, list[WrittenValue]]], merged: MergedSettings
) -> None:
    by_admin = any(layer.document.layer == "managed" for layer, _ in lists)
    is_grant = key.narrows is Direction.GRANT
    kept: dict[object, WrittenValue] = {}
    replaced = any(layer.document.layer in LAYERS[:3] for layer, _ in lists)
    for layer, entries in lists:
        name = layer.document.layer
        if name == "default" and replaced:
            continue  # a shipped list counts until a trusted layer writes one
        new = [entry for entry in entries if not _is_in(kept, key, entry)]
        if name in PROJECT_LAYERS and (is_grant or key.written_by is not WrittenBy.ANYONE):
            merged.notices.extend([_not_believed(key, new)] if new else [])
        elif is_grant and by_admin and name != "managed":
            merged.notices.extend([_managed_instead(key, new)] if new else [])
        else:
            for entry in new:
                kept.setdefault(_identity(key, entry), entry)
        if name in LAYERS[:3] and not entries:
            merged.emptied.setdefault(key.name, layer.document.origin(key.path))
    merged.lists[key.name] = tuple(kept.values())


def _is_in(kept: dict[object, WrittenValue], key: Key, entry: WrittenValue) -> bool:
    found = kept.get(_identity(key, entry))
    return found is not None and found.value == entry.value


def _identity(key: Key, entry: WrittenValue) -> object:
    """A table's entries are identified by name, so a more trusted layer's value holds."""
    return entry.value[0] if key.kind in TABLES and isinstance(entry.value, tuple) else entry.value


def _keep_asking(merged: MergedSettings, layers: Sequence[SettingsLayer]) -> None:
    """A sandbox that a project alone has switched on answers no questions.

    For a user without a sandbox, each command is asked about that no rule covers. In a sandbox it would be
    allowed by that alone (`sandbox.auto_allow`), so the narrower value would allow more.
    """
    raised = [entry for name in _FENCE if (entry := merged.scalars[name]).layer in PROJECT_LAYERS]
    if not raised or not merged.scalars["sandbox.auto_allow"].value or not _has_fence(merged):
        return
    own = MergedSettings({}, {}, [], {})
    for name in _FENCE:
        entries = [entry for entry in _of(layers, name) if entry.layer not in PROJECT_LAYERS]
        _merge_scalar(BY_NAME[name], entries, own)
    if _has_fence(own):
        return
    merged.scalars["sandbox.auto_allow"] = WrittenValue(False, raised[0].document, raised[0].path)
    merged.notices.append(
        f"{shown_origin(raised[0].origin)}: this project turns the sandbox on and your settings turn it off,"
        " so sandboxed commands ask too (`sandbox.auto_allow = false`)"
    )


def _has_fence(merged: MergedSettings) -> bool:
    return all(merged.scalars[name].value != bare for name, bare in _FENCE.items())


def closes_over_hidden(managed: Sequence[SettingsLayer]) -> WrittenValue | None:
    """The first entry by which the administrator hides or protects something.

    It holds for every command, so none may leave the sandbox. None where the administrator says
    `allow_unsandboxed = true`, too."""
    opened = any(entry.value for entry in _of(managed, "sandbox.allow_unsandboxed"))
    names = ("filesystem.hide", "filesystem.protect")
    held = (entry for name in names for layer in managed for entry in layer.lists.get(name, ()))
    return None if opened else next(held, None)


def _close_over_hidden(merged: MergedSettings, layers: Sequence[SettingsLayer]) -> None:
    held = closes_over_hidden([layer for layer in layers if layer.document.layer == "managed"])
    # A less trusted layer that closed it too, by a value that hides nothing, must not count as its closer.
    if held is None or merged.scalars["sandbox.allow_unsandboxed"].layer == "managed":
        return
    merged.scalars["sandbox.allow_unsandboxed"] = WrittenValue(False, held.document, held.path)
    for entry in _of(layers, "sandbox.allow_unsandboxed"):
        if entry.value and entry.layer != "default":
            merged.notices.append(
                f"{shown_origin(entry.origin)}: `sandbox.allow_unsandboxed = true` has no effect:"
                f" {shown_origin(held.origin)} hides or protects files from every command"
            )


def _of(layers: Sequence[SettingsLayer], name: str) -> list[WrittenValue]:
    return [layer.scalars[name] for layer in layers if name in layer.scalars]


def _close_exclusions(merged: MergedSettings) -> None:
    """A closed policy keeps only exclusions of the layer that closed it, or of a more trusted one."""
    closed = merged.scalars["sandbox.allow_unsandboxed"]
    if closed.value:
        return
    limit = LAYERS.index(closed.layer)
    entries = merged.lists.get("sandbox.excluded_commands", ())
    kept = tuple(entry for entry in entries if LAYERS.index(entry.layer) <= limit)
    for entry in entries:
        if entry not in kept:
            merged.notices.append(
                f"{shown_origin(entry.origin)}: `{shown(entry.value)}` in `sandbox.excluded_commands`"
                f" has no effect: {shown_origin(closed.origin)} sets `sandbox.allow_unsandboxed = false`"
            )
    merged.lists["sandbox.excluded_commands"] = kept


def _capped(key: Key, entry: WrittenValue, managed: WrittenValue) -> str:
    return (
        f"{shown_origin(entry.origin)}: `{key.name} = {shown(entry.value)}` has no effect:"
        f" the administrator limits it to `{shown(managed.value)}` ({shown_origin(managed.origin)})"
    )


def _managed_instead(key: Key, entries: list[WrittenValue]) -> str:
    return (
        f"{shown_origin(entries[0].origin)}: {_listed(entries)} in `{key.name}` has no effect:"
        " the administrator's list replaces it"
    )


def _not_believed(key: Key, entries: list[WrittenValue]) -> str:
    what = f"{_listed(entries)} in `{key.name}`"
    if key.is_scalar:
        what = f"`{key.name} = {shown(entries[0].value)}`"
    return (
        f"{shown_origin(entries[0].origin)}: {what} has no effect: a project's file can only narrow;"
        " if you want it, put it in your own settings (~/.config/pinfold/settings.toml)"
    )


def _listed(entries: list[WrittenValue]) -> str:
    """The first few: a repository must not be able to fill the screen."""
    first = ", ".join(f"`{shown(entry.value)}`" for entry in entries[:3])
    return f"{first} and {len(entries) - 3} more" if len(entries) > 3 else first


def shown(value: object) -> str:
    """A value for a notice: short, and unable to disturb a terminal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return shown(" ".join(_flat(value)))
    text = "no limit" if value is None else str(value)
    return visible(text if len(text) <= 80 else text[:77] + "...")


def _flat(values: Iterable[object]) -> list[str]:
    return [str(part) for value in values for part in (value if isinstance(value, tuple) else (value,))]


_BINDINGS = (
    ("admin.sandboxing", "enabled", "sandbox.enabled", True),
    ("admin.networking", "disabled", "network.access", "none"),
    ("admin.git", "disabled", "filesystem.git_writes", False),
)
"""A word of the `[admin]` table -> the widest value that any layer may have under it."""
EMPTIED = (("admin.networking", "disabled", "network.publish"),)
"""A word of the `[admin]` table -> a list that it leaves nothing of."""
_MANAGED_ALONE = {
    "sandbox.allow_unsandboxed": False,
    "sandbox.excluded_commands": (),
}
"""Where `admin.sandboxing` is `enabled`: a key by which a command leaves the sandbox -> its value, unless a
managed file sets that key."""
_INSISTED: dict[str, object] = {
    "sandbox.enabled": True,
    "sandbox.policy": "workspace-write",
    "sandbox.if_unavailable": "refuse",
}
"""Where a managed file insists on the sandbox: a key by which there could be none -> its widest value. A
managed file's own value of it holds, but for `danger-full-access`."""


def bind(merged: MergedSettings, managed: list[SettingsLayer]) -> None:
    """The `[admin]` table has the last word."""
    for control, word, name, most in _BINDINGS:
        rank = BY_NAME[name].rank
        if merged.scalars[control].value == word and rank(merged.scalars[name].value) > rank(most):
            _put(merged, control, name, most)
    for control, word, name in EMPTIED:
        if merged.scalars[control].value == word:
            _empty(merged, control, name)
    if merged.scalars["admin.sandboxing"].value == "enabled":
        _close_ways_out(merged)
    # A managed file that insists on the sandbox means a real one: `danger-full-access` would be none, and so
    # would a machine that cannot hold it.
    for control in insisting(managed):
        for name, widest in _INSISTED.items():
            rank, now = BY_NAME[name].rank, merged.scalars[name]
            is_accepted = now.layer == "managed" and name != "sandbox.policy"
            if not is_accepted and rank(now.value) > rank(widest):
                _put(merged, control, name, widest)
    # Switching the sandbox off is the one control that widens; a managed `sandbox.enabled` overrides it.
    insists = any("sandbox.enabled" in layer.scalars for layer in managed)
    is_on = merged.scalars["sandbox.enabled"].value
    if merged.scalars["admin.sandboxing"].value == "disabled" and is_on and not insists:
        _put(merged, "admin.sandboxing", "sandbox.enabled", False)
    forbids = merged.scalars["admin.run_everything"]
    mode = merged.scalars["mode"]
    if mode.value == "run_everything" and not forbids.value:
        merged.notices.append(
            f"{shown_origin(mode.origin)}: `mode = run_everything` has no effect:"
            f" {shown_origin(forbids.origin)} sets `admin.run_everything = false`"
        )


def _close_ways_out(merged: MergedSettings) -> None:
    """No command leaves the sandbox by a value that no managed file set."""
    control = "admin.sandboxing"
    for name, closed in _MANAGED_ALONE.items():
        if name in merged.scalars:
            now = merged.scalars[name]
            if now.layer != "managed" and BY_NAME[name].rank(now.value) > BY_NAME[name].rank(closed):
                _put(merged, control, name, closed)
        elif any(entry.layer != "managed" for entry in merged.lists.get(name, ())):
            _empty(merged, control, name)


def _empty(merged: MergedSettings, control: str, name: str) -> None:
    entries, closed = merged.lists.get(name), merged.scalars[control]
    if entries:
        merged.notices.append(
            f"{shown_origin(entries[0].origin)}: `{name}` has no effect: `{control}` is"
            f" `{shown(closed.value)}` ({shown_origin(closed.origin)})"
        )
        merged.lists[name] = ()


def insisting(managed: list[SettingsLayer]) -> list[str]:
    """The keys by whose managed value there must be a sandbox; what a managed file hides closes the last."""
    wanted = {"admin.sandboxing": "enabled", "sandbox.enabled": True, "sandbox.allow_unsandboxed": False}
    said = {
        name: {layer.scalars[name].value for layer in managed if name in layer.scalars} for name in wanted
    }
    if said["admin.sandboxing"] == {"disabled"} and not said["sandbox.enabled"]:
        return []
    found = [name for name, value in wanted.items() if value in said[name]]
    if closes_over_hidden(managed) and "sandbox.allow_unsandboxed" not in found:
        found.append("sandbox.allow_unsandboxed")
    return found


def _put(merged: MergedSettings, control: str, name: str, value: object) -> None:
    was, entry = merged.scalars[name], merged.scalars[control]
    if was.layer != "default":
        merged.notices.append(
            f"{shown_origin(was.origin)}: `{name} = {shown(was.value)}` has no effect:"
            f" `{control}` is `{shown(entry.value)}` ({shown_origin(entry.origin)})"
        )
    merged.scalars[name] = WrittenValue(value, entry.document, entry.path)
