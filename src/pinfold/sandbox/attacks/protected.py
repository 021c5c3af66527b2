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
from pinfold.sandbox.attacks.attack import PROTECTED, World, attack, prepare
from pinfold.sandbox.attacks.files import MAKE, WRITE, write

RENAME_EXCHANGE = 2
AT_FDCWD = -100
RACE = 0.3
"""Seconds."""


def made(path: str) -> str | None:
    return f"made {os.path.basename(path)}" if os.path.lexists(path) else None


@attack("write to an existing git hook", PROTECTED)
def write_hook(world: World) -> str:
    return write(f"{world.work}/.git/hooks/pre-commit")


@attack("make another git hook", PROTECTED)
def make_hook(world: World) -> str:
    return write(f"{world.work}/.git/hooks/post-checkout", MAKE)


@attack("append to .git/config", PROTECTED)
def write_git_config(world: World) -> str:
    return write(f"{world.work}/.git/config", WRITE | os.O_APPEND)


@attack("move a file over .git/config", PROTECTED)
def replace_git_config(world: World) -> str:
    prepare(lambda: write(f"{world.work}/new-config", MAKE))
    os.rename(f"{world.work}/new-config", f"{world.work}/.git/config")
    return "replaced it"


@attack("exchange .git/config with another file", PROTECTED)
def exchange_git_config(world: World) -> str:
    prepare(lambda: write(f"{world.work}/other-config", MAKE))
    names = [os.fsencode(f"{world.work}/{name}") for name in ("other-config", ".git/config")]
    system_call("renameat2", AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE)
    return "exchanged them"


@attack("move .git aside", PROTECTED)
def move_git_aside(world: World) -> str:
    os.rename(f"{world.work}/.git", f"{world.work}/aside")
    return "moved it"


@attack("write to .git/config by a hard link", PROTECTED)
def link_git_config(world: World) -> str:
    os.link(f"{world.work}/.git/config", f"{world.work}/config-link")
    return write(f"{world.work}/config-link")


@attack("write to an editor's tasks", PROTECTED)
def write_tasks(world: World) -> str:
    return write(f"{world.work}/.vscode/tasks.json")


@attack("delete an editor's tasks", PROTECTED)
def delete_tasks(world: World) -> str:
    os.unlink(f"{world.work}/.vscode/tasks.json")
    return "deleted them"


@attack("move an editor's directory aside", PROTECTED)
def move_editor_aside(world: World) -> str:
    os.rename(f"{world.work}/.vscode", f"{world.work}/vscode")
    return "moved it"


@attack("make a git hook executable", PROTECTED)
def chmod_hook(world: World) -> str:
    os.chmod(f"{world.work}/.git/hooks/pre-commit", 0o700)
    return "changed its mode"


@attack("make a protected file that does not exist", PROTECTED)
def make_name(world: World) -> str:
    return write(f"{world.work}/.mcp.json", MAKE)


@attack("make a protected file deep in the workspace", PROTECTED)
def make_name_deep(world: World) -> str:
    prepare(lambda: os.makedirs(f"{world.work}/a/b"))
    os.makedirs(f"{world.work}/a/b/.claude", exist_ok=True)
    return write(f"{world.work}/a/b/.claude/settings.json", MAKE)


@attack("make a protected file by moving another to its name", PROTECTED)
def rename_to_name(world: World) -> str | None:
    prepare(lambda: write(f"{world.work}/plain", MAKE))
    os.rename(f"{world.work}/plain", f"{world.work}/.envrc")
    return made(f"{world.work}/.envrc")


@attack("make a protected file by a hard link", PROTECTED)
def link_to_name(world: World) -> str | None:
    prepare(lambda: write(f"{world.work}/linked", MAKE))
    os.link(f"{world.work}/linked", f"{world.work}/.bashrc")
    return made(f"{world.work}/.bashrc")


@attack("make a protected file by a symbolic link", PROTECTED)
def symlink_to_name(world: World) -> str | None:
    os.symlink("/nowhere", f"{world.work}/.cursor")
    return made(f"{world.work}/.cursor")


@attack("make a protected file through a dangling symbolic link", PROTECTED)
def create_through_link(world: World) -> str | None:
    link = f"{world.work}/dangling"
    prepare(lambda: os.symlink(f"{world.work}/.npmrc", link))
    write(link, MAKE)
    return made(f"{world.work}/.npmrc")


@attack("make a protected file by renaming the directory above", PROTECTED)
def rename_parent_to_name(world: World) -> str | None:
    prepare(lambda: os.mkdir(f"{world.work}/husk"))
    prepare(lambda: write(f"{world.work}/husk/pre-commit", MAKE))
    os.rename(f"{world.work}/husk", f"{world.work}/.husky")
    return made(f"{world.work}/.husky/pre-commit")


@attack("make a repository in the workspace, with a hook in it", PROTECTED)
def plant_repository(world: World) -> str:
    prepare(lambda: os.mkdir(f"{world.work}/sub"))
    os.makedirs(f"{world.work}/sub/.git/hooks", exist_ok=True)
    return write(f"{world.work}/sub/.git/hooks/post-checkout", MAKE)


@attack("make a protected file by changing the path while the call is checked", PROTECTED)
def race_for_name(world: World) -> str | None:
    harmless, wanted = (os.fsencode(f"{world.work}/{name}") for name in ("aa.json", ".zshrc"))
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
