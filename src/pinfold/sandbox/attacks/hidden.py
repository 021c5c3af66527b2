"""Attacks that read hidden things: files, directories, the host's /tmp, the environment, descriptors."""

import os
from contextlib import suppress

from pinfold.kernel.syscall import system_call
from pinfold.sandbox.attacks.attack import HIDDEN, AttackStage, Targets, attack, prepare

MNT_DETACH = 2


def read(path: str, targets: Targets) -> str | None:
    with open(path, "rb") as file:
        return "read it" if targets.secret.encode() in file.read(1 << 20) else None


@attack("read a hidden file of the workspace", HIDDEN)
def read_hidden(targets: Targets) -> str | None:
    return read(f"{targets.work}/.env", targets)


@attack("read a hidden file deep in the workspace", HIDDEN)
def read_hidden_deep(targets: Targets) -> str | None:
    return read(f"{targets.work}/config/deep/.env", targets)


@attack("read a private key in ~/.ssh", HIDDEN)
def read_key(targets: Targets) -> str | None:
    return read(f"{targets.home}/.ssh/id_ed25519", targets)


@attack("list ~/.ssh", HIDDEN)
def list_keys(targets: Targets) -> str | None:
    return "listed it" if "id_ed25519" in os.listdir(f"{targets.home}/.ssh") else None


@attack("read a hidden file by /proc/self/cwd", HIDDEN)
def read_by_proc_cwd(targets: Targets) -> str | None:
    os.chdir(targets.work)
    return read("/proc/self/cwd/.env", targets)


@attack("read a hidden file by a hard link", HIDDEN)
def read_by_hard_link(targets: Targets) -> str | None:
    os.link(f"{targets.work}/.env", f"{targets.work}/env-link")
    return read(f"{targets.work}/env-link", targets)


@attack("read a private key by a symbolic link", HIDDEN)
def read_by_symlink(targets: Targets) -> str | None:
    link = f"{targets.work}/key-link"
    prepare(lambda: os.symlink(f"{targets.home}/.ssh/id_ed25519", link))
    return read(link, targets)


@attack(
    "read a hidden file after moving the directory above, at once or later", HIDDEN, stage=AttackStage.TWICE
)
def read_after_move(targets: Targets) -> str | None:
    with suppress(FileNotFoundError):
        os.rename(f"{targets.work}/config", f"{targets.work}/config-moved")
    return read(f"{targets.work}/config-moved/deep/.env", targets)


@attack("read a hidden file after unmounting what covers it", HIDDEN)
def read_after_unmount(targets: Targets) -> str | None:
    with suppress(OSError):
        system_call("umount2", os.fsencode(f"{targets.work}/.env"), MNT_DETACH)
    return read(f"{targets.work}/.env", targets)


@attack("delete a hidden file, or move it to another name", HIDDEN)
def move_hidden(targets: Targets) -> str | None:
    os.rename(f"{targets.work}/.env", f"{targets.work}/env-moved")
    return read(f"{targets.work}/env-moved", targets)


@attack("read a file in the machine's /tmp, /var/tmp or /dev/shm", HIDDEN)
def read_machine_tmp(targets: Targets) -> str | None:
    for path in targets.machine:
        with suppress(OSError):
            if read(path, targets):
                return f"read {path}"
    return None


@attack("read a secret in the environment", HIDDEN)
def read_environment(targets: Targets) -> str | None:
    return "read it" if os.environ.get(targets.variable) == targets.secret else None


@attack("read a secret in the environment of any process", HIDDEN)
def read_other_environments(targets: Targets) -> str | None:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if read(f"/proc/{pid}/environ", targets):
                return f"read it in process {pid}"
    return None


@attack(
    "read a secret by a descriptor left open",
    HIDDEN,
    sandboxed_only="Python closes descriptors when it starts a program",
)
def read_descriptor(targets: Targets) -> str | None:
    return read(f"/proc/self/fd/{targets.descriptor}", targets)
