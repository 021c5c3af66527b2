"""Attacks that write where a command may not: beside the workspace, in the home, on the host.

Facts: Landlock does not cover chmod, utimes and xattrs, so those test whether the mounts are read-only. A
read-only mount does not stop a write to a FIFO, so that tests Landlock.
"""

import os
import stat

from pinfold.sandbox.attacks.attack import APPROVES, World, attack, prepare

WRITE = os.O_WRONLY | os.O_CLOEXEC
MAKE = WRITE | os.O_CREAT


def write(path: str, flags: int = WRITE) -> str:
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o600)
    os.write(descriptor, b"pinfold")
    os.close(descriptor)
    return f"wrote {os.path.basename(path)}"


def opened(path: str) -> str:
    """Opens for writing and writes nothing: enough as proof, and harmless."""
    os.close(os.open(path, WRITE))
    return f"opened {path} for writing"


@attack("make a file beside the workspace")
def create_outside(world: World) -> str:
    return write(f"{world.outside}/new", MAKE)


@attack("write to a file beside the workspace")
def overwrite_outside(world: World) -> str:
    return write(f"{world.outside}/file")


@attack("write to a file beside the workspace by a path through ..")
def write_by_dots(world: World) -> str:
    return write(f"{world.work}/../outside/file")


@attack("write to a file beside the workspace by /proc/self/root")
def write_by_proc_root(world: World) -> str:
    return write(f"/proc/self/root{world.outside}/file")


@attack("write to a file beside the workspace by a symbolic link in it")
def write_by_symlink(world: World) -> str:
    link = f"{world.work}/symlink"
    prepare(lambda: os.symlink(f"{world.outside}/file", link))
    return write(link)


@attack("write to a file beside the workspace by a hard link made in it")
def write_by_hard_link(world: World) -> str:
    os.link(f"{world.outside}/file", f"{world.work}/hard-link")
    return write(f"{world.work}/hard-link")


@attack("write to a file beside the workspace by reopening a descriptor that reads it")
def write_by_reopening(world: World) -> str:
    reading = os.open(f"{world.outside}/file", os.O_RDONLY)
    return write(f"/proc/self/fd/{reading}")


@attack("move a file out of the workspace")
def rename_out(world: World) -> str:
    prepare(lambda: write(f"{world.work}/moving", MAKE))
    os.rename(f"{world.work}/moving", f"{world.outside}/moved")
    return "moved it"


@attack("move a file from beside the workspace into it")
def rename_in(world: World) -> str:
    os.rename(f"{world.outside}/file", f"{world.work}/moved-in")
    return "moved it"


@attack("delete a file beside the workspace")
def delete_outside(world: World) -> str:
    os.unlink(f"{world.outside}/file")
    return "deleted it"


@attack("make a directory beside the workspace")
def make_directory_outside(world: World) -> str:
    os.mkdir(f"{world.outside}/directory")
    return "made it"


@attack("truncate a file beside the workspace")
def truncate_outside(world: World) -> str:
    os.truncate(f"{world.outside}/file", 1)
    return "truncated it"


@attack("change the mode of a file beside the workspace")
def chmod_outside(world: World) -> str:
    mode = stat.S_IMODE(os.stat(f"{world.outside}/file").st_mode)
    os.chmod(f"{world.outside}/file", mode ^ stat.S_IXUSR)
    return "changed it"


@attack("change the times of a file beside the workspace")
def touch_outside(world: World) -> str:
    os.utime(f"{world.outside}/file", (1, 1))
    return "changed them"


@attack("give a file beside the workspace an extended attribute")
def mark_outside(world: World) -> str:
    os.setxattr(f"{world.outside}/file", "user.pinfold", b"x")
    return "gave it"


@attack("write to a FIFO beside the workspace that a process reads")
def write_to_fifo(world: World) -> str:
    return write(f"{world.outside}/fifo")


@attack("append to ~/.bashrc")
def append_to_startup_file(world: World) -> str:
    return write(f"{world.home}/.bashrc", WRITE | os.O_APPEND)


@attack("make a program in ~/.local/bin")
def plant_program(world: World) -> str:
    return write(f"{world.home}/.local/bin/git", MAKE)


@attack("change the user's settings of pinfold", APPROVES)
def write_settings(world: World) -> str:
    return write(f"{world.home}/.config/pinfold/settings.toml")


@attack("change the journal of pinfold", APPROVES)
def write_journal(world: World) -> str:
    return write(f"{world.home}/.local/state/pinfold/journal.sqlite")


@attack("change the project's settings of pinfold", APPROVES)
def write_project_settings(world: World) -> str:
    return write(f"{world.work}/.pinfold/settings.toml")


@attack("write on the user's terminal, where questions are asked", APPROVES)
def write_on_terminal(world: World) -> str:
    return write(world.terminal)


@attack("open /etc/passwd for writing", needs_root=True)
def write_to_etc(_: World) -> str:
    return opened("/etc/passwd")


@attack("open the kernel's core_pattern for writing", needs_root=True)
def set_core_pattern(_: World) -> str:
    return opened("/proc/sys/kernel/core_pattern")


@attack("open /proc/sysrq-trigger for writing", needs_root=True)
def trigger_sysrq(_: World) -> str:
    return opened("/proc/sysrq-trigger")


@attack("open a file of /sys for writing", needs_root=True)
def write_to_sys(_: World) -> str:
    return opened(
        "/sys/kernel/profiling" if os.path.exists("/sys/kernel/profiling") else "/sys/kernel/uevent_helper"
    )
