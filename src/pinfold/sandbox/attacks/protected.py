"""Attacks that write protected files of the workspace, or make them where they do not exist yet.

Facts: a mount on a file stops every write by any name, but a directory above it could be moved away. A check
of a path proves nothing if another thread changes the path between the check and the call.
"""

import os
import sys
import threading
import time
from contextlib import suppress
from itertools import cycle

from pinfold.kernel.syscall import buffer, system_call
from pinfold.sandbox.attacks.attack import PROTECTED, Targets, attack, prepare
from pinfold.sandbox.attacks.files import MAKE, WRITE, write

RENAME_EXCHANGE = 2
AT_FDCWD = -100
RACE = 0.3
"""Seconds."""


def made(path: str) -> str | None:
    return f"made {os.path.basename(path)}" if os.path.lexists(path) else None


@attack("write to an existing git hook", PROTECTED)
def write_hook(targets: Targets) -> str:
    return write(f"{targets.work}/.git/hooks/pre-commit")


@attack("make another git hook", PROTECTED)
def make_hook(targets: Targets) -> str:
    return write(f"{targets.work}/.git/hooks/post-checkout", MAKE)


@attack("append to .git/config", PROTECTED)
def write_git_config(targets: Targets) -> str:
    return write(f"{targets.work}/.git/config", WRITE | os.O_APPEND)


@attack("move a file over .git/config", PROTECTED)
def replace_git_config(targets: Targets) -> str:
    prepare(lambda: write(f"{targets.work}/new-config", MAKE))
    os.rename(f"{targets.work}/new-config", f"{targets.work}/.git/config")
    return "replaced it"


@attack("exchange .git/config with another file", PROTECTED)
def exchange_git_config(targets: Targets) -> str:
    prepare(lambda: write(f"{targets.work}/other-config", MAKE))
    names = [os.fsencode(f"{targets.work}/{name}") for name in ("other-config", ".git/config")]
    system_call("renameat2", AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE)
    return "exchanged them"


@attack("move .git aside", PROTECTED)
def move_git_aside(targets: Targets) -> str:
    os.rename(f"{targets.work}/.git", f"{targets.work}/aside")
    return "moved it"


@attack("write to .git/config by a hard link", PROTECTED)
def link_git_config(targets: Targets) -> str:
    os.link(f"{targets.work}/.git/config", f"{targets.work}/config-link")
    return write(f"{targets.work}/config-link")


@attack("write to an editor's tasks", PROTECTED)
def write_tasks(targets: Targets) -> str:
    return write(f"{targets.work}/.vscode/tasks.json")


@attack("delete an editor's tasks", PROTECTED)
def delete_tasks(targets: Targets) -> str:
    os.unlink(f"{targets.work}/.vscode/tasks.json")
    return "deleted them"


@attack("move an editor's directory aside", PROTECTED)
def move_editor_aside(targets: Targets) -> str:
    os.rename(f"{targets.work}/.vscode", f"{targets.work}/vscode")
    return "moved it"


@attack("make a git hook executable", PROTECTED)
def chmod_hook(targets: Targets) -> str:
    os.chmod(f"{targets.work}/.git/hooks/pre-commit", 0o700)
    return "changed its mode"


@attack("make a protected file that does not exist", PROTECTED)
def make_name(targets: Targets) -> str:
    return write(f"{targets.work}/.mcp.json", MAKE)


@attack("make a protected file deep in the workspace", PROTECTED)
def make_name_deep(targets: Targets) -> str:
    prepare(lambda: os.makedirs(f"{targets.work}/a/b"))
    os.makedirs(f"{targets.work}/a/b/.claude", exist_ok=True)
    return write(f"{targets.work}/a/b/.claude/settings.json", MAKE)


@attack("make a protected file by moving another to its name", PROTECTED)
def rename_to_name(targets: Targets) -> str | None:
    prepare(lambda: write(f"{targets.work}/plain", MAKE))
    os.rename(f"{targets.work}/plain", f"{targets.work}/.envrc")
    return made(f"{targets.work}/.envrc")


@attack("make a protected file by a hard link", PROTECTED)
def link_to_name(targets: Targets) -> str | None:
    prepare(lambda: write(f"{targets.work}/linked", MAKE))
    os.link(f"{targets.work}/linked", f"{targets.work}/.bashrc")
    return made(f"{targets.work}/.bashrc")


@attack("make a protected file by a symbolic link", PROTECTED)
def symlink_to_name(targets: Targets) -> str | None:
    os.symlink("/nowhere", f"{targets.work}/.cursor")
    return made(f"{targets.work}/.cursor")


@attack("make a protected file through a dangling symbolic link", PROTECTED)
def create_through_link(targets: Targets) -> str | None:
    link = f"{targets.work}/dangling"
    prepare(lambda: os.symlink(f"{targets.work}/.npmrc", link))
    write(link, MAKE)
    return made(f"{targets.work}/.npmrc")


@attack("make a protected file by renaming the directory above", PROTECTED)
def rename_parent_to_name(targets: Targets) -> str | None:
    prepare(lambda: os.mkdir(f"{targets.work}/husk"))
    prepare(lambda: write(f"{targets.work}/husk/pre-commit", MAKE))
    os.rename(f"{targets.work}/husk", f"{targets.work}/.husky")
    return made(f"{targets.work}/.husky/pre-commit")


@attack("make a repository in the workspace, with a hook in it", PROTECTED)
def plant_repository(targets: Targets) -> str:
    prepare(lambda: os.mkdir(f"{targets.work}/sub"))
    os.makedirs(f"{targets.work}/sub/.git/hooks", exist_ok=True)
    return write(f"{targets.work}/sub/.git/hooks/post-checkout", MAKE)


@attack("make a protected file by changing the path while the call is checked", PROTECTED)
def race_for_name(targets: Targets) -> str | None:
    harmless, wanted = (os.fsencode(f"{targets.work}/{name}") for name in ("aa.json", ".zshrc"))
    path = buffer(harmless, max(len(harmless), len(wanted)) + 1)
    done = threading.Event()

    def swap() -> None:
        # One change per turn: Python's threads take turns at the end of a loop's body.
        for value in cycle((wanted, harmless)):
            path.value = value
            if done.is_set():
                break

    swapper = threading.Thread(target=swap)
    sys.setswitchinterval(1e-5)
    swapper.start()
    end = time.monotonic() + RACE
    try:
        while time.monotonic() < end and not os.path.lexists(wanted):
            with suppress(OSError):
                os.close(system_call("openat", AT_FDCWD, path, MAKE | os.O_EXCL, 0o600))
            with suppress(OSError):
                os.unlink(harmless)
    finally:
        done.set()
        swapper.join()
    return made(os.fsdecode(wanted))
