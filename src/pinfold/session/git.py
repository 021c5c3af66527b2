"""Which programs a repository's own configuration would make git run.

An allowlist that says `git status` means git's own work. A repository can make git run something
else on the way, and whoever wrote the repository is not who wrote the allowlist.

Facts about git (git-config(1), githooks(5)):
- A repository is found by walking up to a `.git` directory, a `.git` file with `gitdir: PATH`, or a
  directory that looks bare (HEAD, objects and refs); a linked worktree's `commondir` names the
  directory that holds `config`.
- Section and key names are case-insensitive; `include.path` pulls in any other file.
- `post-index-change` runs when `git status` refreshes the index.
"""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase

from pinfold.model.errors import PinfoldError

RUNNING_KEYS = (
    "alias.*",
    "browser.*.cmd",
    "browser.*.path",
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.pager",
    "core.sshcommand",
    "core.worktree",
    "credential.helper",
    "credential.*.helper",
    "diff.external",
    "diff.*.command",
    "diff.*.textconv",
    "difftool.*",
    "filter.*.clean",
    "filter.*.process",
    "filter.*.smudge",
    "gpg.program",
    "gpg.*.program",
    "gpg.*.defaultkeycommand",
    "hook.*",
    "include.path",
    "includeif.*",
    "interactive.difffilter",
    "man.*.cmd",
    "man.*.path",
    "merge.*.driver",
    "mergetool.*",
    "pager.*",
    "protocol.*",
    "remote.*.receivepack",
    "remote.*.uploadpack",
    "remote.*.vcs",
    "sendemail.*",
    "sequence.editor",
    "submodule.*.update",
    "trailer.*.cmd",
    "trailer.*.command",
    "uploadpack.packobjectshook",
    "url.*",
)
HARMLESS_VALUES = {"core.fsmonitor": ("true", "false", ""), "core.pager": ("cat", "less")}
HOOKS_OF_READING = ("post-index-change", "reference-transaction")
LARGEST_CONFIG = 1_000_000


def git_helpers(directory: str) -> tuple[str, ...]:
    """What the configuration of the repository around `directory` would make git run."""
    repository = find_repository(directory)
    if repository is None:
        return ()
    found: list[str] = []
    for name in ("config", "config.worktree"):
        for place in dict.fromkeys((repository, _common_directory(repository))):
            found.extend(_running_keys(os.path.join(place, name)))
    hooks = os.path.join(_common_directory(repository), "hooks")
    found += [f"hooks/{hook}" for hook in HOOKS_OF_READING if os.access(os.path.join(hooks, hook), os.X_OK)]
    return tuple(dict.fromkeys(found))


def find_repository(directory: str) -> str | None:
    """The git directory that git would use in `directory`."""
    while True:
        entry = os.path.join(directory, ".git")
        if os.path.isdir(entry):
            return entry
        if os.path.isfile(entry):
            return _follow(entry, directory)
        if all(os.path.exists(os.path.join(directory, name)) for name in ("HEAD", "objects", "refs")):
            return directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _follow(pointer: str, directory: str) -> str | None:
    text = _text(pointer).strip()
    return (
        os.path.join(directory, text.removeprefix("gitdir:").strip()) if text.startswith("gitdir:") else None
    )


def _common_directory(repository: str) -> str:
    common = _text(os.path.join(repository, "commondir")).strip()
    return os.path.normpath(os.path.join(repository, common)) if common else repository


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(LARGEST_CONFIG)
    except OSError:
        return ""


def _running_keys(path: str) -> Iterator[str]:
    if os.path.exists(path) and not os.access(path, os.R_OK):
        raise PinfoldError(f"{path}: cannot be read, so what git would run is not known; check its mode")
    for key, value in parse_config(_text(path)):
        if value in HARMLESS_VALUES.get(key, ()):
            continue
        if any(fnmatchcase(key, pattern) for pattern in RUNNING_KEYS):
            yield key


def parse_config(text: str) -> Iterator[tuple[str, str]]:
    """(`section.subsection.key`, value) for each setting of a git configuration, names in lower case."""
    section = ""
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        stripped = line.strip()
        while stripped.startswith("["):
            head, _, stripped = _section_end(stripped)
            section = _section_name(head)
            stripped = stripped.strip()
        if not stripped or stripped[0] in "#;":
            continue
        while stripped.endswith("\\"):
            stripped = stripped[:-1] + next(lines, "")
        key, equals, value = stripped.partition("=")
        yield f"{section}.{key.strip().lower()}", value.strip().strip('"') if equals else "true"


def _section_end(text: str) -> tuple[str, str, str]:
    quoted = False
    for position, character in enumerate(text):
        if character == '"' and text[position - 1] != "\\":
            quoted = not quoted
        elif character == "]" and not quoted:
            return text[1:position], "]", text[position + 1 :]
    return text[1:], "", ""


def _section_name(head: str) -> str:
    name, _, rest = head.partition(" ")
    subsection = rest.strip().strip('"')
    return f"{name.lower()}.{subsection}" if subsection else name.lower()
