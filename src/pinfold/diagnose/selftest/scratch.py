"""A workspace, a home and a neighbour made for the self-test, and gone with it; and snapshots of them.

They do not lie in /tmp, which a pen does not show: an attack cannot reach what is not there. A snapshot has
names, kinds, modes, owners, times and contents, so that any change shows.
"""

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Self

from msgspec.structs import replace

from pinfold.diagnose.selftest.canaries import Canaries
from pinfold.model.errors import PinfoldError
from pinfold.model.home import home_of
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import Settings
from pinfold.policy.shipped_protected import protected_by
from pinfold.sandbox.attacks.attack import Targets
from pinfold.sandbox.attacks.processes import LOCK
from pinfold.settings import policy_of
from pinfold.workspace.scan import WorkspaceScanner

MACHINE = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  (what a pen must not show is exactly this)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
VARIABLE = "SELFTEST_API_KEY"
WORK = {
    ".env": "{secret}",
    "config/deep/.env": "{secret}",
    ".git/config": "[core]\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n",
    ".vscode/tasks.json": "{{}}",
    ".pinfold/settings.toml": "",
    "src/main.py": "",
    LOCK: "",
}
HOME = {
    ".ssh/id_ed25519": "{secret}",
    ".bashrc": "",
    ".local/bin/tool": "",
    ".config/pinfold/settings.toml": "",
    ".local/state/pinfold/journal.sqlite": "",
}
OUTSIDE = {"file": "as it was"}


Snapshot = dict[str, tuple[object, ...]]


class Scratch:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.closing = ExitStack()
        try:
            self._make(environ)
        except OSError as error:
            self.closing.close()
            told = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
            mend = "free disk space, make it writable, or name another directory in XDG_CACHE_HOME"
            raise PinfoldError(f"the self-test cannot make its directory: {told}; {mend}") from None
        except BaseException:
            self.closing.close()
            raise

    def _make(self, environ: Mapping[str, str]) -> None:
        self.top = _private_directory(environ)
        self.closing.callback(_remove, self.top)
        self.work, self.home, self.outside = (f"{self.top}/{name}" for name in ("work", "home", "outside"))
        self.secret = secrets.token_hex(16)
        self.policy = _policy(self.work, self.home)
        self.machine: list[str] = []
        for place in MACHINE:
            if os.access(place, os.W_OK):
                self.machine.append(_bait_in(place, self.secret))
                self.closing.callback(os.unlink, self.machine[-1])
        for path in (self.work, self.home, self.outside):
            os.mkdir(path)
        self.descriptor = os.open(self.machine[0], os.O_RDONLY) if self.machine else os.dup(0)
        os.set_inheritable(self.descriptor, True)
        self.closing.callback(os.close, self.descriptor)
        self.baits = Canaries(f"pinfold-selftest-{self.secret}")
        self.closing.callback(self.baits.close)
        self.survey = WorkspaceScanner((self.work,), self.home)
        """What a session of this workspace would look with."""
        self.furnish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.close()

    def furnish(self) -> None:
        """Everything as it is before an attack; the three directories themselves stay."""
        self.baits.take_up()
        for top, files in ((self.work, WORK), (self.home, HOME), (self.outside, OUTSIDE)):
            for name in os.listdir(top):
                path = f"{top}/{name}"
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
            for name, content in files.items():
                os.makedirs(os.path.dirname(f"{top}/{name}"), exist_ok=True)
                with open(f"{top}/{name}", "w") as file:
                    file.write(content.format(secret=self.secret))
        self.baits.lay(self.outside, self.work)
        self.baits.require_victim()
        self.before = self.guarded()

    def targets(self) -> Targets:
        return Targets(
            work=self.work,
            home=self.home,
            outside=self.outside,
            secret=self.secret,
            machine=self.machine,
            victim=self.baits.victim,
            tcp=self.baits.tcp,
            udp=self.baits.udp,
            abstract=f"pinfold-selftest-{self.secret}",
            terminal=self.baits.terminal,
            descriptor=self.descriptor,
            namespaces={name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES},
            variable=VARIABLE,
        )

    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, VARIABLE: self.secret}

    def guarded(self) -> Snapshot:
        """All that no attack may change: the home, the neighbour, and what is protected in the workspace."""

        def counts(path: str) -> bool:
            return path != self.work and protected_by(path, (self.work,), ()) is not None

        return {**snapshot(self.home), **snapshot(self.outside), **snapshot(self.work, counts)}

    def harm(self) -> str | None:
        """What has been touched since it was furnished; everything is put in order again."""
        told = self.baits.touched()
        path = changed(self.before, self.guarded())
        if told or path:
            self.furnish()
        return told or (f"{os.path.relpath(path, self.top)} was changed" if path else None)


def _policy(work: str, home: str) -> SandboxPolicy:
    """The one that is shipped, with something hidden in the workspace too."""
    policy = policy_of(Settings(), (work,), home)
    return replace(policy, hidden=(*policy.hidden, ".env"))


def _private_directory(environ: Mapping[str, str]) -> str:
    home = home_of(environ)
    cache = environ.get("XDG_CACHE_HOME", "")
    place = os.path.join(cache if os.path.isabs(cache) else os.path.join(home, ".cache"), "pinfold")
    os.makedirs(place, 0o700, exist_ok=True)
    return os.path.realpath(tempfile.mkdtemp(prefix="selftest-", dir=place))


def _bait_in(place: str, secret: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="pinfold-selftest-", dir=place)
    with open(descriptor, "w") as file:
        file.write(secret)
    return path


def _remove(top: str) -> None:
    shutil.rmtree(top, ignore_errors=True)
    with suppress(OSError):  # where others of our kind are at work, it stays
        os.rmdir(os.path.dirname(top))


def snapshot(top: str, counts: Callable[[str], bool] = lambda _: True) -> Snapshot:
    """Everything below `top` that counts, and how it is."""
    return {path: _seen(path) for path in walk(top) if counts(path)}


def walk(top: str) -> Iterator[str]:
    """The tree's paths, parents first; links are not followed."""
    yield top
    for directory, below, files in os.walk(top):
        yield from (os.path.join(directory, name) for name in (*below, *files))


def changed(before: Snapshot, after: Snapshot) -> str | None:
    """The first path that is not as it was."""
    return next((path for path in sorted({*before, *after}) if before.get(path) != after.get(path)), None)


def _seen(path: str) -> tuple[object, ...]:
    status = os.lstat(path)
    kept = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_ino, status.st_mtime_ns)
    content: object = None
    if stat.S_ISREG(status.st_mode):
        with suppress(OSError), open(path, "rb") as file:
            content = file.read()
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    marks: tuple[str, ...] = ()
    with suppress(OSError):
        marks = tuple(os.listxattr(path, follow_symlinks=False))
    return (*kept, content, marks)
