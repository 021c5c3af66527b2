"""Attacks that read hidden things: files, directories, the host's /tmp, the environment, descriptors."""

import os
from contextlib import suppress

from pinfold.kernel.syscall import system_call
from pinfold.sandbox.attacks.attack import HIDDEN, AttackStage, World, attack, prepare

MNT_DETACH = 2


def read(path: str, world: World) -> str | None:
    with open(path, "rb") as file:
        return "read it" if world.secret.encode() in file.read(1 << 20) else None


@attack("read a hidden file of the workspace", HIDDEN)
def read_hidden(world: World) -> str | None:
    return read(f"{world.work}/.env", world)


@attack("read a hidden file deep in the workspace", HIDDEN)
def read_hidden_deep(world: World) -> str | None:
    return read(f"{world.work}/config/deep/.env", world)


@attack("read a private key in ~/.ssh", HIDDEN)
def read_key(world: World) -> str | None:
    return read(f"{world.home}/.ssh/id_ed25519", world)


@attack("list ~/.ssh", HIDDEN)
def list_keys(world: World) -> str | None:
    return "listed it" if "id_ed25519" in os.listdir(f"{world.home}/.ssh") else None


@attack("read a hidden file by /proc/self/cwd", HIDDEN)
def read_by_proc_cwd(world: World) -> str | None:
    os.chdir(world.work)
    return read("/proc/self/cwd/.env", world)


@attack("read a hidden file by a hard link", HIDDEN)
def read_by_hard_link(world: World) -> str | None:
    os.link(f"{world.work}/.env", f"{world.work}/env-link")
    return read(f"{world.work}/env-link", world)


@attack("read a private key by a symbolic link", HIDDEN)
def read_by_symlink(world: World) -> str | None:
    link = f"{world.work}/key-link"
    prepare(lambda: os.symlink(f"{world.home}/.ssh/id_ed25519", link))
    return read(link, world)


@attack(
    "read a hidden file after moving the directory above, at once or later", HIDDEN, stage=AttackStage.TWICE
)
def read_after_move(world: World) -> str | None:
    with suppress(FileNotFoundError):
        os.rename(f"{world.work}/config", f"{world.work}/config-moved")
    return read(f"{world.work}/config-moved/deep/.env", world)


@attack("read a hidden file after unmounting what covers it", HIDDEN)
def read_after_unmount(world: World) -> str | None:
    with suppress(OSError):
        system_call("umount2", os.fsencode(f"{world.work}/.env"), MNT_DETACH)
    return read(f"{world.work}/.env", world)


@attack("delete a hidden file, or move it to another name", HIDDEN)
def move_hidden(world: World) -> str | None:
    os.rename(f"{world.work}/.env", f"{world.work}/env-moved")
    return read(f"{world.work}/env-moved", world)


@attack("read a file in the machine's /tmp, /var/tmp or /dev/shm", HIDDEN)
def read_machine_tmp(world: World) -> str | None:
    for path in world.machine:
        with suppress(OSError):
            if read(path, world):
                return f"read {path}"
    return None


@attack("read a secret in the environment", HIDDEN)
def read_environment(world: World) -> str | None:
    return "read it" if os.environ.get(world.variable) == world.secret else None


@attack("read a secret in the environment of any process", HIDDEN)
def read_other_environments(world: World) -> str | None:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if read(f"/proc/{pid}/environ", world):
                return f"read it in process {pid}"
    return None


@attack(
    "read a secret by a descriptor left open",
    HIDDEN,
    sandboxed_only="Python closes descriptors when it starts a program",
)
def read_descriptor(world: World) -> str | None:
    return read(f"/proc/self/fd/{world.descriptor}", world)
