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
from typing import NamedTuple

from pinfold.settings.files import read_text

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


class Repository(NamedTuple):
    top: str
    """The working tree's top directory; a bare repository's own."""
    directory: str
    """The git directory of this working tree."""
    common: str
    """The git directory that linked worktrees share: config, hooks, info."""


def git_helpers(directory: str) -> tuple[str, ...]:
    """What the configuration of the repository around `directory` would make git run."""
    found = find_repository(directory)
    if found is None:
        return ()
    places = dict.fromkeys((found.directory, found.common))
    files = [os.path.join(place, name) for name in ("config", "config.worktree") for place in places]
    keys = [key for file in files for key in _running_keys(file)]
    hooks = os.path.join(found.common, "hooks")
    keys += [f"hooks/{hook}" for hook in HOOKS_OF_READING if os.access(os.path.join(hooks, hook), os.X_OK)]
    return tuple(dict.fromkeys(keys))


def find_repository(directory: str) -> Repository | None:
    """The repository that git would use in `directory`."""
    while True:
        entry = os.path.join(directory, ".git")
        if os.path.isdir(entry):
            return _repository(directory, entry)
        if os.path.isfile(entry):
            text = (read_text(entry) or "").strip()
            at = os.path.join(directory, text.removeprefix("gitdir:").strip())
            return _repository(directory, at) if text.startswith("gitdir:") else None
        if all(os.path.exists(os.path.join(directory, name)) for name in ("HEAD", "objects", "refs")):
            return _repository(directory, directory)
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _repository(top: str, directory: str) -> Repository:
    common = (read_text(os.path.join(directory, "commondir")) or "").strip()
    return Repository(
        top, directory, os.path.normpath(os.path.join(directory, common)) if common else directory
    )


def _running_keys(path: str) -> Iterator[str]:
    for key, value in parse_config(read_text(path) or ""):
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
