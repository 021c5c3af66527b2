"""`pinfold run` by the service: each function runs in a child, as two users."""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from pinfold.isolated import ENTRY, SOURCE, isolated_python, own_command
from pinfold.model.escape_text import quoted
from pinfold.service.local_socket import socket_path
from tests.patience import PATIENCE, wait_until
from tests.probe_module import probes_of, run
from tests.service.probes.conversations import Ended, environ, service, skip_without_sandbox

CLIENT = """
import sys
from pinfold.service import command_client, local_socket
said = command_client.command_line(sys.argv[1:], local_socket)
print("COLD", said and said[2].decode())
"""
"""A client that says so where the service does not run its command."""
COLD = "COLD"
KILLS = 6


def words(*arguments: str, packages: list[str] | None = None) -> list[str]:
    paths = packages or os.environ["PYTHONPATH"].split(":")
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {paths}\n{CLIENT}", *arguments]


def warm(
    *arguments: str,
    stdin: str = "",
    before: tuple[str, ...] = (),
    packages: list[str] | None = None,
    **more: str,
) -> Ended:
    """What a client has run by the service."""
    done = subprocess.run(
        [*before, *words(*arguments, packages=packages)],
        input=stdin,
        env=environ(**more),
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=90,
    )
    skip_without_sandbox(done.stderr)
    return Ended(done.returncode, done.stdout, done.stderr)


def pinfold(*arguments: str, **more: str) -> Ended:
    """The command `pinfold` as a person has it."""
    done = subprocess.run(
        own_command(*arguments),
        env=environ(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=90,
    )
    skip_without_sandbox(done.stderr)
    return Ended(done.returncode, done.stdout, done.stderr)


class Typed(NamedTuple):
    """A client at a terminal of its own."""

    process: subprocess.Popen[bytes]
    screen: int
    seen: bytearray

    def wait_for(self, text: bytes) -> None:
        def has_come() -> bool:
            if select.select([self.screen], [], [], 0)[0]:
                try:
                    self.seen.extend(os.read(self.screen, 1 << 16))
                except OSError:
                    return text in self.seen
            return text in self.seen

        wait_until(has_come)

    def type(self, keys: bytes) -> None:
        os.write(self.screen, keys)

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.screen)

    def end(self) -> int:
        """The exit code; its output is read meanwhile."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            if select.select([self.screen], [], [], 0.1)[0]:
                self.seen.extend(os.read(self.screen, 1 << 16))
        return self.process.wait(1)


@contextmanager
def at_terminal(*arguments: str) -> Iterator[Typed]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("=HHHH", 33, 99, 0, 0))
    process = subprocess.Popen(
        words(*arguments),
        env=environ(TERM="xterm"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        yield Typed(process, ours, bytearray())
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def is_gone(pid: str) -> bool:
    """Whether no process has this mark in its variables."""
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if pid.encode() in each.read_bytes() and "stat" in os.listdir(each.parent):
                return False
        except OSError:
            continue
    return True


# As it would be alone


def a_command_line_runs_as_it_would_alone() -> None:
    Path("sub").mkdir()
    with service():
        done = warm("-c", "echo out; echo err >&2; exit 7")
        assert (done.code, done.out, done.err) == (7, "out\n", "err\n"), done
        assert warm("-c", "kill -9 $$").code == 128 + 9
        assert warm("--", "printf", "%s|", "a b", "c").out == "a b|c|"
        assert warm("-c", "cat", stdin="given").out == "given"
        assert warm("-c", "echo $GREETING", GREETING="hello").out == "hello\n"
        assert warm("--cwd", "sub", "-c", "pwd").out == f"{os.getcwd()}/sub\n"
        assert warm("--timeout", "0.3", "--", "sleep", "50").code == 124
        os.umask(0o077)
        assert warm("-c", "umask").out == "0077\n"
        done = warm("--policy", "read-only", "-c", "touch made")
        assert done.code == 1 and "refused" in done.err and not Path("made").exists(), done
        assert warm("-c", "rm -rf /").code == 126
        with open("log", "wb") as log:
            subprocess.run(
                words("-c", "for i in 1 2; do echo o$i; echo e$i >&2; done"),
                env=environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=90,
                start_new_session=True,
            )
        assert Path("log").read_text() == "o1\ne1\no2\ne2\n", Path("log").read_text()
        alone = pinfold("run", "--nonsense", "--", "true")
        assert alone.code == 2 and "--nonsense" in alone.err, alone
        assert json.loads(pinfold("run", "--json", "--", "true").out)["exitCode"] == 0


def each_command_line_is_a_session_of_its_own() -> None:
    with service():
        assert warm("-c", "echo x > /tmp/left; sleep 600 > /dev/null 2>&1 &").code == 0
        seen = warm("-c", "ls /tmp; pgrep sleep; echo end")
        assert seen.out == "end\n", seen


def settings_count_for_the_next_command_line() -> None:
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    with service():
        for number in range(2):
            assert warm("-c", f"touch made{number}").code == 0
        settings.write_text('[sandbox]\npolicy = "read-only"\n')
        assert warm("-c", "touch made2").code == 1 and not Path("made2").exists()
        settings.write_text('[commands]\ndeny = ["touch"]\n')
        assert warm("-c", "touch made2").code == 126
        settings.unlink()
        Path(".pinfoldignore").write_text("secret\n")
        Path("secret").write_text("hidden")
        assert "hidden" not in warm("-c", "cat secret").out
        Path(".pinfoldignore").unlink()
        assert warm("-c", "cat secret").out == "hidden"


# How it ends


def the_end_of_a_client_ends_its_command() -> None:
    with service():
        for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
            mark = f"PINFOLD_TEST_{number.name}"
            with subprocess.Popen(
                words("-c", "sleep 600 & echo ready; sleep 600"),
                env=environ(**{mark: "1"}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            ) as client:
                assert client.stdout
                first = client.stdout.readline()
                assert first == "ready\n", first
                assert not is_gone(mark)
                client.send_signal(number)
                assert client.wait(PATIENCE) == code
            wait_until(partial(is_gone, mark))


def a_command_line_whose_service_dies_is_not_run_again() -> None:
    with service() as pid, at_terminal("-c", "echo once >> count; echo begun; sleep 600") as typed:
        before = typed.modes()
        typed.wait_for(b"begun")
        assert typed.modes() != before
        os.kill(pid, signal.SIGKILL)
        assert typed.end() == 125 and b"may have partly completed" in typed.seen, typed
        assert typed.modes() == before
    assert Path("count").read_text() == "once\n"


def whatever_is_killed_nothing_runs_twice_or_stays() -> None:
    """The client or the service, at any moment from before the request to after the end. Then the next line
    works."""
    chance = Random(21)
    for number in range(KILLS):
        mark, file = f"PINFOLD_TEST_{number}", Path(f"ran{number}")
        with service() as pid:
            client = subprocess.Popen(
                words("-c", f"echo $PINFOLD_PEN >> {file}; sleep 0.2; echo end"),
                env=environ(**{mark: "1"}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            time.sleep(chance.random() * 0.6)  # any moment will do
            is_client = chance.random() < 0.5
            os.kill(client.pid if is_client else pid, signal.SIGKILL)
            out, _ = client.communicate(timeout=PATIENCE)  # its reader does not wait for ever
            ran = file.read_text() if file.exists() else ""
            assert ran in ("", "1\n") and (COLD not in out or not ran), (number, out, ran)
            wait_until(partial(is_gone, mark))
    with service():
        assert warm("-c", "echo x").out == "x\n"


def without_a_service_a_command_line_runs_alone() -> None:
    done = warm("-c", "echo x")
    assert done.out == f"{COLD} None\n", done
    done = pinfold("run", "-c", "echo $PINFOLD_PEN; exit 3")
    assert (done.code, done.out) == (3, "1\n"), done


# At a terminal


def a_terminal_is_the_commands_window() -> None:
    line = (
        "stty size; tty; echo ready; read -r said; echo got:$said; "
        "until [ \"$(stty size)\" = '44 111' ]; do sleep 0.1; done; echo resized; read x"
    )
    with service(), at_terminal("-c", line) as typed:
        before = typed.modes()
        typed.wait_for(b"ready")
        assert b"33 99" in typed.seen and b"/dev/pts/" in typed.seen, typed.seen
        assert typed.modes() != before  # keys go in raw
        fcntl.ioctl(typed.screen, termios.TIOCSWINSZ, struct.pack("=HHHH", 44, 111, 0, 0))
        os.killpg(typed.process.pid, signal.SIGWINCH)
        typed.type(b"hello\r")
        typed.wait_for(b"got:hello")
        typed.wait_for(b"resized")
        typed.type(b"\x03")
        assert typed.end() == -signal.SIGINT, typed.seen  # a shell leaves its loop then
        assert typed.modes() == before


def a_question_is_asked_at_the_clients_terminal() -> None:
    Path.home().joinpath("other").mkdir()
    for key, code in ((b"y", 0), (b"n", 1)):
        with service(), at_terminal("-c", "echo x > ~/other/file; echo end:$?") as typed:
            typed.wait_for(b"Allow this write?")
            time.sleep(1)  # a question takes no key that was typed before it stood
            typed.type(key)
            typed.wait_for(b"end:%d" % code)
            assert typed.end() == 0, typed.seen
        assert Path.home().joinpath("other/file").exists() == (code == 0)
        Path.home().joinpath("other/file").unlink(missing_ok=True)


# Sessions with a name


def a_named_session_goes_on() -> None:
    with service():
        done = warm("--session", "dev", "-c", "echo begun > /tmp/state; python3 -m http.server 8123 "
                    "--bind 127.0.0.1 > /dev/null 2>&1 & echo started")  # fmt: skip
        assert done.out == "started\n", done
        wait_until(
            lambda: (
                warm("--session", "dev", "-c", "curl -sf http://127.0.0.1:8123/ >&2; echo $?").out == "0\n"
            )
        )
        assert warm("--session", "dev", "-c", "cat /tmp/state").out == "begun\n"
        assert warm("--session", "other", "-c", "cat /tmp/state").code == 1
        (dev,) = [each for each in json.loads(pinfold("sessions", "--json").out) if each["name"] == "dev"]
        assert warm("--session", dev["session"], "-c", "cat /tmp/state").out == "begun\n"
        other = warm("--session", "dev", "--network", "none", "-c", "true")
        assert other.code == 2 and "pinfold sessions end dev" in other.err, other
        assert pinfold("sessions", "end", "dev").code == 0
        assert pinfold("sessions", "end", "dev").code == 1
        assert warm("--session", "dev", "-c", "cat /tmp/state").code == 1


def a_named_session_starts_a_service() -> None:
    done = pinfold("run", "--session", "dev", "-c", "echo x > /tmp/left; exit 3")
    try:
        assert done.code == 3, done
        assert pinfold("run", "--session", "dev", "-c", "cat /tmp/left").out == "x\n"
    finally:
        ended = pinfold("sessions", "end", "dev")
        for socket in (Path.home() / ".local/state/pinfold/service").iterdir():
            socket.unlink()  # the service ends then
    assert ended.code == 0
    off = pinfold("run", "--session", "dev", "-c", "true", PINFOLD_HOOK_SERVICE="0")
    assert off.code == 125 and "PINFOLD_HOOK_SERVICE" in off.err, off


def a_named_session_says_why_it_is_not_used() -> None:
    """Typed input whose command's output is elsewhere: what is to be done is said."""
    ours, theirs = pty.openpty()
    command = own_command("run", "--session", "dev", "-c", "echo x")
    with service():
        done = subprocess.run(
            command,
            env=environ(),
            stdin=theirs,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=90,
        )
        assert done.returncode == 125 and "add `< /dev/null`" in done.stderr, done
        assert pinfold("run", "--session", "dev", "-c", "echo x").out == "x\n"
    os.close(ours)
    os.close(theirs)


def a_service_keeps_no_directory_busy() -> None:
    """It serves other projects after that in which it was started is gone."""
    (work := Path.cwd() / "gone").mkdir()
    os.chdir(work)
    with service() as pid:
        os.chdir("..")
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        work.rmdir()
        assert warm("--session", "dev", "-c", "pwd").out == f"{os.getcwd()}\n"


def a_service_makes_no_home() -> None:
    home = Path.home() / "gone"
    words = own_command("serve", "--agents")
    done = subprocess.run(words, env=environ(HOME=str(home)), stdin=subprocess.DEVNULL, timeout=90)
    assert done.returncode == 125 and not home.exists(), done


def a_named_session_is_resumed_and_never_wider() -> None:
    """Its terminal is asked, and what was granted for the session holds after a restart of the service."""
    Path.home().joinpath("other").mkdir()
    write = ("--session", "dev", "-c", "cp given ~/other/file; echo end:$?")
    Path("given").write_text("x")
    with service() as pid:
        with at_terminal(*write) as typed:
            typed.wait_for(b"Allow this write?")
            time.sleep(1)
            typed.type(b"s")
            typed.wait_for(b"end:0")
            assert typed.end() == 0
        assert "end:0" in warm(*write).out
        (dev,) = json.loads(pinfold("sessions", "--json").out)
        os.kill(pid, signal.SIGKILL)
    (left,) = json.loads(pinfold("sessions", "--json").out)
    assert left["session"] == dev["session"] and not left["is_held"]
    with service() as pid:
        for name in ("dev", dev["session"]):
            Path("given").write_text(name)
            done = warm("--session", name, *write[2:])
            assert "end:0" in done.out and Path.home().joinpath("other/file").read_text() == name, done
        os.kill(pid, signal.SIGKILL)
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sandbox]\npolicy = "read-only"\n')
    with service():
        Path("given").write_text("z")
        assert "end:1" in warm(*write).out
        assert warm("--session", "dev", "-c", "echo z > here").code == 1
    assert Path.home().joinpath("other/file").read_text() != "z" and not Path("here").exists()


# Who may use it


def a_command_line_from_elsewhere_runs_alone() -> None:
    """In another program's sandbox the service would lead out of it; other limits would not hold there."""
    idle = ["unshare", *(("--user", "--map-current-user") if os.geteuid() else ()), "--mount", "cat"]
    with service(), subprocess.Popen(idle, stdin=subprocess.PIPE) as other:
        wait_until(lambda: os.readlink(f"/proc/{other.pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"))
        assert warm("--session", "dev", "-c", "echo begun > /tmp/begun").code == 0
        places: dict[str, tuple[str, ...]] = {"no new rights": ("setpriv", "--no-new-privs")}
        user = () if not os.geteuid() else ("--user", "--map-current-user")
        for kind in ("--mount", "--net", "--pid --fork", "--ipc", "--uts", "--cgroup"):
            places[kind] = ("unshare", *user, *kind.split())
        places["user namespace"] = ("unshare", "--user", "--map-current-user")
        places["limit"] = ("prlimit", "--cpu=1000000:1000000")
        places["priority"] = ("nice",)
        if not os.geteuid():
            places["group"] = ("setpriv", "--regid", "12345", "--clear-groups")
            places["groups"] = ("setpriv", "--groups", "12345")
            places["capabilities"] = ("setpriv", "--bounding-set", "-sys_boot")
            places["root"] = ("/usr/sbin/chroot", f"/proc/{other.pid}/root")
        for place, before in places.items():
            for arguments in (("-c", "true"), ("--session", "dev", "-c", "cat /tmp/begun")):
                done = warm(*arguments, before=before)
                assert done.out.startswith(COLD) and "begun" not in done.out, (place, done)
        assert warm("--session", "dev", "-c", "cat /tmp/begun").out == "begun\n"


def another_user_has_no_part_in_it() -> None:
    """Its connection is closed unread."""
    with service():
        assert warm("-c", "echo x").out == "x\n"
        assert warm("-c", "echo x", XDG_CONFIG_HOME="/nowhere").out.startswith(COLD)
        if not os.geteuid():
            os.chmod(Path.home(), 0o755)
            done = warm("-c", "echo x", before=("setpriv", "--reuid", "12345", "--clear-groups"))
            assert done.out.startswith(COLD), done


def a_service_of_another_version_is_not_used() -> None:
    """Neither from another place, nor after an upgrade of its own files. What runs by then goes on."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(os.path.join(SOURCE, "pinfold"), Path.home() / "packages/pinfold", ignore=ignored)
    packages = [str(Path.home() / "packages"), *os.environ["PYTHONPATH"].split(":")]

    def client() -> Ended:
        return warm("-c", "echo x", packages=packages)

    code = f"import sys; sys.path[:0] = {packages}; {ENTRY}"
    start = isolated_python("-c", code, "serve", "--agents", site=True)
    with subprocess.Popen(start, env=environ(), stdin=subprocess.DEVNULL) as process:
        wait_until(lambda: client().out == "x\n")
        assert warm("-c", "echo x").out.startswith(COLD)
        with subprocess.Popen(
            words("-c", "echo begun; read line; echo $line", packages=packages),
            env=environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            assert running.stdout and running.stdout.readline() == "begun\n"
            Path(packages[0], "pinfold/cli/run.py").touch()
            for _ in range(10):
                assert client().out.startswith(COLD)
            assert running.communicate("rest\n", PATIENCE)[0] == "rest\n" and running.returncode == 0
        process.wait(PATIENCE)  # it ends by itself


def nothing_in_a_named_session_reaches_the_service() -> None:
    with service():
        path = socket_path(environ())
        connecting = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        done = warm("--session", "dev", "-c", f'ls -la ~/.local/state/pinfold; python3 -c "{connecting}"')
        assert done.code == 1 and os.path.basename(path) not in done.out, done
        again = " ".join(map(quoted, own_command("run", "--session", "dev", "-c", "echo inner")))
        done = warm("--session", "dev", "-c", again)
        assert done.code != 0 and "inner" not in done.out, done


HELPERS = ("words", "warm", "pinfold", "at_terminal", "is_gone")
NAMES = probes_of(globals(), *HELPERS)

if __name__ == "__main__":
    run(globals())
