"""Files that git's configuration makes it run or include, where commands could write them.

Facts about git (git-config(1), githooks(5), config.c, run-command.c):
- Configuration is the system's, the user's, the repository's and the worktree's, each with what it includes.
  An include is relative to the file that names it; `includeIf` depends on what commands change (the branch).
- Hooks, drivers, aliases and helpers run in the top of the working tree, so relative paths begin there; of a
  bare repository, in itself. The user's own configuration holds in each repository.
- A value that runs something is a shell's text or a program's path. A program without a slash is looked for
  in PATH.

What this means for us: an include counts whether or not its condition holds now. Of a text, its programs
count, the scripts that interpreters get, and every path of an executable file; a directory that it only
mentions does not. A relative path in the user's own configuration also holds in repositories that a command
makes later. So it is a name at any depth; of a hooks' directory, the names of hooks in it.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from pinfold.model.git_files import LARGEST, parse_config
from pinfold.model.home import expanded
from pinfold.model.symlinks import links_and_target, real_path
from pinfold.policy.paths import is_covered
from pinfold.settings.files import mark
from pinfold.workspace.git_programs import RUNNING_KEYS
from pinfold.workspace.repository import Repository, read_bytes

DIRECTORIES = ("core.hookspath", "init.templatedir")
FILES = ("core.attributesfile",)
INCLUDES = ("include.path", "includeif.*.path")
NOTHING_RUN = ("url.*", "protocol.*", "mailmap.*", "blame.*", "core.worktree", "diff.orderfile")
TELLING = re.compile(
    rb"path|file|templatedir|alias|fsmonitor|pager|editor|askpass|command|proxy|external|textconv|driver|clean"
    rb"|smudge|process|program|helper|hook|cmd|vcs|uploadpack|receivepack|tunnel|sendemail|update|filter|httpd",
    re.IGNORECASE,
)
"""A part of every key that counts: no key can be written without it, and most configurations have none."""
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "commit-msg"),
    *("prepare-commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "update"),
    *("pre-receive", "proc-receive", "post-receive", "post-update", "reference-transaction", "pre-auto-gc"),
    *("push-to-checkout", "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)
"""Where the whole directory cannot be closed, since the project lies in it."""
ANYWHERE = "/any working tree"
"""A placeholder for the top of each; no such path exists."""
HOME = re.compile(r"\$\{?HOME\}?/")
TOP = re.compile(r"(?:\$\([^()]*\)|`[^`]*`|\$\{[^{}]*\}|\$\w+)/*(?=[\w.])")
"""Something that is filled in, before the rest of a path: as a rule the top of the working tree."""
QUOTED = re.compile(r"(?<![^\s=;&|({])(?:\"([^\"]*)\"|'([^']*)')(?![^\s;&|)}])")
FIRST_QUOTED = re.compile(r"""\s*(["'])((?=[^"']* )[^"'$`]*/[^"'$`]*)\1""")
"""A program with a blank in its path, at the beginning."""
CHANGE = re.compile(r"^cd\s+(?:--\s+)?([^\s;&|]+)$")
COMMANDS = re.compile(r"[;&|(){}`\n<>]|\$\(")
WORDS = re.compile(r"[\s\"',]+")
BLANK = "\0"
"""A placeholder for a blank in the path of a working tree, while a text is split."""
PASSING_ON = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "node", "nodejs", "deno", "bun", "ruby", "perl", "php", "lua", "tsx")
) | frozenset(
    ("env", "exec", "command", "nice", "nohup", "time", "sudo", "source", ".", "!", "run", "npx", "uv")
)
WRAPPERS = frozenset(("timeout", "ionice", "stdbuf", "setsid", "chrt", "taskset", "doas", "flock"))
NUMBER = re.compile(r"[0-9.]+[smhd]?")
"""A wrapper's operand before the program: `nice -n 5 ./x`, `timeout 10s ./x`."""
PYTHON = re.compile(r"python[0-9.]*")
MOST_FILES = 100
"""Of one repository's configuration; git itself follows includes ten deep."""
SYSTEM = ("/etc/gitconfig", "/usr/local/etc/gitconfig")
Settings = tuple[tuple[str, str], ...]


class GitPlaces:
    """Remembers what configuration says, as long as its files are the same."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self._home = home
        self._own = _own_files(home, environ)
        self._known: dict[str, tuple[object, Settings]] = {}

    def of(self, repositories: Iterable[Repository], tops: tuple[str, ...]) -> dict[str, str]:
        """Places in `tops`, whether or not anything is there, and why they are closed."""
        found: dict[str, str] = {}
        for repository in repositories:
            files = (os.path.join(place, name) for place in {repository.common, repository.directory}
                     for name in ("config", "config.worktree"))  # fmt: skip
            seen: set[str] = set()
            for file in (*self._own, *files):
                for place, key in self._in(file, repository.top, seen):
                    for path in {os.path.normpath(place), real_path(place)}:
                        for each in _closable(path, tops):
                            found.setdefault(each, _why(file, key))
        return {**self._of_user(tops), **found}

    def of_user_in(self, top: str) -> Iterator[str]:
        """Keys of the user's own configuration that make git run or include what lies in a working tree."""
        seen: set[str] = set()
        for file in self._own:
            for place, key in self._in(file, top, seen):
                if is_covered(real_path(place), (top,)) and os.path.exists(place):
                    yield key

    def _of_user(self, tops: tuple[str, ...]) -> dict[str, str]:
        """The user's own files where they lie in `tops`, and what they name in whichever working tree."""
        found: dict[str, str] = {}
        seen: set[str] = set()
        for file in self._own:
            for place in (each for each in links_and_target(file) if is_covered(each, tops)):
                found.setdefault(place, f"it is your configuration of git ({file})")
            for place, key in self._in(file, ANYWHERE, seen):
                name = os.path.normpath(place).removeprefix(ANYWHERE)
                for each in _names_in(name, key) if name != os.path.normpath(place) else ():
                    found.setdefault(each, _why(file, key))
        return found

    def _in(self, file: str, top: str, seen: set[str]) -> Iterator[tuple[str, str]]:
        """Places that a configuration file names, and by which key. Files may include each other."""
        if (place := real_path(file)) in seen or len(seen) >= MOST_FILES:
            return
        seen.add(place)
        for key, value in self._settings(file):
            if _is_one_of(key, INCLUDES):
                included = os.path.join(os.path.dirname(file), expanded(value, self._home))
                yield included, key
                yield from self._in(included, top, seen)
            elif key in DIRECTORIES or key in FILES:
                yield os.path.join(top, expanded(value, self._home)), key
            elif _is_one_of(key, RUNNING_KEYS) and not _is_one_of(key, NOTHING_RUN):
                yield from ((path, key) for path in _programs(value, top, self._home))

    def _settings(self, file: str) -> Settings:
        now = mark(file)
        known = self._known.get(file)
        if known is None or known[0] != now:
            known = self._known[file] = now, _read(file) if now else ()
        return known[1]


def _own_files(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The system's and the user's. A variable may be set in one process only, or by a file of the project: so
    those that it takes the place of count, too."""
    further = (os.path.join(home, ".config"), environ.get("XDG_CONFIG_HOME", ""))
    usual = (*(os.path.join(each, "git", "config") for each in further if each), f"{home}/.gitconfig")
    named = (environ.get(name, "") for name in ("GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"))
    return tuple(dict.fromkeys((*SYSTEM, *usual, *filter(None, named))))


def _read(file: str) -> Settings:
    data = read_bytes(file, LARGEST) or b""
    if not TELLING.search(data):
        return ()
    # Git goes on where `parse_config` would not.
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b" ").replace(b"\0", b"")
    found = []
    try:
        for setting in parse_config(data):
            found.append(setting)  # noqa: PERF402  (what comes before an error counts)
    except ValueError:
        pass
    return tuple(found)


def _is_one_of(key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def _programs(text: str, top: str, home: str) -> Iterator[str]:
    """Files that a value runs, as far as it names them by a path."""
    text = HOME.sub("~/", text.removeprefix("!"))
    paths = [path for pair in QUOTED.findall(text) for path in pair if " " in path]
    yield from (path for each in paths if _mode(path := os.path.join(top, expanded(each, home))) & 0o111)
    if (first := FIRST_QUOTED.match(text)) and not _mode(path := os.path.join(top, expanded(first[2], home))):
        yield path
        text = text[first.end() :]
    place = top
    plain = HOME.sub("~/", text.replace('"', ""))
    for command in COMMANDS.split(TOP.sub(f"{top}/".replace(" ", BLANK), plain)):
        if moved := CHANGE.match(command.strip()):
            place = os.path.join(place, expanded(moved[1].replace(BLANK, " "), home))
            continue
        for where in dict.fromkeys((place, top)):
            yield from _programs_of(command, where, home)


def _programs_of(command: str, top: str, home: str) -> Iterator[str]:
    is_program, is_script = True, False
    for word in filter(None, WORDS.split(command)):
        name, is_set, value = word.replace(BLANK, " ").rpartition("=")
        path = os.path.join(top, expanded(value, home))
        mode = _mode(path)
        may_be_made = not mode and ("/" in value or (is_script and "." in value))
        is_started = is_program or is_script or bool(is_set)
        is_run = stat.S_ISREG(mode) and (is_started or bool(mode & 0o111))
        if is_run or (may_be_made and is_started):
            yield path
        if not (is_set or name or word.startswith(("-", "%", "$")) or NUMBER.fullmatch(word)):
            passes_on = word in PASSING_ON or word in WRAPPERS or PYTHON.fullmatch(word) is not None
            is_program, is_script = is_program and passes_on, passes_on


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def _why(file: str, key: str) -> str:
    return f"git obeys it, by `{key}` of its configuration ({file})"


def _names_in(name: str, key: str) -> tuple[str, ...]:
    """A relative path that holds in any working tree, as names at any depth."""
    inside = name.strip("/")
    return tuple(os.path.join(inside, hook) for hook in HOOKS) if key == "core.hookspath" else (inside,)


def _closable(path: str, tops: tuple[str, ...]) -> tuple[str, ...]:
    """What of it lies where commands write, and can be closed without closing all of a project."""
    if any(is_covered(top, (path,)) for top in tops):
        hooks = (os.path.join(path, name) for name in HOOKS)
        return tuple(hook for hook in hooks if is_covered(hook, tops) and hook not in tops)
    return (path,) if is_covered(path, tops) else ()
