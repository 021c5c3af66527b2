"""The sandboxes that `bench.peers` compares, and how each is called.

Each gets a directory: `work` is its workspace, `tmp` may be written too, nothing else of it may. A sandbox
that can be kept ready between commands is, as an agent would keep it: pinfold by a `Session`, sandlock and
srt by their own libraries (`drivers/`). bwrap and codex keep nothing: a start of theirs is part of each
figure. codex is called by its native program if npm brought one, which spares it the start of Node. A cold
start uses the command that npm installs, as its user starts it, and as srt is started. `least` is no real
sandbox, but what the kernel takes for Landlock and seccomp themselves.
"""

import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple, Protocol, cast

from bench import least
from pinfold import __version__
from pinfold.model.errors import PinfoldError
from pinfold.session import Session

DRIVERS = os.path.join(os.path.dirname(__file__), "drivers")
PATIENCE = 120.0
"""Seconds that one command may take."""


class ContenderError(Exception):
    """A contender could not do what it was asked, and why, in one line."""


class Place(NamedTuple):
    top: str

    @property
    def work(self) -> str:
        return f"{self.top}/work"

    @property
    def tmp(self) -> str:
        return f"{self.top}/tmp"


class Runner(Protocol):
    """A contender, ready for commands in one place."""

    def run(self, argv: Sequence[str], at_once: int = 1) -> bytes:
        """What the command wrote; for several at once, what one of them wrote."""

    def close(self) -> None: ...


class Contender(NamedTuple):
    name: str
    find: Callable[[], str]
    """The program it is started by; raises ContenderError where there is none."""
    version: Callable[[str], str]
    ready: Callable[[str, Place], Runner]
    cold: Callable[[str, Place], list[str]]
    """The words before a command that make a program of it, started from nothing."""
    begin: Callable[[Place], None] = lambda _: None
    """Called once on the thread that it is measured on, which no other contender uses."""


def in_threads(count: int, run: Callable[[], bytes]) -> bytes:
    """Runs it in so many threads; one is our own."""
    ends: list[bytes | Exception] = []

    def end() -> None:
        try:
            ends.append(run())
        except (ContenderError, OSError) as error:
            ends.append(error)

    threads = [threading.Thread(target=end) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    end()
    for thread in threads:
        thread.join()
    for one in ends:
        if isinstance(one, Exception):
            raise one
    return cast(bytes, ends[0])


def said(words: bytes) -> str:
    """The last line of what a program complained of; its place's path is this machine's, and left out."""
    last = words.decode(errors="replace").strip().rpartition("\n")[2]
    return re.sub(r"/\S*/pinfold-bench-[^/]*/\d+/", "", last)[:200]


def one_shot(argv: Sequence[str], place: Place) -> bytes:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, cwd=place.work, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise ContenderError(f"{argv[0]}: no end after {PATIENCE:g} seconds") from None
    if done.returncode:
        raise ContenderError(f"exit {done.returncode}: {said(done.stderr) or shlex.join(argv)[:200]}")
    return done.stdout


class OneShots:
    """Every command is a program of its own, behind the same words."""

    def __init__(self, words: list[str], place: Place) -> None:
        self.words, self.place = words, place

    def run(self, argv: Sequence[str], at_once: int = 1) -> bytes:
        return in_threads(at_once, lambda: one_shot([*self.words, *argv], self.place))

    def close(self) -> None:
        """Nothing is kept."""


class Pinfold:
    """`Session.run`: decided, journaled, run in the pen, captured."""

    def __init__(self, place: Place) -> None:
        self.session = Session([place.work], settings={}, cwd=place.work)

    def run(self, argv: Sequence[str], at_once: int = 1) -> bytes:
        return in_threads(at_once, lambda: self._one(argv))

    def _one(self, argv: Sequence[str]) -> bytes:
        try:
            result = self.session.run(argv).check()
        except PinfoldError as error:
            raise ContenderError(str(error)) from None
        if result.exit_code != 0:
            raise ContenderError(f"exit {result.exit_code}: {said(result.stderr_bytes)}")
        return result.stdout_bytes

    def close(self) -> None:
        self.session.close()


class Driven:
    """Another library, in its own language's process: a line of JSON for each request and each answer.

    The answer's output is cut to its end by the driver, so that what is measured is not our pipe to it.
    """

    def __init__(self, words: list[str], place: Place) -> None:
        environment = {**os.environ, "CLAUDE_CODE_TMPDIR": place.tmp}
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=place.work,
            env=environment,
            start_new_session=True,
        )

    def run(self, argv: Sequence[str], at_once: int = 1) -> bytes:
        requests, answers = cast(IO[bytes], self.process.stdin), cast(IO[bytes], self.process.stdout)
        try:
            requests.write(json.dumps([at_once, list(argv), shlex.join(argv)]).encode() + b"\n")
            requests.flush()
        except BrokenPipeError:
            raise ContenderError("its driver has ended") from None
        line = answers.readline()
        if not line:
            raise ContenderError("its driver has ended")
        code, stdout, stderr = json.loads(line)
        if code:
            raise ContenderError(f"exit {code}: {said(stderr.encode())}")
        return cast(str, stdout).encode()

    def close(self) -> None:
        cast(IO[bytes], self.process.stdin).close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        cast(IO[bytes], self.process.stdout).close()


def peers_directory() -> str:
    return os.environ.get("PINFOLD_PEERS") or os.path.expanduser("~/.cache/pinfold-peers")


def find(*patterns: str) -> Callable[[], str]:
    """The first of these that is there: a path under the peers' directory, or, without a slash, on PATH."""

    def found() -> str:
        for pattern in patterns:
            paths = sorted(glob.glob(os.path.join(peers_directory(), pattern))) if "/" in pattern else []
            path = paths[0] if paths else None if "/" in pattern else shutil.which(pattern)
            if path:
                return path
        raise ContenderError("not installed (`make peers`)")

    return found


def version_of(*words: str) -> Callable[[str], str]:
    def version(program: str) -> str:
        done = subprocess.run([program, *words], capture_output=True, check=False, timeout=30)
        return done.stdout.decode().split()[-1] if done.stdout.strip() else "?"

    return version


def bwrap_words(program: str, place: Place) -> list[str]:
    fixed = "--ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all --die-with-parent --new-session"
    bound = [word for path in (place.work, place.tmp) for word in ("--bind", path, path)]
    return [program, *fixed.split(), "--cap-drop", "ALL", *bound, "--chdir", place.work, "--"]


def codex_words(program: str, place: Place) -> list[str]:
    return [program, "sandbox", "-P", ":workspace", "-C", place.work, "--"]


def codex_cold(program: str, place: Place) -> list[str]:
    """By the command that npm installs beside the native program, which is a launcher in Node."""
    top, within, _ = program.partition("/node_modules/")
    launcher = f"{top}/node_modules/.bin/codex"
    return codex_words(launcher if within and os.path.exists(launcher) else program, place)


def srt_settings(place: Place) -> str:
    path = f"{place.top}/srt.json"
    with open(path, "w") as file:
        json.dump(
            {
                "network": {"allowedDomains": [], "deniedDomains": []},
                "filesystem": {"denyRead": [], "allowWrite": [place.work, place.tmp], "denyWrite": []},
            },
            file,
        )
    return path


def srt_library(program: str) -> str:
    """Beside the command line, wherever that one's link leads."""
    return os.path.join(os.path.dirname(os.path.realpath(program)), "index.js")


def srt_driver(program: str, place: Place) -> Runner:
    driver = os.path.join(DRIVERS, "srt.mjs")
    return Driven(["node", driver, srt_library(program), srt_settings(place)], place)


def sandlock_words(program: str, place: Place) -> list[str]:
    return [program, os.path.join(DRIVERS, "with_sandlock.py"), place.work, place.tmp]


def pinfold_words() -> list[str]:
    """The installed program; a tree that is only on the path has none, and is called as a module."""
    script = os.path.join(os.path.dirname(sys.executable), "pinfold")
    return [script] if os.path.exists(script) else [sys.executable, "-m", "pinfold"]


BARE = Contender(
    "bare",
    lambda: "",
    lambda _: "",
    lambda _, place: OneShots([], place),
    # What any one-shot in Python pays before its first line; the command that follows is an argument to it.
    lambda _, __: [sys.executable, "-I", "-c", "pass"],
)
CONTENDERS = (
    BARE,
    Contender(
        "pinfold",
        lambda: "",
        lambda _: __version__,
        lambda _, place: Pinfold(place),
        lambda _, __: [*pinfold_words(), "run", "--"],
    ),
    Contender(
        "least",
        lambda: "",
        lambda _: "",
        lambda _, place: OneShots([], place),
        lambda _, place: [sys.executable, least.__file__, place.work, place.tmp, "--"],
        lambda place: least.confine(place.work, place.tmp),
    ),
    Contender(
        "bwrap",
        find("bwrap"),
        version_of("--version"),
        lambda program, place: OneShots(bwrap_words(program, place), place),
        bwrap_words,
    ),
    Contender(
        "sandlock",
        find("venv/bin/python"),
        version_of("-c", "import sandlock; print(sandlock.__version__)"),
        lambda program, place: Driven(sandlock_words(program, place), place),
        sandlock_words,
    ),
    Contender(
        "codex",
        find("node_modules/@openai/codex-*/vendor/*/bin/codex", "node_modules/.bin/codex", "codex"),
        version_of("--version"),
        lambda program, place: OneShots(codex_words(program, place), place),
        codex_cold,
    ),
    Contender(
        "srt",
        find("node_modules/.bin/srt", "srt"),
        version_of("--version"),
        srt_driver,
        lambda program, place: [program, "-s", srt_settings(place)],
    ),
)


def require_sandbox_type(runner: Runner, place: Place) -> None:
    """That it runs things, lets them write in the workspace, and not beside it."""
    runner.run(["true"])
    runner.run(["touch", f"{place.work}/inside"])
    os.unlink(f"{place.work}/inside")
    outside = f"{place.top}/outside"
    try:
        runner.run(["touch", outside])
    except ContenderError:
        if not os.path.exists(outside):
            return
    raise ContenderError("a command wrote outside of its workspace")
