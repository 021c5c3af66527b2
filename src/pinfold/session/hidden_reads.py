"""What of `.env` files a command that failed was refused to read, as far as its words and its output tell.

No read reaches the warden (that would slow down every open), so this is a guess: it names what a person may
grant for another run, and decides nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator

from pinfold.model.codes import ViolationCode
from pinfold.model.policy import SandboxPolicy
from pinfold.model.symlinks import real_path
from pinfold.model.violation import READ, Violation
from pinfold.policy.hidden_paths import UNTRACKED

DENIED = re.compile(rb"permission denied|EACCES|Errno 13", re.IGNORECASE)
CHANGED = re.compile(rb"cannot (create|remove|touch|move|overwrite|truncate)", re.IGNORECASE)
"""What `cp` and its kin say of a file that they were to write."""
OF_NAMES = rb"[\w./~-]"


def hidden_reads(
    policy: SandboxPolicy, commands: Iterable[tuple[str, ...]], cwd: str, output: bytes
) -> tuple[Violation, ...]:
    """Of a command of this policy that failed."""
    argvs = [argv for argv in commands if argv]
    program = os.path.basename(argvs[0][0]) if argvs else ""
    lines = [line for line in output.splitlines() if DENIED.search(line) and not CHANGED.search(line)]
    named = {real_path(os.path.join(cwd, value)) for argv in argvs for value in _values(argv)}
    why = f"it is hidden: {UNTRACKED}"
    return tuple(
        Violation(READ, path, path, why, program, 0, True, ViolationCode.HIDDEN)
        for path in policy.env_files
        if path in named or any(_is_in(line, path, cwd) for line in lines)
    )


def _values(argv: tuple[str, ...]) -> Iterator[str]:
    """What options are given (`--env-file=.env`), by the programs that say nothing of why they failed."""
    for before, word in zip(("", *argv), argv, strict=False):
        option, _, value = word.partition("=")
        if value and option.startswith("-") and "\0" not in value:
            yield value
        elif before.startswith("--env") and "\0" not in word:
            yield word


def _is_in(line: bytes, path: str, cwd: str) -> bool:
    near = os.path.relpath(path, cwd)
    names = b"|".join(re.escape(os.fsencode(name)) for name in (path, near, f"./{near}"))
    return re.search(rb"(?<!%s)(%s)(?!%s)" % (OF_NAMES, names, OF_NAMES), line) is not None
