"""What an install or its undoing would change: files, before and after. Looks at the disk and changes
nothing.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from pinfold.integrations.install.agents import (
    REQUIREMENTS,
    RULES,
    AgentSetup,
    is_ours,
    lines_in,
    managed_target_of,
    out_of_reach,
    target_of,
)
from pinfold.integrations.install.jsonc import parse, with_member, with_value, without
from pinfold.integrations.install.mcp_servers import (
    ReplacedText,
    ServerList,
    StdioServer,
    chosen,
    servers_file,
    servers_in,
    with_words,
    without_wraps,
    wrapped_words,
)
from pinfold.integrations.install.undo_record import Kept, forget, keep, kept_of
from pinfold.model.errors import PolicyError
from pinfold.settings.files import LARGEST, locked, read_text, write_text


class Change(NamedTuple):
    """One file; None where there is none."""

    path: str
    before: str | None
    after: str | None


class InstallPlan(NamedTuple):
    changes: tuple[Change, ...]
    """Files that do not stay as they are."""
    kept: tuple[Kept, ...]
    """What is remembered for the undoing."""
    notes: tuple[str, ...]
    directories: tuple[str, ...] = ()
    """Those that were made for files of ours, the innermost first: they go where they are empty."""
    servers: tuple[StdioServer, ...] = ()
    """The MCP servers that the agent starts, as they are after this."""


def plan_install(agent: str, environ: Mapping[str, str], wrap: Sequence[str] = ()) -> InstallPlan:
    """`wrap` names the MCP servers to wrap; those that are wrapped already stay so."""
    target, list_ = target_of(agent, environ), servers_file(agent, environ)
    notes = list(target.notes)
    known = {kept.path: kept for kept in kept_of(agent, environ)}
    hooks, commands = _with_hooks(target), _with_commands(target, notes)
    is_same = list_.file == target.file
    try:
        before = hooks.after if is_same else text_of(list_.file)
        servers, pieces = _with_servers(before or "", list_, wrap, known.get(list_.file))
    except PolicyError as error:
        if wrap or is_same:
            raise
        notes.append(f"its MCP servers are not known: {error}")
        before, servers, pieces = None, None, []
    if is_same and servers is not None:
        hooks = hooks._replace(after=servers)
    found = [hooks, *commands]
    kept = [_kept(change, known.get(change.path), list_) for change in found]
    if is_same:
        kept = [replace(each, pieces=tuple(pieces)) if each.path == list_.file else each for each in kept]
    elif before is not None and servers is not None:
        found.append(Change(list_.file, before, servers))
        kept += [Kept(list_.file, None, "", (), tuple(pieces), is_whole=False)] if pieces else []
    elif list_.file in known:  # nothing is known of it now; what was kept still counts
        kept.append(known[list_.file])
    changes = tuple(change for change in found if change.before != change.after)
    now = servers_in(servers, list_) if servers else ()
    notes += [f"MCP server `{each.name}` stays outside: {each.obstacle}" for each in now if each.obstacle]
    return InstallPlan(changes, tuple(kept), tuple(notes), servers=now)


def plan_managed_install(agent: str, environ: Mapping[str, str]) -> InstallPlan:
    """For all users of the machine, in the administrator's place."""
    target, notes = managed_target_of(agent), list[str]()
    found = [_with_hooks(target)]
    if path := out_of_reach(agent):
        notes.append(f"other users cannot reach {path}, so each of their calls would be denied")
    if agent == "codex" and (pinned := _with_pinned_feature(notes)):
        found.append(pinned)
    known = {kept.path: kept for kept in kept_of(name_of(agent, True), environ)}
    list_ = servers_file(agent, environ)
    kept = [_kept(change, known.get(change.path), list_) for change in found]
    changes = tuple(change for change in found if change.before != change.after)
    return InstallPlan(changes, tuple(kept), tuple(notes))


def _with_servers(
    text: str, list_: ServerList, names: Sequence[str], known: Kept | None
) -> tuple[str, list[ReplacedText]]:
    """The text with the servers wrapped, and what was replaced for that."""
    wanted = chosen(servers_in(text, list_), tuple(names), list_.file)
    text, pieces = without_wraps(text, list_, known.pieces if known else ()), list[ReplacedText]()
    for server in wanted:
        text, replaced = with_words(text, list_.file, server, wrapped_words(server))
        pieces += replaced
    return text, pieces


def text_of(path: str) -> str | None:
    """Agents keep more in such a file than settings: it may be larger."""
    with suppress(OSError):
        if os.path.getsize(path) > LARGEST:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
    return read_text(path)


def _kept(change: Change, known: Kept | None, list_: ServerList) -> Kept:
    """What the file was without us; what a second install finds is no more than what the first one left."""
    assert change.after is not None  # noqa: S101 - an install takes nothing away
    made = tuple(dict.fromkeys((*_missing(change.path), *(known.made if known else ()))))
    if known and change.before == known.after:
        return Kept(change.path, known.before, change.after, made)
    before = change.before
    if before is not None and before != change.after and change.path.endswith(".json"):
        before = _without_ours(before, change.path, list_, known)
    elif before == change.after:  # ours already, and what was there before is not known
        is_json = before is not None and change.path.endswith(".json")
        before = _without_ours(before or "", change.path, list_, known) if is_json else None
    return Kept(change.path, before, change.after, made)


def _without_ours(text: str, file: str, list_: ServerList, known: Kept | None) -> str:
    if file == list_.file:
        text = without_wraps(text, list_, known.pieces if known else ())
    return text if file.endswith(".toml") else _without_hooks(text, file)


def _missing(path: str) -> list[str]:
    """The directories that have to be made for it, the innermost first."""
    missing, directory = [], os.path.dirname(os.path.realpath(path))
    while not os.path.exists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return missing


def plan_uninstall(agent: str, environ: Mapping[str, str], *, managed: bool = False) -> InstallPlan:
    target = managed_target_of(agent) if managed else target_of(agent, environ)
    list_, notes = servers_file(agent, environ), list[str]()
    known = {kept.path: kept for kept in kept_of(name_of(agent, managed), environ)}
    if managed:
        list_ = list_._replace(file=target.file)
    changes = []
    for path in dict.fromkeys((*known, target.file, list_.file)):
        now, kept = text_of(path), known.get(path)
        if now is None:
            continue
        if kept and kept.is_whole and now == kept.after:
            after = kept.before
        elif target.text and path == target.file:
            after = None if any(lines_in(now, path)) else now
        elif path == list_.file or path.endswith(".json"):
            after = _without_ours(now, path, list_, kept)
        else:
            after = now
            notes.append(f"{path} has been changed since, and stays")
        if after != now:
            changes.append(Change(path, now, after))
    made = {directory for kept in known.values() for directory in kept.made}
    return InstallPlan(tuple(changes), (), tuple(notes), tuple(sorted(made, key=len, reverse=True)))


def name_of(agent: str, managed: bool) -> str:
    """What an installation is remembered by."""
    return f"{agent}-managed" if managed else agent


PINNED = "[features]\nhooks = true\n"


def _with_pinned_feature(notes: list[str]) -> Change | None:
    """Codex's users can switch hooks off, unless the administrator's requirements say otherwise."""
    import tomllib

    before = read_text(REQUIREMENTS)
    try:
        features = tomllib.loads(before or "").get("features", {})
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"is no TOML: {error}", where=REQUIREMENTS) from None
    if before is None or before == PINNED:
        return Change(REQUIREMENTS, before, PINNED)
    if features.get("hooks") is not True:
        notes.append(f"users can switch hooks off: set `hooks = true` in `[features]` of {REQUIREMENTS}")
    return None


def _with_hooks(target: AgentSetup) -> Change:
    before = read_text(target.file)
    if target.text:
        return Change(target.file, before, target.text)
    text = before or ""
    wanted = {(entry.path, _frozen(entry.value)) for entry in target.entries}
    if _ours(text, target.file) != wanted:
        text = _without_hooks(text, target.file) if text else text
        for entry in target.entries:
            text = with_value(text, entry.path, entry.value, target.file)
        for name, value in target.members.items():
            text = with_member(text, name, value, target.file)
    return Change(target.file, before, text)


def _ours(text: str, file: str) -> set[tuple[tuple[str, ...], str]]:
    return {
        (path[:-1], _frozen(value)) for path, value in _entries(parse(text, file).value) if is_ours(value)
    }


def _entries(whole: object) -> list[tuple[tuple[str, ...], object]]:
    """Every element of every list of hooks and rules, with its path (the index last, as text)."""
    top = whole if isinstance(whole, dict) else {}
    events = [
        ((table, name), values)
        for table in ("hooks", RULES[0])
        if isinstance(members := top.get(table), dict)
        for name, values in members.items()
    ]
    return [
        ((*path, str(index)), value)
        for path, values in (*events, *(((event,), values) for event, values in top.items()))
        if isinstance(values, list)
        for index, value in enumerate(values)
    ]


def _frozen(value: object) -> str:
    import json

    return json.dumps(value, sort_keys=True)


def _without_hooks(text: str, file: str) -> str:
    """The text without our entries, and without the lists that held nothing else."""
    while ours := [path for path, value in _entries(parse(text, file).value) if is_ours(value)]:
        *above, event, index = ours[-1]
        table = parse(text).value
        for name in above:
            table = table[name]
        if len(table[event]) > 1:
            text = without(text, (*above, event, int(index)))
        elif len(table) > 1 or not above:
            text = without(text, (*above, event))
        else:
            text = without(text, tuple(above))
    return text


def _with_commands(target: AgentSetup, notes: list[str]) -> list[Change]:
    """The slash commands and rules; where a person has a file of that name, it is not ours to change."""
    found, names = list[Change](), list[str]()
    for command in target.commands:
        before = read_text(command.file)
        if before is None or "(pinfold)" in before:
            found.append(Change(command.file, before, slash_command(command.file)))
            names.append(command.name)
        else:
            notes.append(f"{command.file} is yours, so {command.name} stays as it is")
    for path, text in target.rules.items():
        before = read_text(path)
        if before is None or "(pinfold)" in before:
            found.append(Change(path, before, text))
        else:
            notes.append(f"{path} is yours and stays, so the agent asks about each line by itself")
    if names:
        notes.insert(0, f"type {' or '.join(names)} there to see or change the sandbox")
    return found


TEXT = """\
The person wants to see or to change the sandbox that your commands run in (pinfold). They wrote:
"{arguments}"

- Nothing: run `pinfold status`, then `pinfold exclude list`, and show what they print.
- `add COMMAND`: run `pinfold exclude add 'COMMAND'`, which lets that command run outside the sandbox.
- `remove COMMAND`: run `pinfold exclude remove 'COMMAND'`.
- `rules`: run `pinfold rules list`.

Run each alone, spelled just like this, and nothing else. They are asked about every change; a no is a no.
"""
ABOUT = "See or change the sandbox that commands run in (pinfold)"
USAGE = "[add COMMAND | remove COMMAND | rules]"


def slash_command(path: str) -> str:
    """The file's text, in the manner that its name asks for."""
    if path.endswith(".toml"):
        body = TEXT.format(arguments="{{args}}")
        return f'description = "{ABOUT}"\nprompt = """\n{_escaped(body)}"""\n'
    if path.endswith(".prompt.md"):
        return f"---\ndescription: {ABOUT}\nagent: agent\n---\n{TEXT.format(arguments='${input:change}')}"
    return f"---\ndescription: {ABOUT}\nargument-hint: '{USAGE}'\n---\n{TEXT.format(arguments='$ARGUMENTS')}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def apply_install(name: str, plan: InstallPlan, environ: Mapping[str, str]) -> None:
    keep(name, plan.kept, environ)
    _apply(plan.changes)


def apply_uninstall(name: str, plan: InstallPlan, environ: Mapping[str, str]) -> None:
    _apply(plan.changes)
    for directory in plan.directories:
        with suppress(OSError):  # it is not empty, or it has gone
            os.rmdir(directory)
    forget(name, environ)


def _apply(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.after is None:
            with suppress(FileNotFoundError):
                os.unlink(change.path)
            continue
        with locked(change.path):
            if text_of(change.path) != change.before:
                raise PolicyError("has been changed meanwhile", where=change.path, help="try again")
            write_text(change.path, change.after)
