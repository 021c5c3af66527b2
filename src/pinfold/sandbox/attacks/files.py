"""Attacks that write where a command may not: beside the workspace, in the home, on the host.

Facts: Landlock does not cover chmod, utimes and xattrs, so those test whether the mounts are read-only. A
read-only mount does not stop a write to a FIFO, so that tests Landlock.
"""

import os
import stat

from pinfold.sandbox.attacks.attack import APPROVES, Targets, attack, prepare

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
def create_outside(targets: Targets) -> str:
    return write(f"{targets.outside}/new", MAKE)


@attack("write to a file beside the workspace")
def overwrite_outside(targets: Targets) -> str:
    return write(f"{targets.outside}/file")


@attack("write to a file beside the workspace by a path through ..")
def write_by_dots(targets: Targets) -> str:
    return write(f"{targets.work}/../outside/file")


@attack("write to a file beside the workspace by /proc/self/root")
def write_by_proc_root(targets: Targets) -> str:
    return write(f"/proc/self/root{targets.outside}/file")


@attack("write to a file beside the workspace by a symbolic link in it")
def write_by_symlink(targets: Targets) -> str:
    link = f"{targets.work}/symlink"
    prepare(lambda: os.symlink(f"{targets.outside}/file", link))
    return write(link)


@attack("write to a file beside the workspace by a hard link made in it")
def write_by_hard_link(targets: Targets) -> str:
    os.link(f"{targets.outside}/file", f"{targets.work}/hard-link")
    return write(f"{targets.work}/hard-link")


@attack("write to a file beside the workspace by reopening a descriptor that reads it")
def write_by_reopening(targets: Targets) -> str:
    reading = os.open(f"{targets.outside}/file", os.O_RDONLY)
    return write(f"/proc/self/fd/{reading}")


@attack("move a file out of the workspace")
def rename_out(targets: Targets) -> str:
    prepare(lambda: write(f"{targets.work}/moving", MAKE))
    os.rename(f"{targets.work}/moving", f"{targets.outside}/moved")
    return "moved it"


@attack("move a file from beside the workspace into it")
def rename_in(targets: Targets) -> str:
    os.rename(f"{targets.outside}/file", f"{targets.work}/moved-in")
    return "moved it"


@attack("delete a file beside the workspace")
def delete_outside(targets: Targets) -> str:
    os.unlink(f"{targets.outside}/file")
    return "deleted it"


@attack("make a directory beside the workspace")
def make_directory_outside(targets: Targets) -> str:
    os.mkdir(f"{targets.outside}/directory")
    return "made it"


@attack("truncate a file beside the workspace")
def truncate_outside(targets: Targets) -> str:
    os.truncate(f"{targets.outside}/file", 1)
    return "truncated it"


@attack("change the mode of a file beside the workspace")
def chmod_outside(targets: Targets) -> str:
    mode = stat.S_IMODE(os.stat(f"{targets.outside}/file").st_mode)
    os.chmod(f"{targets.outside}/file", mode ^ stat.S_IXUSR)
    return "changed it"


@attack("change the times of a file beside the workspace")
def touch_outside(targets: Targets) -> str:
    os.utime(f"{targets.outside}/file", (1, 1))
    return "changed them"


@attack("give a file beside the workspace an extended attribute")
def mark_outside(targets: Targets) -> str:
    os.setxattr(f"{targets.outside}/file", "user.pinfold", b"x")
    return "gave it"


@attack("write to a FIFO beside the workspace that a process reads")
def write_to_fifo(targets: Targets) -> str:
    return write(f"{targets.outside}/fifo")


@attack("append to ~/.bashrc")
def append_to_startup_file(targets: Targets) -> str:
    return write(f"{targets.home}/.bashrc", WRITE | os.O_APPEND)


@attack("make a program in ~/.local/bin")
def plant_program(targets: Targets) -> str:
    return write(f"{targets.home}/.local/bin/git", MAKE)


@attack("change the user's settings of pinfold", APPROVES)
def write_settings(targets: Targets) -> str:
    return write(f"{targets.home}/.config/pinfold/settings.toml")


@attack("change the journal of pinfold", APPROVES)
def write_journal(targets: Targets) -> str:
    return write(f"{targets.home}/.local/state/pinfold/journal.sqlite")


@attack("change the project's settings of pinfold", APPROVES)
def write_project_settings(targets: Targets) -> str:
    return write(f"{targets.work}/.pinfold/settings.toml")


@attack("write on the user's terminal, where questions are asked", APPROVES)
def write_on_terminal(targets: Targets) -> str:
    return write(targets.terminal)


@attack("open /etc/passwd for writing", needs_root=True)
def write_to_etc(_: Targets) -> str:
    return opened("/etc/passwd")


@attack("open the kernel's core_pattern for writing", needs_root=True)
def set_core_pattern(_: Targets) -> str:
    return opened("/proc/sys/kernel/core_pattern")


@attack("open /proc/sysrq-trigger for writing", needs_root=True)
def trigger_sysrq(_: Targets) -> str:
    return opened("/proc/sysrq-trigger")


@attack("open a file of /sys for writing", needs_root=True)
def write_to_sys(_: Targets) -> str:
    return opened(
        "/sys/kernel/profiling" if os.path.exists("/sys/kernel/profiling") else "/sys/kernel/uevent_helper"
    )
