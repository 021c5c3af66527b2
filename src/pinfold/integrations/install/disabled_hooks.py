"""What switches an agent's hooks off, in a project's, the user's or the administrator's settings for it.

Facts:
- Claude Code (2.1): `disableAllHooks` in the administrator's settings ends all hooks; elsewhere all but the
  administrator's, and the nearest file that has the key decides. `allowManagedHooksOnly` counts in the
  administrator's settings alone. A newer one blocks where a hook is late (`onFailure`).
- Codex (0.169; codex-rs, hooks/src/engine/discovery.rs): `features.hooks` switches all off, and the
  administrator's requirements decide about it last. A hook of the user runs once it is trusted: its hash is
  in `hooks.state` of the user's own configuration, under the file, the event and the hook's place in it.
- Gemini CLI (0.61): `hooksConfig.enabled` switches all off, `hooksConfig.disabled` those of a name. In a
  folder that is not trusted no hook runs.
- Droid (0.215; its source): `hooksDisabled` in a file of hooks. Qwen Code (its hooks page):
  `disableAllHooks`.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from pinfold.integrations.install.agents import MANAGED, REQUIREMENTS, is_ours, target_of
from pinfold.integrations.install.jsonc import parse
from pinfold.isolated import program_outside
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import quoted
from pinfold.settings.files import read_text

SYSTEM = "/etc/codex/config.toml"
BLOCKS_LATE = (2, 1, 295)
"""The first Claude Code that takes a late hook for a no."""
UPDATE = "claude update"


class HookTrouble(NamedTuple):
    """Why an agent does not ask its hooks, or not always."""

    message: str
    fix: str = ""
    """A command."""
    is_off: bool = True


def trouble_of(
    agent: str, environ: Mapping[str, str], projects: Sequence[str], is_managed: bool
) -> HookTrouble | None:
    """`is_managed`: our hooks are among the administrator's."""
    found = _OF.get(agent)
    return next(found(environ, projects, is_managed), None) if found else None


def _claude(environ: Mapping[str, str], projects: Sequence[str], is_managed: bool) -> Iterator[HookTrouble]:
    managed = {path: _json(path) for path in _managed_files()}
    for path, data in managed.items():
        if data.get("disableAllHooks") is True:
            yield _switched_off("disableAllHooks", path)
        if data.get("allowManagedHooksOnly") is True and not is_managed:
            yield HookTrouble(
                f"`allowManagedHooksOnly` in {path} switches them off",
                "sudo pinfold install --managed claude-code",
            )
    names = ("settings.local.json", "settings.json")
    files = [os.path.join(project, ".claude", name) for project in projects for name in names]
    for path in (*files, target_of("claude-code", environ).file):
        value = _json(path).get("disableAllHooks")
        if value is True and not is_managed:
            yield _switched_off("disableAllHooks", path)
        if value is not None:
            break
    version = _claude_version(environ, projects)
    if version and version < BLOCKS_LATE:
        written, wanted = (".".join(map(str, each)) for each in (version, BLOCKS_LATE))
        yield HookTrouble(
            f"Claude Code {written} lets a call pass if its hook is late; {wanted} and later block it",
            UPDATE,
            is_off=False,
        )


def _managed_files() -> list[str]:
    first = MANAGED["claude-code"]
    directory = os.path.join(os.path.dirname(first), "managed-settings.d")
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    except OSError:
        names = []
    return [first, *(os.path.join(directory, name) for name in names)]


def _claude_version(environ: Mapping[str, str], projects: Sequence[str]) -> tuple[int, ...]:
    """Of the program, by where it lies; empty if that does not tell."""
    named = environ.get("CLAUDE_CODE_EXECPATH") or program_outside("claude", environ, tuple(projects))
    path = os.path.realpath(named) if named else ""
    if found := re.search(r"/versions/(\d+\.\d+\.\d+)(/|$)", path):
        return tuple(map(int, found[1].split(".")))
    for _ in range(3):
        path = os.path.dirname(path)
        data = _json(os.path.join(path, "package.json")) if path else {}
        version = str(data.get("version", ""))
        if "claude-code" in str(data.get("name")) and re.fullmatch(r"\d+\.\d+\.\d+", version):
            return tuple(map(int, version.split(".")))
    return ()


def _codex(environ: Mapping[str, str], projects: Sequence[str], is_managed: bool) -> Iterator[HookTrouble]:
    file = target_of("codex", environ).file
    config = os.path.join(os.path.dirname(file), "config.toml")
    required, users = _toml(REQUIREMENTS), _toml(config)
    places = [os.path.join(project, ".codex", "config.toml") for project in projects]
    for path in (REQUIREMENTS, *places, config, SYSTEM):
        features = _table(_toml(path).get("features"))
        key = next((each for each in ("hooks", "codex_hooks") if each in features), "")
        if key and features[key] is False:
            yield _switched_off(f"features.{key}", path)
        if key:
            break
    if is_managed:
        return
    if required.get("allow_managed_hooks_only") is True:
        yield HookTrouble(
            f"`allow_managed_hooks_only` in {REQUIREMENTS} switches them off",
            "sudo pinfold install --managed codex",
        )
    state = _table(_table(users.get("hooks")).get("state"))
    for event, names, wanted in _codex_hooks(file):
        known = _table(next((state[each] for each in names if each in state), None))
        if known.get("enabled") is False:
            yield HookTrouble(
                f"the {event} hook is switched off in Codex; switch it on: type /hooks", "codex"
            )
        if known.get("trusted_hash") != wanted:
            again = "any more" if known.get("trusted_hash") else "yet"
            yield HookTrouble(
                f"Codex does not trust the {event} hook {again}, and does not ask it; "
                "start it and say yes, or type /hooks",
                "codex",
            )


def _codex_hooks(file: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Each event that we have a hook for, the keys that its trust may be under, and the trusted hash."""
    for event, groups in _table(_json(file).get("hooks")).items():
        label = re.sub("(?<!^)([A-Z])", r"_\1", str(event)).lower()
        for place, group in enumerate(groups if isinstance(groups, list) else ()):
            for number, hook in enumerate(_table(group).get("hooks") or ()):
                if is_ours(hook):
                    paths = dict.fromkeys((file, os.path.realpath(file)))
                    keys = tuple(f"{path}:{label}:{place}:{number}" for path in paths)
                    yield event, keys, codex_hash(label, group.get("matcher"), hook)


def codex_hash(event: str, matcher: object, hook: Mapping[str, Any]) -> str:
    """The hash by which Codex knows a hook that a person has trusted."""
    handler = {
        "type": "command",
        "command": hook.get("command"),
        "timeout": hook.get("timeout", 600),
        "async": bool(hook.get("async")),
    }
    known: dict[str, object] = {"event_name": event, "hooks": [handler]}
    if matcher is not None:
        known["matcher"] = matcher
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _gemini(environ: Mapping[str, str], projects: Sequence[str], _: bool) -> Iterator[HookTrouble]:
    system = environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or MANAGED["gemini"]
    user = target_of("gemini", environ).file
    files = (system, *(os.path.join(project, ".gemini", "settings.json") for project in projects), user)
    is_known = False
    for path in files:
        config = _table(_json(path).get("hooksConfig"))
        if config.get("enabled") is False and not is_known:
            yield _switched_off("hooksConfig.enabled = false", path)
        is_known = is_known or "enabled" in config
        if "pinfold" in (config.get("disabled") or ()):
            yield HookTrouble(f"`hooksConfig.disabled` in {path} names them", "gemini hooks enable pinfold")
    for project in projects:
        if not _gemini_trusts(project, user, files, environ):
            yield HookTrouble(
                f"Gemini CLI runs no hooks in {project} until you trust that folder: type /permissions there",
                f"cd {quoted(project)} && gemini",
            )


def _gemini_trusts(project: str, user: str, files: Sequence[str], environ: Mapping[str, str]) -> bool:
    if environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
        return True
    for path in files:
        trust = _table(_table(_json(path).get("security")).get("folderTrust"))
        if "enabled" in trust and path not in (os.path.join(project, ".gemini", "settings.json"),):
            if trust["enabled"] is False:
                return True
            break
    named = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    folders = _json(named or os.path.join(os.path.dirname(user), "trustedFolders.json"))
    place, best = os.path.realpath(project), ""
    trusted = False
    for folder, word in folders.items():
        real = os.path.realpath(folder)
        real = os.path.dirname(real) if word == "TRUST_PARENT" else real
        if f"{place}/".startswith(f"{real.rstrip('/')}/") and len(real) >= len(best):
            best, trusted = real, word != "DO_NOT_TRUST"
    return trusted


def _key(agent: str, directory: str, name: str, key: str) -> Callable[..., Iterator[HookTrouble]]:
    """Of an agent that has one key for it, in a project's file or the user's."""

    def trouble(environ: Mapping[str, str], projects: Sequence[str], _: bool) -> Iterator[HookTrouble]:
        files = [os.path.join(project, directory, name) for project in projects]
        for path in (*files, os.path.join(os.path.dirname(target_of(agent, environ).file), name)):
            if _json(path).get(key) is True:
                yield _switched_off(key, path)

    return trouble


_OF = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "droid": _key("droid", ".factory", "hooks.json", "hooksDisabled"),
    "qwen": _key("qwen", ".qwen", "settings.json", "disableAllHooks"),
}


def _switched_off(key: str, path: str) -> HookTrouble:
    return HookTrouble(f"`{key}` in {path} switches them off", f"${{EDITOR:-vi}} {quoted(path)}")


def _json(path: str) -> Mapping[str, Any]:
    """Empty where there is nothing, or what the agent could not read either."""
    try:
        text = read_text(path)
        return _table(parse(text, path).value) if text else {}
    except PolicyError:
        return {}


def _toml(path: str) -> Mapping[str, Any]:
    import tomllib  # here: few agents have such files

    try:
        return tomllib.loads(read_text(path) or "")
    except (PolicyError, tomllib.TOMLDecodeError):
        return {}


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
