"""bash as the oracle of what a script starts.

A script runs in an empty directory, with a PATH of harmless stubs that log how they were called.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from pinfold.model.script import Script, Text, Word

BASH = shutil.which("bash") or "/bin/bash"
STUBS = ("p", "q", "r", "ls", "rm", "touch")
WRAPPERS = ("env", "timeout", "nice", "xargs", "bash", "sh", "nohup", "stdbuf")
SECONDS = 5


def make_stubs(root: str) -> None:
    os.mkdir(f"{root}/bin")
    for name in STUBS:
        with open(f"{root}/bin/{name}", "w", encoding="utf-8") as stub:
            stub.write('#!/bin/sh\nprintf "%s\\0" "${0##*/}" "$@" "$(printf "\\001")" >> .log\n')
        os.chmod(f"{root}/bin/{name}", 0o700)
    for name in WRAPPERS:
        os.symlink(shutil.which(name) or name, f"{root}/bin/{name}")


def run(script: str, root: str) -> list[list[str]]:
    """How the stubs were called, those too that bash started in the background."""
    # A directory of its own: what an earlier script left running logs elsewhere.
    work = tempfile.mkdtemp(dir=root)
    log = f"{work}/.log"
    with open(log, "w", encoding="utf-8"):
        pass
    _run(script, work, f"{root}/bin")
    with open(log, encoding="utf-8", errors="surrogateescape") as file:
        records = file.read().split("\0\x01\0")
    shutil.rmtree(work, ignore_errors=True)
    return [record.split("\0") for record in records if record]


def _run(script: str, work: str, path: str) -> None:
    """Every process that bash starts has the standard error, so its end is theirs."""
    with (
        suppress(subprocess.TimeoutExpired),
        subprocess.Popen(
            [shutil.which("timeout") or "timeout", str(SECONDS), BASH, "--norc", "--noprofile", "-c", script],
            cwd=work,
            env={"PATH": path, "HOME": work, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        try:
            process.communicate(timeout=2 * SECONDS)
        finally:
            process.kill()


def could_be(words: Sequence[Word], argv: Sequence[str]) -> bool:
    if not words:
        return not argv
    first, rest = words[0], words[1:]
    if first.splits:
        return any(could_be(rest, argv[n:]) for n in range(len(argv) + 1))
    return bool(argv) and value_could_be(first, argv[0]) and could_be(rest, argv[1:])


def value_could_be(word: Word, value: str) -> bool:
    if word.literal is not None:
        return word.literal == value
    last = word.parts[-1]
    return value.startswith(word.start) and value.endswith(last.text if isinstance(last, Text) else "")


def explains(script: Script, argv: list[str]) -> bool:
    return any(could_be(command.words, argv) for command in script.commands if command.words)


def is_open(script: Script) -> bool:
    return bool(script.problem) or any(unknown.runs for unknown in script.unknowns)
