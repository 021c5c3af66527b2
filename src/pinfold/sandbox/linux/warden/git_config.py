"""Decides whether a git configuration that a command wrote may replace the old one. Pure, except for one
check: where the first remote of a clone leads.

Git runs programs that its configuration names, in a hundred ways, and learns new ones with every release. So
this module does not list harmful settings: `HARMLESS` lists what is known to be harmless. Everything else
must be in the new file exactly as in the old one, in the same order. So a command can neither add nor change
nor remove what a person configured (an alias, a filter, a hooksPath that leads nowhere).

Facts about the values (git-config(1), transport.c, connect.c):
- A URL `x::y` runs `git-remote-x`, and so does `x://` for a scheme that git does not know. `branch.*.remote`
  and `pushremote` may be URLs too. Once, ssh took a host that begins with `-` as an option.
- A push to a path runs the hooks of the repository there, which may have come with a project's files.
- `submodule.*.update` may be `!command`.
- `core.fsmonitor` is a program unless it is a boolean, and `true` starts a daemon that stays.
- Of `extensions.*`, `partialclone` makes git fetch by itself; `remote.*.promisor` does so too.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator

from pinfold.model.git_files import LARGEST, parse_config

Check = Callable[[str], bool]

SCHEMES = ("https", "http", "ssh", "git", "file", "git+ssh", "ssh+git")


_PUSHED = re.compile(
    r"remote\.pushdefault|remote\..*\.(url|pushurl)|branch\..*\.(remote|pushremote)", re.DOTALL
)
_NAMED = re.compile(r"remote\..*\.url", re.DOTALL)


def _plain(value: str) -> bool:
    """Words for git itself: nothing that looks like an option, a command or an extra line."""
    return value.isprintable() and not value.startswith(("-", "!"))


def _one_of(*values: str) -> Check:
    return lambda value: value.lower() in values


def _where(value: str) -> bool:
    """Whether a value is a URL that git reads without a helper, or a path."""
    scheme, found, rest = value.partition("://")
    if found:
        address = rest.rpartition("@")[2] if "@" in rest.partition("/")[0] else rest
        known = scheme.lower() in SCHEMES and not address.startswith("-") and not rest.startswith("-")
        return known and _plain(value)
    return _plain(value) and "::" not in value and not value.rpartition("@")[2].startswith("-")


def _refspec(value: str) -> bool:
    return re.fullmatch(r"\+?\^?[\w./*@{}-]*(:[\w./*@{}-]*)?", value) is not None and _plain(value)


_boolean = _one_of("true", "false", "yes", "no", "on", "off", "0", "1", "")

HARMLESS: dict[str, dict[str, Check]] = {
    "core": {
        "repositoryformatversion": _one_of("0", "1"),
        **dict.fromkeys(
            ("filemode", "bare", "symlinks", "ignorecase", "precomposeunicode", "quotepath", "preloadindex",
             "sparsecheckout", "sparsecheckoutcone", "commitgraph", "multipackindex"), _boolean
        ),
        **dict.fromkeys(
            ("logallrefupdates", "autocrlf", "eol", "safecrlf", "abbrev", "untrackedcache", "compression",
             "loosecompression", "bigfilethreshold", "whitespace"), _plain
        ),
        "fsmonitor": _one_of("false"),
    },
    "extensions": {
        "objectformat": _one_of("sha1", "sha256"),
        "refstorage": _one_of("files", "reftable"),
        "worktreeconfig": _boolean,
    },
    "user": {"name": _plain, "email": _plain, "useconfigonly": _boolean},
    "author": {"name": _plain, "email": _plain},
    "committer": {"name": _plain, "email": _plain},
    "init": {"defaultbranch": _plain},
    "remote": {"pushdefault": _where},
    "remote.*": {
        "url": _where,
        "pushurl": _where,
        "fetch": _refspec,
        "push": _refspec,
        "tagopt": _one_of("--tags", "--no-tags"),
        **dict.fromkeys(("mirror", "prune", "prunetags", "skipdefaultupdate", "skipfetchall"), _boolean),
    },
    "branch": {"autosetupmerge": _plain, "autosetuprebase": _plain, "sort": _plain},
    "branch.*": {
        "remote": _where,
        "pushremote": _where,
        "merge": _refspec,
        "rebase": _plain,
        "description": lambda value: "\0" not in value,
        # Editors record here which branch a branch was made from.
        "vscode-merge-base": _refspec,
        "gh-merge-base": _refspec,
        "github-pr-base-branch": _plain,
    },
    "pull": {"rebase": _plain, "ff": _plain},
    "push": {"default": _plain, "autosetupremote": _boolean, "followtags": _boolean},
    "fetch": {"prune": _boolean, "prunetags": _boolean, "writecommitgraph": _boolean},
    "merge": {"ff": _plain, "conflictstyle": _plain, "renames": _plain, "stat": _boolean, "log": _plain},
    "rebase": {"autosquash": _boolean, "autostash": _boolean, "updaterefs": _boolean, "stat": _boolean},
    "rerere": {"enabled": _boolean, "autoupdate": _boolean},
    "stash": {"showpatch": _boolean, "showstat": _boolean, "showincludeuntracked": _boolean},
    "status": dict.fromkeys(("short", "branch", "showuntrackedfiles", "renames", "aheadbehind"), _plain),
    "diff": dict.fromkeys(
        ("algorithm", "renames", "renamelimit", "colormoved", "mnemonicprefix", "noprefix", "context",
         "submodule", "wordregex", "indentheuristic"), _plain
    ),
    "log": dict.fromkeys(("date", "abbrevcommit", "decorate", "follow", "showroot"), _plain),
    "color": dict.fromkeys(("ui", "branch", "diff", "status", "interactive"), _plain),
    "gc": {"auto": _plain, "autodetach": _boolean, "autopacklimit": _plain},
    "index": {"version": _plain, "threads": _plain},
    "commit": {"verbose": _plain, "cleanup": _plain, "status": _boolean},
    "tag": {"sort": _plain},
    "submodule": {"recurse": _boolean, "active": _plain},
    "submodule.*": {
        "url": _where,
        "active": _boolean,
        "branch": _plain,
        "update": _one_of("checkout", "rebase", "merge", "none"),
    },
    "lfs": {"repositoryformatversion": _one_of("0")},
}  # fmt: skip
"""Settings that git only keeps, compares or prints. `name.*` is a section with a subsection."""


def is_harmless(key: str, value: str) -> bool:
    section, _, rest = key.partition(".")
    subsection, _, name = rest.rpartition(".")
    if section == "advice" and not subsection:
        return _boolean(value)
    check = HARMLESS.get(f"{section}.*" if subsection else section, {}).get(name)
    return check is not None and check(value)


def objection(new: bytes, old: bytes = b"") -> str | None:
    """Why the new configuration may not replace the old one; None if it may."""
    try:
        before, after = _weighty(parse_config(old)), _weighty(parse_config(new))
    except ValueError as error:
        return f"git may read this configuration differently than Pinfold does: {error}"
    for key, value in after:
        if (key, value) not in before:
            return f"`{key}` is not known to be harmless"
    for key, value in before:
        if (key, value) not in after:
            return f"`{key}` would be removed"
    if key := next(_leading_to_hooks([*parse_config(new)], {*parse_config(old)}), ""):
        return f"`{key}` may lead `git push` to a repository of this machine, whose hooks would run"
    return None if before == after else "the order of settings would change"


def _leading_to_hooks(after: list[tuple[str, str]], before: set[tuple[str, str]]) -> Iterator[str]:
    """New settings that make a push go to a path. A repository without a remote may be a fresh clone: its
    first remote may be a path where no hook runs."""
    remotes = {key[len("remote.") : -len(".url")] for key, _ in after if _NAMED.fullmatch(key)}
    is_clone = not any(_PUSHED.fullmatch(key) for key, _ in before)
    for key, value in after:
        is_name = not key.endswith("url") and value in (".", *remotes)
        if (key, value) in before or is_name or not _PUSHED.fullmatch(key) or not (path := _path_of(value)):
            continue
        if not (is_clone and key == "remote.origin.url" and _runs_nothing(path)):
            yield key


def _path_of(value: str) -> str:
    """The path that git takes an address for; empty if it leads to another machine."""
    scheme, found, rest = value.partition("://")
    if found:
        return rest if scheme.lower() == "file" else ""
    return "" if ":" in value.partition("/")[0] else value


def _runs_nothing(path: str) -> bool:
    """Whether a push to the path runs nothing. A relative path starts at git's working directory, so it
    may."""
    if not path.startswith("/"):
        return False
    for place in (f"{path}{end}" for end in ("", "/.git", ".git", ".git/.git")):
        hooks = f"{place}/hooks"
        try:
            names = os.listdir(hooks) if os.path.isdir(hooks) else []
            text = b""
            if os.path.isfile(f"{place}/config"):
                with open(f"{place}/config", "rb") as file:
                    text = file.read(LARGEST)
            harmless = all(is_harmless(*setting) for setting in parse_config(text))
        except (OSError, ValueError):
            return False
        if not harmless or any(not name.endswith(".sample") for name in names):
            return False
    return True


def _weighty(settings: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [setting for setting in settings if not is_harmless(*setting)]
