"""Attacks on the service of agents' conversations: each function runs in a child, as two users.

The attacker is a program outside of every sandbox that lies, one in another program's sandbox, one of another
user, or a command in a sandbox of ours.
"""

import array
import os
import random
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from operator import le
from pathlib import Path

from pinfold.service import local_socket as local
from tests.patience import wait_until
from tests.probe_module import PYTHON, SKIPPED, probes_of, run
from tests.service.probes.conversations import (
    begun,
    environ,
    hook,
    is_warm,
    listens,
    payload,
    service,
    shell,
    turn,
)

ROUNDS = 300
NOBODY = 54322
"""A uid that no account and no other test has."""
SAY = """
import sys
from pinfold.service import local_socket as local
import _socket, json
words, environ = json.loads(sys.stdin.read())
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.settimeout(30)
local.call_with(connection.connect, sys.argv[1])
try:
    local.send(connection, sys.argv[2], words, environ, sys.argv[3].encode(), (0, 1, 2))
    print("replied", local.receive_reply(connection)[0])
except OSError:
    print("no reply")
"""
"""A client that believes any service, and says what it was given to say."""


def words_for(line: str, conversation: str = "a", *, cwd: str | None = None, umask: str = "18") -> list[str]:
    """What a client says to have a line run."""
    given = ["--asked-by", "claude-code", "--conversation", conversation, "--project", os.getcwd()]
    return [umask, os.getcwd() if cwd is None else cwd, *given, "-c", line]


def connected() -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    local.call_with(found.connect, local.socket_path(environ()))
    found.settimeout(30)
    return found


def replied(
    words: Sequence[str],
    variables: Mapping[str, str] | None = None,
    streams: Sequence[int] | None = None,
    connection: socket.socket | None = None,
) -> int | None:
    """The code that a client of these words is sent; None if it is sent none."""
    with ExitStack() as stack:
        null = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, null)
        talk = stack.enter_context(connection or connected())
        given = environ() if variables is None else variables
        try:
            local.send(talk, "run", words, given, b"", (null,) * 3 if streams is None else streams)
            code: int = local.receive_reply(talk)[0]
        except OSError:
            return None
        return code


def service_has(pid: int) -> tuple[int, int]:
    """Its open descriptors and its threads."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


# A program outside that lies


def a_lie_about_variables_gains_nothing() -> None:
    elsewhere = Path.home() / "elsewhere"
    for settings in (elsewhere / ".config/pinfold", elsewhere / "pinfold"):
        settings.mkdir(parents=True)
        (settings / "settings.toml").write_text('[sandbox]\npolicy = "danger-full-access"\n')
    with service():
        begun()
        line = f"touch {Path.home()}/outside; cat /tmp/begun > seen"
        for lie in (
            {"HOME": str(elsewhere)},
            {"XDG_CONFIG_HOME": str(elsewhere)},
            {"XDG_STATE_HOME": str(elsewhere)},
            {"HOME": ""},
            {"HOME": "."},
            {"PINFOLD_PEN": "1"},
            {local.SWITCH: "0"},
        ):
            assert replied(words_for(line), {**environ(), **lie}) == local.NOT_HERE, lie
        assert not Path("seen").exists()
        for lie in (
            {"PINFOLD_POLICY": "danger-full-access"},
            {"PINFOLD_MODE": "auto"},
            {"PINFOLD_NETWORK": "all"},
            {"LD_PRELOAD": f"{os.getcwd()}/x.so", "BASH_ENV": f"{os.getcwd()}/x", "PATH": os.getcwd()},
            {"TMPDIR": str(Path.home()), "PWD": str(Path.home()), "SHELL": "/nowhere"},
            {"A=B": "", "": "x", "\udcff": "\udcff"},
        ):
            replied(words_for(line), {**environ(), **lie})
            assert not (Path.home() / "outside").exists(), lie
        assert is_warm()


def a_lie_about_the_directory_gains_nothing() -> None:
    secret = Path.home() / ".ssh/id_ed25519"
    secret.parent.mkdir()
    secret.write_text("PRIVATE\n")
    Path("sub").mkdir()
    with service():
        begun()
        for cwd in ("", ".", "sub", "../home", "\udcff", "(unreachable)/x"):
            assert replied(words_for("touch here", cwd=cwd)) == local.NOT_HERE, cwd
        for cwd in (
            str(secret.parent),
            f"{os.getcwd()}/../home/.ssh",
            "/proc/self/root/root",
            "/dev/fd/3",
        ):
            line = f"cat id_ed25519 > {os.getcwd()}/seen; touch here"
            assert replied(words_for(line, cwd=cwd)) != 0, cwd
        for umask in ("", "-1", "x", "99999999999999999999", "1.5", "²"):
            assert replied(words_for("touch here", umask=umask)) == local.NOT_HERE, umask
        assert not Path("here").exists() and not Path("sub/here").exists()
        assert not Path("seen").exists() or not Path("seen").read_text()
        assert is_warm()


def a_lie_about_the_conversation_gains_nothing() -> None:
    """No name leads to another conversation's things, or out of the directory of records."""
    with service():
        begun()
        records = Path.home() / ".local/state/pinfold/conversations"
        for name in ("", "../a", "a\n", "A", "a ", "/etc", "x" * 100_000, "\udcff", "a\ta", "claude-code"):
            replied(words_for("cat /tmp/begun > seen", name))
            assert not Path("seen").exists() or not Path("seen").read_text(), name
        assert all(len(each) == 32 for each in os.listdir(records))
        assert is_warm()


def a_lie_about_an_answer_gains_nothing() -> None:
    """Only a hook's question leads to a grant or to a line that a rule asks about."""
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[commands]\nask = ["touch asked"]\n')
    tickets = Path.home() / ".local/state/pinfold/tickets"
    with service():
        begun()
        assert replied(words_for("touch asked")) == 126
        hook("touch asked", "b")
        assert tickets.is_dir()
        assert replied(words_for("touch asked; true")) == 126
        assert replied(words_for("pinfold request --write ~")) != 0
        assert replied([*words_for("touch asked"), "--asked-by", "codex"]) == local.NOT_HERE
        for more in (["--policy", "danger-full-access"], ["--write", "/"], ["--network", "all"]):
            assert replied([*words_for("true"), *more]) == local.NOT_HERE, more
        assert replied([*words_for("touch ~/outside"), "--dangerously-disable-sandbox"]) == 126
        assert not Path("asked").exists() and not (Path.home() / "outside").exists()


def a_lie_about_descriptors_gains_nothing() -> None:
    secret = Path.home() / ".ssh"
    secret.mkdir()
    (secret / "id_ed25519").write_text("PRIVATE\n")
    with service() as pid, ExitStack() as stack:
        begun()
        before = service_has(pid)

        def opened(path: str, flags: int) -> int:
            found = os.open(path, flags | os.O_CLOEXEC)
            stack.callback(os.close, found)
            return found

        null, directory = opened(os.devnull, os.O_RDWR), opened(str(secret), os.O_RDONLY)
        handle, memory = opened(str(secret), os.O_PATH), os.memfd_create("x")
        stack.callback(os.close, memory)
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        stack.enter_context(theirs)
        again = stack.enter_context(connected())
        line = "cat /proc/self/fd/*/id_ed25519 > seen; touch /proc/self/fd/0/made; ls /proc/self/fd/"
        odd = (directory, handle, memory, theirs.fileno(), again.fileno())
        for count in (0, 1, 2, 4):
            code = replied(words_for("touch here"), streams=[null] * count)
            assert code in (local.NOT_HERE, None), count
        for each in odd:
            for place in range(3):
                streams = [null] * 3
                streams[place] = each
                replied(words_for(line), streams=streams)
        assert not Path("here").exists() and Path("seen").read_text() == ""
        assert os.listdir(secret) == ["id_ed25519"]
        assert is_warm()
        wait_until(lambda: all(map(le, service_has(pid), before)))


def one_that_has_ended_is_not_served() -> None:
    """Its number may be another's by now."""
    with service():
        begun()
        ours = connected()
        ours.close()
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        child = os.fork()
        if not child:
            with connected() as made:
                socket.send_fds(left, [b"x"], [made.fileno()])
            os._exit(0)
        _, (descriptor,), _, _ = socket.recv_fds(right, 1, 1)
        os.waitpid(child, 0)
        inherited = socket.socket(fileno=descriptor)
        inherited.settimeout(30)
        assert replied(words_for("cat /tmp/begun > seen"), connection=inherited) == local.NOT_HERE
        assert not Path("seen").exists() and is_warm()
        left.close()
        right.close()


def garbage_does_not_stop_the_service() -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    dice = random.Random(seed)
    with service() as pid:
        begun()
        before = service_has(pid)
        fields = "\0".join(["run", "0", *words_for("touch ran")]).encode()
        whole = len(fields).to_bytes(4, "big") + bytes(4) + fields
        pieces: tuple[Callable[[], bytes], ...] = (
            lambda: dice.randbytes(dice.randrange(1, 4000)),
            lambda: whole[: dice.randrange(len(whole))],
            lambda: b"\xff" * 8,
            lambda: (1 << 23).to_bytes(4, "big") + bytes(4) + bytes(70_000),
            lambda: bytes(8),
            lambda: _framed(b"run"),
            lambda: _framed(b"hook\x000\x00claude-code", dice.randbytes(100)),
            lambda: _framed(b"hook\x00-1\x00claude-code"),
            lambda: _framed(b"run\x0099999999999999999999\x00x"),
            lambda: _framed(b"\x00" * 50_000),
            lambda: _framed(b"__init__\x000"),
            lambda: _framed(b"run\x000\x0018\x00/"),
            lambda: _framed(dice.randbytes(500)),
        )
        with ExitStack() as open_ones:
            for number in range(ROUNDS):
                talk = connected()
                with suppress(OSError):
                    _send_oddly(talk, dice.choice(pieces)(), dice)
                if number % 10:
                    talk.close()
                else:
                    open_ones.enter_context(talk)  # it says no more, and stays
            assert is_warm()
        assert not Path("ran").exists()
        wait_until(lambda: all(map(le, service_has(pid), before)))


def _framed(fields: bytes, data: bytes = b"") -> bytes:
    return len(fields).to_bytes(4, "big") + len(data).to_bytes(4, "big") + fields + data


def _send_oddly(talk: socket.socket, data: bytes, dice: random.Random) -> None:
    """In pieces, some of which bring descriptors."""
    talk.settimeout(1)
    while data:
        size = dice.choice((1, 3, 8, 9, len(data)))
        count = dice.choice((0, 0, 1, 3, 4, 250))
        rights = array.array("i", [0] * count)
        talk.sendmsg([data[:size]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if count else [])
        data = data[size:]


def a_service_without_a_free_descriptor_goes_on() -> None:
    with service() as pid:
        begun()
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, limits[1]))
        assert hook("true").verdict == "allow"  # the hook answers by itself
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        wait_until(is_warm)


# A program in another program's sandbox


def places() -> list[list[str]]:
    user = ["--user", "--map-current-user"] if os.geteuid() else []
    kinds = ("--mount", "--net", "--pid --fork", "--ipc", "--uts")
    return [["setpriv", "--no-new-privs"], *(["unshare", *user, *kind.split()] for kind in kinds)]


def a_hook_elsewhere_answers_by_itself() -> None:
    """It neither ends a conversation of here, nor adds a project to it."""
    other = Path.home() / "other"
    other.mkdir()
    with service():
        begun()
        ending = payload("", "a", hook_event_name="SessionEnd", reason="other")
        adding = payload("true", "a", cwd=str(other))
        for place in places():
            for data in (ending, adding):
                done = _says("hook", ["claude-code"], data, place=place)
                assert done == f"replied {local.NOT_HERE}\n", (place, done)
            done = _says("run", words_for("cat /tmp/begun > seen"), place=place)
            assert done == f"replied {local.NOT_HERE}\n", (place, done)
        assert is_warm() and not Path("seen").exists()
        assert turn(f"touch {other}/x").code == 1


def a_service_elsewhere_is_not_believed() -> None:
    """What it sees need not be what is here: it may have other settings in the place of the person's."""
    if os.geteuid():
        print("another mount namespace of the same users needs root")
        sys.exit(SKIPPED)
    from pinfold.isolated import own_command

    words = ["unshare", "--mount", *own_command("serve", "--agents")]
    with subprocess.Popen(words, env=environ(), stdin=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: os.path.exists(local.socket_path(environ())) or process.poll() is not None)
            assert local.connect(local.socket_path(environ())) is None
            assert shell(hook("echo $PINFOLD_PEN").line).out == "1\n"
        finally:
            process.terminate()


def _says(
    verb: str,
    words: Sequence[str],
    data: str = "",
    *,
    place: Sequence[str] = (),
    user: int | None = None,
    path: str = "",
) -> str:
    """What a client hears that says this in that place."""
    import json

    done = subprocess.run(
        [
            *place,
            sys.executable if user is None else PYTHON,
            "-c",
            SAY,
            path or local.socket_path(environ()),
            verb,
            data,
        ],
        input=json.dumps([list(words), environ()]),
        env={**environ(), "PYTHONPATH": os.environ["PYTHONPATH"]},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout or done.stderr.rpartition("\n")[0].rpartition("\n")[2]


# Another user


def another_user_is_not_served() -> None:
    """Not even where the directories would let it in."""
    if os.geteuid():
        print("only root can be another user")
        sys.exit(SKIPPED)
    with service():
        begun()
        path = local.socket_path(environ())
        assert "PermissionError" in _says("hook", ["claude-code"], payload("true", "a"), user=NOBODY)
        directory = os.path.dirname(path)
        while directory != "/":
            os.chmod(directory, os.stat(directory).st_mode | 0o011)
            directory = os.path.dirname(directory)
        os.chmod(path, 0o777)
        assert _says("hook", ["claude-code"], payload("true", "a"), user=NOBODY) == "no reply\n"
        assert _says("run", words_for("cat /tmp/begun > seen"), user=NOBODY) == "no reply\n"
        assert is_warm() and not Path("seen").exists()


# A command in a sandbox of ours


def no_command_takes_the_services_place() -> None:
    """Also where the project is the home that the service's socket lies in."""
    os.chdir(Path.home())
    with service():
        path = local.socket_path(environ())
        mark = os.stat(path).st_ino
        talking = f"import socket, sys; s = socket.socket(socket.AF_UNIX); getattr(s, sys.argv[1])({path!r})"
        for line in (
            f'python3 -c "{talking}" connect',
            f'rm -f {path}; python3 -c "{talking}" bind',
            "mv .local moved",
            "mv .local/state moved",
            "mv .local/state/pinfold moved",
            "rm -rf .local/state/pinfold/service",
            "mkdir new && mv -T new .local/state/pinfold/service",
            "ln -sfnT /tmp .local/state/pinfold/service",
            f"ln {path} linked",
            f"ls .local/state/pinfold/service/ | grep {os.path.basename(path)}",
        ):
            done = turn(line)
            assert "connect" not in line or done.code, (line, done)
            assert os.stat(path).st_ino == mark, (line, done)
        assert listens()


def no_command_makes_a_service_where_there_is_none() -> None:
    os.chdir(Path.home())
    directory = os.path.dirname(local.socket_path(environ()))
    line = f"mkdir -p {directory} && touch {directory}/made; mkdir -p .local/state/pinfold/service"
    alone = hook(line).line
    wait_until(listens)
    with connected() as talk:
        pid, _ = local.peer_of(talk)
    os.kill(pid, 9)
    wait_until(lambda: not listens())
    made = shell(alone)
    assert not os.path.exists(f"{directory}/made"), made


def a_command_gets_no_descriptor_of_the_service() -> None:
    """Also where others are served at the same time."""
    with service():
        line = hook("for i in 1 2 3 4 5 6 7 8; do ls -l /proc/self/fd; done", agent="codex").line
        running = [
            subprocess.Popen(
                ["bash", "-c", line],
                env=environ(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(8)
        ]
        for each in running:
            out, err = each.communicate(timeout=60)
            assert each.returncode == 0, err
            held = {row.split()[-3] for row in out.splitlines() if "->" in row}
            assert held == {"0", "1", "2", "3"}, out  # the last is of `ls` itself
            assert "socket" not in out, out


NAMES = probes_of(globals(), "words_for", "connected", "replied", "service_has", "places")
LIES = [name for name in NAMES if name.startswith("a_lie_")]
ELSEWHERE = (
    "one_that_has_ended_is_not_served",
    "a_hook_elsewhere_answers_by_itself",
    "a_service_elsewhere_is_not_believed",
    "another_user_is_not_served",
)
INSIDE = [name for name in NAMES if "_command_" in name]
GARBAGE = [name for name in NAMES if name not in (*LIES, *ELSEWHERE, *INSIDE)]

if __name__ == "__main__":
    run(globals())
