"""People who run pinfold by its command line: in a workspace of their own, and before a real screen."""

import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.patience import PATIENCE
from tests.probe_runner import ORDINARY, TOP, interpreter

PROGRAM = "from pinfold.cli import entry; entry()"


class Person:
    """Somebody who runs pinfold in a workspace of their own."""

    def __init__(self, user: str, where: Path) -> None:
        if user == "root" and os.geteuid():
            pytest.skip("only root can test as root")
        self.where = where
        self.work = where / "work"
        other = ORDINARY if user == "ordinary" and not os.geteuid() else None
        libraries = os.path.dirname(os.path.dirname(msgspec.__file__))
        self.program = [interpreter(user), "-c", PROGRAM]
        self.given: dict[str, Any] = {
            "cwd": self.work,
            "user": other,
            "group": other,
            "extra_groups": None if other is None else [],
            "env": {
                "HOME": str(where / "home"),
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHONPATH": f"{TOP}/src:{libraries}",
                "LANG": "C.UTF-8",
                "TERM": "xterm",
                "PINFOLD_HOOK_SERVICE": "0",  # a run at a terminal would leave one
            },
        }

    def run(
        self, *arguments: str, stdin: bytes = b"", patience: float = 2 * PATIENCE
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.program, "run", *arguments],
            input=stdin,
            capture_output=True,
            timeout=patience,
            start_new_session=True,  # without a terminal
            **self.given,
        )

    def settings(self, text: str) -> None:
        directory = self.where / "home/.config/pinfold"
        directory.mkdir(parents=True)
        (directory / "settings.toml").write_text(text)

    def on_terminal(
        self, *arguments: str, typed: list[tuple[bytes, bytes]], before: bytes = b""
    ) -> tuple[int | None, bytes]:
        """Types each text once what it waits for was written; the exit code and all that was written.

        `before` is typed before anything runs.
        """
        ours, theirs = pty.openpty()
        os.write(ours, before)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("=HHHH", 33, 80, 0, 0))
        process = subprocess.Popen(
            [*self.program, "run", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **self.given,
        )
        os.close(theirs)
        written, deadline = b"", time.monotonic() + 2 * PATIENCE
        try:
            while process.poll() is None or select.select([ours], [], [], 0.2)[0]:
                assert time.monotonic() < deadline, written
                if select.select([ours], [], [], 0.1)[0]:
                    try:
                        written += os.read(ours, 65536)
                    except OSError:
                        break
                if typed and typed[0][0] in written:
                    os.write(ours, typed.pop(0)[1])
            return process.wait(PATIENCE), written
        finally:
            process.kill()
            process.wait()
            os.close(ours)


class Screen:
    """A terminal of 80 columns with a person before it."""

    def __init__(self, user: str, where: Path) -> None:
        if user == "root" and os.geteuid():
            pytest.skip("only root can test as root")
        self.work = where / "work"
        self._other = ORDINARY if user == "ordinary" and not os.geteuid() else None
        self.home = where / "home"
        self._program = [interpreter(user), "-W", "error", "-c", PROGRAM]
        libraries = os.path.dirname(os.path.dirname(msgspec.__file__))
        self.environment = {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{TOP}/src:{libraries}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "PINFOLD_HOOK_SERVICE": "0",  # a run at a terminal would leave one
        }
        self._sockets = iter(where / f"home/tmux{number}" for number in range(100))
        self._socket = next(self._sockets)
        self._open = False

    def settings(self, text: str) -> Path:
        path = self.home / ".config/pinfold/settings.toml"
        if not path.exists():
            for made in (path.parent.parent, path.parent):
                made.mkdir(exist_ok=True)
                self.give(made)
        path.write_text(text)
        self.give(path)
        return path

    def give(self, path: Path) -> None:
        if self._other:
            os.chown(path, self._other, self._other)

    def run(self, *arguments: str, shell: str = "{}; echo exit:$?", **environment: str) -> None:
        """Begins `pinfold` with these arguments on an empty screen."""
        self.close()
        self._socket = next(self._sockets)
        line = shell.format(shlex.join([*self._program, *arguments]))
        names = {"TERM": "screen", **environment}
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in names.items())
        self._open = True
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "34",
                   f"export {words}; {line}; exec sleep 1000",
                   ";", "pipe-pane", "-O", f"cat > {shlex.quote(self._written)}")  # fmt: skip

    @property
    def _written(self) -> str:
        return f"{self._socket}.written"

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            user=self._other,
            group=self._other,
            extra_groups=None if self._other is None else [],
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            check=True,
            text=True,
            timeout=PATIENCE,
        ).stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def written(self) -> str:
        """All that was ever written to it, also what stood there only for a moment."""
        with open(self._written, encoding="utf-8", errors="replace") as file:
            return file.read()

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, text: str, patience: float = PATIENCE) -> str:
        return self.wait_until(lambda screen: text in screen, patience)

    def wait_until(self, true: Callable[[str], bool], patience: float = PATIENCE) -> str:
        """The screen once it is as told. Asks tmux for it when something was written, and twice a second."""
        end, asked, seen = time.monotonic() + patience, 0.0, -1
        while True:
            written = os.stat(self._written).st_size if os.path.exists(self._written) else 0
            if written != seen or time.monotonic() > asked + 0.5:
                asked, seen = time.monotonic(), written
                if true(screen := self.text()):
                    return screen
                assert asked < end, screen
            time.sleep(0.02)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._tmux("kill-server")
