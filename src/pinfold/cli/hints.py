"""Why a command may have failed, where the kernel reported no violation.

A guess by the words of the command, printed only after it failed. No decision depends on it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise
from stat import S_IWGRP, S_IWOTH

from pinfold.model.decision import Decision
from pinfold.model.escape_text import visible
from pinfold.model.symlinks import real_path
from pinfold.policy.hidden_paths import HiddenTree, hidden_by
from pinfold.policy.paths import is_covered

AGENT = "SSH_AUTH_SOCK"
OF_AGENT = ("ssh", "ssh-add", "ssh-copy-id", "scp", "sftp")
"""Programs that use the agent's socket."""
LENDING = f"the sandbox cannot reach the ssh agent; to allow it, add `${AGENT}` to `network.unix_sockets`"
MAVEN, GRADLE = "~/.m2/settings.xml", "~/.gradle/gradle.properties"
NUGET = "~/.nuget/NuGet/NuGet.Config"
STOPPED_BY = {
    **dict.fromkeys(("mvn", "mvnw", "mvnd"), MAVEN),
    **dict.fromkeys(("gradle", "gradlew"), GRADLE),
    **dict.fromkeys(("dotnet", "nuget"), NUGET),
}
"""Programs that exit if a file of theirs exists and cannot be read. Bundler is not one of them: a hidden file
looks empty, which it takes for none."""
OUTSIDE = (("worktree", "remove"), ("worktree", "move"))
SEPARATE = "--separate-git-dir"
"""What git cannot do to a project in the sandbox, even after a yes (docs/sandbox.md). The last makes a
repository in a directory that is not called `.git`."""
EXPLAINED = "`pinfold explain --path PATH` shows the rule"
MOST_WALKED = 5_000
"""Directories: a hint is worth some tenths of a second at most."""
RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive")
OF_MODE = ("chmod", "install")
SETUID = re.compile(
    r"(-m|--mode=)?(0*[4-7][0-7]{3}|([ugoa]*[-+=][rwxXst]*,)*([go]*[ua][ugoa]*)?[+=][rwxXt]*s.*)"
)
AS_OWNER = "setuid bits cannot be set in the sandbox; run this command outside it"


CANNOT_FORK = 254
"""Exit code of bash where it cannot fork; no other program uses it by custom."""


def hopeless(decision: Decision) -> str:
    """What no answer and no setting can allow in the sandbox; empty if the command is not known to be of that
    kind."""
    for name, argv in _named(decision):
        if name == "git" and (words := _of_git_outside(argv)):
            return f"`git {words}` cannot work on a project in the sandbox; run it outside"
        if name in OF_MODE and _sets_uid(argv[1:]):
            return AS_OWNER
    return ""


def hint(decision: Decision, code: int, environ: Mapping[str, str], cwd: str, roots: tuple[str, ...]) -> str:
    """A likely reason why a command failed in the sandbox; empty if none is known."""
    most = decision.policy.limits.processes
    if code == CANNOT_FORK and decision.sandboxed and most is not None:
        return f"the shell could not start another process: `limits.processes` is {most}"
    for name, argv in _named(decision):
        if name in OF_AGENT and _is_withheld(decision, environ.get(AGENT, "")):
            return LENDING
        if name == "rm" and (emptied := _emptied(argv[1:], cwd)):
            return (
                f"`{visible(emptied)}` is empty, but could not be deleted while the command ran; "
                "run it again to delete it"
            )
        if kept := _hidden_below(_taken_whole(name, argv[1:]), decision, cwd, roots):
            word, path = map(visible, kept)
            return (
                f"`{word}` cannot be moved or deleted, because `{path}` is hidden from commands; {EXPLAINED}"
            )
        file = STOPPED_BY.get(name, "")
        wanted = (*argv[1:], *([file] if os.path.exists(os.path.expanduser(file)) else ()))
        if word := next((each for each in wanted if _is_hidden(each, decision, cwd, roots)), ""):
            return f"`{visible(word)}` is hidden from commands; {EXPLAINED}"
    return _closed_to_root(roots) if decision.sandboxed and not os.geteuid() else ""


def _closed_to_root(roots: tuple[str, ...]) -> str:
    """Root has no special powers in the sandbox, so that it cannot write to files of other users."""
    for root in roots:
        with suppress(OSError):
            found = os.stat(root)
            by_group = found.st_mode & S_IWGRP and found.st_gid in (os.getegid(), *os.getgroups())
            if found.st_uid and not by_group and not found.st_mode & S_IWOTH:
                return (
                    f"{visible(root)} belongs to another user, and root has no special powers in "
                    "the sandbox; run pinfold as the owner"
                )
    return ""


def _named(decision: Decision) -> list[tuple[str, tuple[str, ...]]]:
    """The programs that ran in the sandbox: their names and arguments."""
    if not decision.sandboxed:
        return []
    return [(os.path.basename(each.argv[0]), each.argv) for each in decision.commands if each.argv]


def _of_git_outside(argv: Sequence[str]) -> str:
    pair = next((pair for pair in pairwise(argv) if pair in OUTSIDE), ())
    separate = next((verb for verb in ("init", "clone") if verb in argv), "")
    if separate and any(word.partition("=")[0] == SEPARATE for word in argv):
        return f"{separate} {SEPARATE}"
    return " ".join(pair)


def _emptied(words: Sequence[str], cwd: str) -> str:
    """A directory that `rm -r` emptied but could not delete.

    A directory that holds something protected is mounted when the pen is built, so that it cannot be moved.
    It stays even when a person has allowed the deletion.
    """
    if not any(RECURSIVE.fullmatch(word) for word in words):
        return ""
    paths = {word: os.path.join(cwd, os.path.expanduser(word)) for word in words if not word.startswith("-")}
    left = (word for word, path in paths.items() if os.path.isdir(path) and not os.path.islink(path))
    return next((word for word in left if _has_no_file(paths[word])), "")


def _has_no_file(top: str) -> bool:
    """In doubt it has one: `MOST_WALKED` limits the search."""
    walk = os.walk(top)
    has_files = any(files for _, _, files in islice(walk, MOST_WALKED))
    return not has_files and next(walk, None) is None


def _taken_whole(name: str, words: Sequence[str]) -> list[str]:
    """Paths that it moves or deletes as a whole, which the kernel denies if something hidden is in them."""
    places = [word for word in words if not word.startswith("-") and "\0" not in word]
    if name == "rm":
        return places if any(RECURSIVE.fullmatch(word) for word in words) else []
    return places[:-1] if name == "mv" else []


def _hidden_below(
    words: Sequence[str], decision: Decision, cwd: str, roots: tuple[str, ...]
) -> tuple[str, str] | None:
    """A directory of these that still exists, and the first hidden path in it."""
    for word in words:
        top = real_path(os.path.join(cwd, os.path.expanduser(word)))
        hiding = HiddenTree(decision.policy, roots)
        walk = islice(os.walk(top), MOST_WALKED) if is_covered(top, roots) else ()
        for place, directories, files in walk:
            names = hiding.within(place)
            every = chain(((each, True) for each in directories), ((each, False) for each in files))
            if found := next((each for each, is_there in every if names.is_hidden(each, is_there)), ""):
                return word, os.path.join(word, os.path.relpath(f"{place}/{found}", top))
    return None


def _is_hidden(word: str, decision: Decision, cwd: str, roots: tuple[str, ...]) -> bool:
    """Whether a word names a hidden path, relative to where the line starts. The path need not exist."""
    if not word or word.startswith("-") or "\0" in word:
        return False
    path = real_path(os.path.join(cwd, os.path.expanduser(word)))
    return hidden_by(path, decision.policy, roots) is not None


def _is_withheld(decision: Decision, agent: str) -> bool:
    """Whether the policy keeps the agent's socket from the command. No violation reports that."""
    lent = decision.policy.unix_sockets
    return bool(agent) and agent not in lent and os.path.realpath(agent) not in lent


def _sets_uid(words: Sequence[str]) -> bool:
    return any(SETUID.fullmatch(word) for word in words)
