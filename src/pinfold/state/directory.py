"""Where Pinfold keeps its state: never in a workspace, and hidden from every command."""

import os
from collections.abc import Mapping
from contextlib import suppress

from pinfold.model.home import home_of

ELSEWHERE = "free disk space, make it writable, or name another directory in XDG_STATE_HOME"
"""The remedy if one of its directories cannot be made or written."""


def state_directory(environ: Mapping[str, str]) -> str:
    """`$XDG_STATE_HOME/pinfold`; a relative value is ignored, as the XDG rules say."""
    base = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        home = home_of(environ)
        base = os.path.join(home, ".local", "state")
    return os.path.join(base, "pinfold")


def approvals_file(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "approvals.json")


def journal_file(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "journal.sqlite")


def names_file(environ: Mapping[str, str]) -> str:
    """The file that counts the names looked up below wildcards."""
    return os.path.join(state_directory(environ), "names.sqlite")


def webhook_secret(environ: Mapping[str, str]) -> bytes:
    """The secret by which questions and answers of the webhook are signed, made when it is first needed."""
    path = os.path.join(state_directory(environ), "webhook.key")
    if not os.path.exists(path):
        write_private(path, os.urandom(32).hex().encode() + b"\n")
    with open(path, "rb") as file:
        status, secret = os.fstat(file.fileno()), file.read(1 << 12).strip()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or len(secret) < 32:
        raise ValueError(f"{path} can be read by others, or is too short")
    return secret


def is_private(directory: str) -> bool:
    """Whether only this user can make names in a directory."""
    try:
        status = os.stat(directory)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def write_private(path: str, data: bytes) -> None:
    """Writes a file for this user alone, in one step, so that no process reads half of it."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # left by a killed process with our number
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
