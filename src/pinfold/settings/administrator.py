"""What the administrator's words do to merged values, whatever a layer below says.

INVARIANT (administrator_only_narrows): where a managed file insists on the sandbox, no value of a layer below
lets a command run without one.
"""

from pinfold.settings.keys import BY_NAME
from pinfold.settings.merge import Merged, closes_over_hidden, shown
from pinfold.settings.parse_layer import Entry, Layer, told

_BINDINGS = (
    ("admin.sandboxing", "enabled", "sandbox.enabled", True),
    ("admin.networking", "disabled", "network.access", "none"),
    ("admin.git", "disabled", "filesystem.git_writes", False),
)
"""A word of the `[admin]` table -> the widest value it leaves, whatever any layer says."""
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


def bind(merged: Merged, managed: list[Layer]) -> None:
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
    # Switching the fence off is the one control that widens; a managed `sandbox.enabled` holds against it.
    insists = any("sandbox.enabled" in layer.scalars for layer in managed)
    is_on = merged.scalars["sandbox.enabled"].value
    if merged.scalars["admin.sandboxing"].value == "disabled" and is_on and not insists:
        _put(merged, "admin.sandboxing", "sandbox.enabled", False)
    forbids = merged.scalars["admin.run_everything"]
    mode = merged.scalars["mode"]
    if mode.value == "run_everything" and not forbids.value:
        merged.notices.append(
            f"{told(mode.origin)}: `mode = run_everything` is switched off ({told(forbids.origin)})"
        )


def _close_ways_out(merged: Merged) -> None:
    """No command leaves the sandbox by a value that no managed file set."""
    control = "admin.sandboxing"
    for name, closed in _MANAGED_ALONE.items():
        if name in merged.scalars:
            now = merged.scalars[name]
            if now.layer != "managed" and BY_NAME[name].rank(now.value) > BY_NAME[name].rank(closed):
                _put(merged, control, name, closed)
        elif any(entry.layer != "managed" for entry in merged.lists.get(name, ())):
            _empty(merged, control, name)


def _empty(merged: Merged, control: str, name: str) -> None:
    entries, closed = merged.lists.get(name), merged.scalars[control]
    if entries:
        merged.notices.append(
            f"{told(entries[0].origin)}: `{name}` is not used: `{control}` is `{shown(closed.value)}`"
            f" ({told(closed.origin)})"
        )
        merged.lists[name] = ()


def insisting(managed: list[Layer]) -> list[str]:
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


def _put(merged: Merged, control: str, name: str, value: object) -> None:
    was, entry = merged.scalars[name], merged.scalars[control]
    if was.layer != "default":
        merged.notices.append(
            f"{told(was.origin)}: `{name} = {shown(was.value)}` is not used:"
            f" `{control}` is `{shown(entry.value)}` ({told(entry.origin)})"
        )
    merged.scalars[name] = Entry(value, entry.document, entry.path)
