"""The corpus' rows about files, other processes and privileges, tried in a fence; each runs in a child.

A function is named by its row: `FS_014` tries FS-014. `ELSEWHERE` has the rows not tried here, and why.
"""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from tempfile import NamedTemporaryFile
from typing import Any

import pinfold
from tests.patience import wait_until
from tests.probe_module import PYTHON

WORK = os.getcwd()
HOME = os.environ["HOME"]
OUT = f"{HOME}/out"

FILE_TOOLS = "about file tools: tests/corpus/test_file_rows.py"
OTHER_PLATFORM = "about macOS or Windows"
OTHER_PRODUCT = "about a helper program that pinfold does not use"
ELSEWHERE = {
    **dict.fromkeys(("FS-007", "FS-008", "FS-009", "FS-011", "FS-012"), FILE_TOOLS),
    **dict.fromkeys(("FS-057", "FS-085", "IP-026", "IP-027", "IP-028", "IP-029"), OTHER_PLATFORM),
    **dict.fromkeys(("FS-021", "PR-031", "PR-033"), OTHER_PRODUCT),
    "FS-048": "about patterns of settings: tests/settings",
    "FS-049": "about patterns of settings: tests/settings",
    "FS-051": "about the managed file: tests/settings/test_load.py",
    "FS-053": "there is no patch tool: tests/files tries the one that edits",
    "FS-059": "a matter of time: bench",
    "FS-080": "fork bombs and output without end: tests/sandbox/probes/pen.py",
    "FS-074": "nothing that pinfold reads back is kept in a directory that others share",
    "PR-019": "the smoke test of each architecture is every test here",
    "IP-020": "tried by tests/web/probes/page_from_inside.py and tests/service/probes/calls.py",
}


def opened(settings: dict[str, Any] | None = None, **given: Any) -> pinfold.Session:
    return pinfold.Session([WORK], settings=settings or {}, **given)


def lines(command: str, settings: dict[str, Any] | None = None) -> pinfold.Result:
    with opened(settings) as session:
        return session.run(command)


def blocked(command: str, *made: str, settings: dict[str, Any] | None = None) -> pinfold.Result:
    """Runs it; it must fail, and none of these may exist afterwards."""
    result = lines(command, settings)
    assert result.ran, result.refusal
    assert result.exit_code != 0, result
    for path in made:
        assert not os.path.lexists(path), (path, result)
    return result


def host(*arguments: str, cwd: str = WORK) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    command = ("git", *settings, *arguments[1:]) if arguments[0] == "git" else arguments
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def put(path: str, text: str = "x") -> str:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def text(path: str) -> str:
    with open(path) as file:
        return file.read()


GIT = {"filesystem": {"git_writes": True}}
COMMIT = "git -c user.name=A -c user.email=a@b commit"


def FS_014() -> None:
    put(f"{OUT}/ro_file")
    blocked(f"ln {OUT}/ro_file ./l && echo y >> l", "l")
    assert text(f"{OUT}/ro_file") == "x"


def FS_022() -> None:
    blocked("mkdir -p .claude && echo '{}' > .claude/settings.json", ".claude/settings.json")
    blocked("mkdir -p x/.claude && echo '{}' > x/.claude/settings.json", "x/.claude/settings.json")


def FS_026() -> None:
    blocked("git init && echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit", settings=GIT)
    blocked("git init -q sub; echo x > sub/.git/hooks/pre-commit", "sub/.git/hooks/pre-commit", settings=GIT)


def FS_028() -> None:
    blocked("ln -s /tmp/evil .claude", ".claude")


def FS_029() -> None:
    config = f"[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=touch {WORK}/pwned;"
    head = "echo ref: refs/heads/x > HEAD"
    for number, line in enumerate(
        (
            f"mkdir objects refs; {head}; printf '{config}' > config",
            f"printf '{config}' > config; {head}; mkdir refs objects",
            f"mkdir t; cd t; printf '{config}' > config; {head}; mkdir refs objects; cd ..; mv t u; mv u/* .",
        )
    ):
        place = f"{WORK}/{number}"
        os.mkdir(place)
        lines(f"cd {place}; {line}")
        for directory, _, _ in os.walk(place):
            subprocess.run(["git", "status"], cwd=directory, capture_output=True, check=False)
        assert not os.path.exists("pwned"), "the host's git ran it"


def FS_033() -> None:
    host("git", "init")
    blocked("echo '* filter=e' > .git/info/attributes", ".git/info/attributes", settings=GIT)


def FS_035() -> None:
    host("git", "init")
    blocked("echo /tmp/evil > .git/commondir", ".git/commondir", settings=GIT)


def FS_037() -> None:
    host("git", "init")
    put("f")
    result = lines(f"git add f && {COMMIT} -qm ok && git log --oneline", GIT)
    assert result.exit_code == 0, result


def FS_038() -> None:
    put("f")
    for command in ("init", "add f", "commit -qm one", f"worktree add -q {HOME}/wt"):
        host("git", *command.split())
    with pinfold.Session([f"{HOME}/wt"], settings=GIT) as session:
        result = session.run(f"{COMMIT} -q --allow-empty -m ok")
        assert result.exit_code == 0, result
        assert session.run(f"echo x > {WORK}/.git/hooks/pre-commit").exit_code
        assert session.run(f"echo x >> {WORK}/.git/config").exit_code
        FS_039(session)
        FS_040(session)


def FS_039(session: pinfold.Session | None = None) -> None:
    if session is None:
        return FS_038()
    assert session.run(f"echo y > {WORK}/f").exit_code and text("f") == "x"
    return None


def FS_040(session: pinfold.Session | None = None) -> None:
    if session is None:
        return FS_038()
    # A linked worktree shares its refs with the main checkout, whose own HEAD and index must not move.
    before = host("git", "rev-parse", "HEAD"), text(f"{WORK}/.git/HEAD")
    assert session.run(f"{COMMIT.replace('git ', f'git -C {WORK} ', 1)} -q --allow-empty -m x").exit_code
    assert (host("git", "rev-parse", "HEAD"), text(f"{WORK}/.git/HEAD")) == before
    return None


def FS_042() -> None:
    put(f"{HOME}/keys/work", "key")
    put(f"{HOME}/.ssh/config", "Host *\n  IdentityFile ~/keys/work\n")
    assert "key" not in lines(f"cat {HOME}/keys/work").stdout


def FS_043() -> None:
    put(f"{HOME}/.ssh/id_rsa", "key")
    for settings in ({}, {"filesystem": {"write": [HOME]}}):
        blocked(f"rm {HOME}/.ssh/id_rsa", settings=settings)
        blocked(f"mv {HOME}/.ssh/id_rsa .", "id_rsa", settings=settings)
        lines(f"mv {HOME}/.ssh {HOME}/moved; cat {HOME}/moved/id_rsa > stolen", settings)
        assert not os.path.exists("stolen") or not text("stolen")
    assert text(f"{HOME}/.ssh/id_rsa") == "key"


def FS_045() -> None:
    put("sub/.env", "secret")
    with opened({"filesystem": {"hide": [".env"]}}) as session:
        session.run("mv sub sub2")
        assert "secret" not in session.run("cat sub2/.env sub/.env").stdout


def FS_060() -> None:
    host("git", "init")
    with opened() as session:
        session.run("true")
        assert host("git", "status", "--porcelain", "--ignored") == ""
    assert host("git", "status", "--porcelain", "--ignored") == ""
    assert os.listdir(WORK) == [".git"]


def FS_061() -> None:
    host("git", "init")

    def work() -> None:
        with opened() as session:
            assert session.run("true").exit_code == 0

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert host("git", "status", "--porcelain", "--ignored") == ""


def FS_062() -> None:
    host("git", "init")
    line = f"echo > {OUT}/x; touch running; sleep 90"
    program = f"import pinfold; pinfold.Session([{WORK!r}], settings={{}}).run({line!r})"
    process = subprocess.Popen([sys.executable, "-c", program])
    wait_until(lambda: os.path.exists("running"))
    process.kill()
    process.wait()
    os.unlink("running")
    assert host("git", "status", "--porcelain", "--ignored") == ""


def FS_063() -> None:
    path = put(f"{OUT}/f")
    os.chmod(path, 0o644)
    before = os.stat(path)
    for command in (f"chmod 600 {path}", f"touch -d 2000-01-01 {path}", f"setfattr -n user.x -v y {path}"):
        blocked(command)
    assert (os.stat(path).st_mode, os.stat(path).st_mtime) == (before.st_mode, before.st_mtime)


def FS_066() -> None:
    os.makedirs(OUT)
    blocked(f"echo x > /proc/self/root{OUT}/canary", f"{OUT}/canary")


def FS_068() -> None:
    result = lines("ls -l /proc/$PPID/fd; cat /proc/$PPID/fd/3; ls -d /proc/[0-9]*")
    assert f"/proc/{os.getpid()}\n" not in result.stdout and "socket:" not in result.stdout, result


def FS_069() -> None:
    log = os.open(put(f"{OUT}/log", ""), os.O_APPEND | os.O_WRONLY)
    os.dup2(log, 9, inheritable=True)
    blocked("echo x >&9")
    assert text(f"{OUT}/log") == ""


def FS_073() -> None:
    before = text("/proc/sys/kernel/core_pattern")
    blocked("echo x > /proc/sys/kernel/core_pattern")
    blocked("echo 1 > /sys/kernel/mm/ksm/run")
    assert text("/proc/sys/kernel/core_pattern") == before


def FS_075() -> None:
    with opened() as session:
        assert session.run("test -d $TMPDIR && echo x > $TMPDIR/a").exit_code == 0
        assert session.run("cat $TMPDIR/a").stdout == "x\n"
        where = session.run("echo $TMPDIR").stdout.strip()
        assert not os.path.exists(f"{where}/a")
        with opened() as other:
            assert other.run("cat $TMPDIR/a").exit_code


def FS_076() -> None:
    os.makedirs(OUT)
    with opened() as session:
        session.run(f'ln -sfn {OUT} "$TMPDIR"; rm -rf $TMPDIR; mv $TMPDIR /tmp2; ln -s {OUT} $TMPDIR')
        session.run("echo x > $TMPDIR/canary")
    assert os.listdir(OUT) == []


def FS_078() -> None:
    shim = put(f"{HOME}/.pyenv/shims/python")
    blocked(f"echo evil > {shim}")
    assert text(shim) == "x"


def FS_079() -> None:
    for cache in (".cache/uv/x", ".npm/_cacache/x"):
        path = put(f"{HOME}/{cache}")
        blocked(f"echo evil > {path}")
        assert text(path) == "x"


def FS_081() -> None:
    mine = f"617.{os.getpid()}"  # the same may be tried beside
    sought = ["pgrep", "-f", f"sleep {mine}$"]
    with opened() as session:
        assert session.run(f"(setsid sleep {mine} &) ; exit").exit_code == 0
        wait_until(lambda: session.run(sought).exit_code == 0)
    wait_until(lambda: subprocess.run(sought, capture_output=True, check=False).returncode == 1)


def FS_082() -> None:
    for path in (".Git/Hooks/pre-commit", ".cUrSoR/mcp.json", ".CLAUDE/settings.json", ".git. /config"):
        blocked(f"mkdir -p '{os.path.dirname(path)}' && echo x > '{path}'", path)


def PR_001() -> None:
    for command in ("sudo -n id", "su -c id", "pkexec id"):
        result = lines(command)
        assert not result.ran or result.exit_code, result
    # Root's own file with the setuid bit gives nothing either.
    assert "euid=0" not in lines("/usr/bin/su root -c id </dev/null; /usr/bin/mount -o bind / /mnt").stdout
    assert "NoNewPrivs:\t1" in lines("cat /proc/self/status").stdout
    assert "CapEff:\t0000000000000000" in lines("cat /proc/self/status").stdout


def PR_005() -> None:
    assert "NESTED" not in lines("unshare -Urm sh -c 'mount -t tmpfs t /mnt && echo NESTED'").stdout


def PR_007() -> None:
    assert "uid=" not in lines("nsenter -t 1 -m -n id").stdout


def python(program: str) -> pinfold.Result:
    """Runs a program in the fence; it says `GOT` when it got what it wants."""
    head = "import ctypes, errno, os, socket, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    with opened() as session:
        result = session.run([PYTHON, "-I", "-S", "-c", head + program])
    assert result.exit_code == 0 and "GOT" not in result.stdout, result
    return result


def call(number: int, *arguments: str) -> str:
    given = ", ".join((f"ctypes.c_long({number})", *arguments))
    return f"print('GOT' if libc.syscall({given}) >= 0 else errno.errorcode[ctypes.get_errno()])"


def PR_010() -> None:
    python(
        "handle = ctypes.create_string_buffer(b'\\x80\\0\\0\\0' + bytes(132)); m = ctypes.c_int()\n"
        "libc.name_to_handle_at(-100, b'/', handle, ctypes.byref(m), 0)\n"
        "fd = os.open('/', os.O_RDONLY)\n"
        "print('GOT' if libc.open_by_handle_at(fd, handle, 0) >= 0 else 'no')\n"
    )


def PR_013() -> None:
    python(
        "for pid in (1, os.getppid(), *map(int, filter(str.isdigit, os.listdir('/proc')))):\n"
        "    if pid == os.getpid(): continue\n"
        "    try: os.close(os.open(f'/proc/{pid}/mem', os.O_RDWR)); print('GOT', pid)\n"
        "    except OSError: pass\n"
    )


def PR_015() -> None:
    python(
        "import signal\n"
        f"for pid in ({os.getpid()}, {os.getppid()}, 1):\n"
        "    try: os.kill(pid, signal.SIGSTOP)\n"
        "    except OSError: pass\n"
    )
    with opened() as session:
        for line in ("kill -9 1; kill -STOP 1", "kill -STOP $PPID", "kill -9 $PPID"):
            with suppress(pinfold.ConfinementError):  # it ended the pen it ran in, and nothing else
                session.run(line)
        assert session.run("echo alive").stdout == "alive\n"


def PR_016() -> None:
    assert python(call(425, "1", "ctypes.create_string_buffer(256)")).stdout in ("ENOSYS\n", "EPERM\n")


def PR_018() -> None:
    program = (
        "int main() { int r;"
        '__asm__ volatile("int $0x80" : "=a"(r) : "a"(102), "b"(1), "c"(0)); return r == -14 ? 42 : 0; }'
    )
    source = put(f"{WORK}/compat.c", program)
    subprocess.run(["gcc", "-o", "compat", source], check=True)
    assert lines("./compat").exit_code != 42


def PR_022() -> None:
    assert python(call(323, "0")).stdout in ("ENOSYS\n", "EPERM\n")


def PR_024() -> None:
    for number in (246, 175, 176, 313, 320, 169):
        assert python(call(number, "0", "0", "0")).stdout in ("ENOSYS\n", "EPERM\n")


def PR_026() -> None:
    assert lines("setarch -R id").exit_code in (0, 1, 126)


def terminal_call(request: str) -> None:
    program = (
        "import fcntl, termios\n"
        f"r = libc.ioctl(0, ctypes.c_ulong({request}), ctypes.create_string_buffer(b'\\x03', 8))\n"
        "print('GOT' if r == 0 else errno.errorcode[ctypes.get_errno()])\n"
    )
    head = "import ctypes, errno, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    with opened() as session:
        execution = session.start([PYTHON, "-I", "-S", "-c", head + program], terminal=(24, 80))
        data = b"".join(event.data for event in execution.events() if isinstance(event, pinfold.Output))
    assert b"EPERM" in data and b"GOT" not in data, data


def PR_027() -> None:
    terminal_call("0x5412")


def PR_028() -> None:
    terminal_call("0x541C")


def PR_029() -> None:
    terminal_call("0x5412 | (1 << 32)")


def listening(path: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, kind)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    server.bind(path)
    if kind != socket.SOCK_DGRAM:
        server.listen()
    server.settimeout(0.2)
    return server


def unreached(server: socket.socket) -> None:
    try:
        data = server.recv(1) if server.type == socket.SOCK_DGRAM else server.accept()
    except TimeoutError:
        return
    raise AssertionError(f"the host's socket was reached: {data!r}")


def connects(path: str) -> str:
    return (
        f"path = {path!r}\n"
        "for kind in (1, 2, 5):\n"
        "    try:\n"
        "        s = socket.socket(socket.AF_UNIX, kind); s.connect(path); s.send(b'x'); print('GOT', kind)\n"
        "    except OSError as error: print(error)\n"
        "try:\n"
        "    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', path); print('GOT dgram')\n"
        "except OSError as error: print(error)\n"
    )


def IP_001() -> None:
    for place in (OUT, WORK):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            path = f"{place}/{kind}.sock"
            with listening(path, kind) as server:
                python(connects(path))
                unreached(server)


def IP_002() -> None:
    assert lines("ls /var/run/docker.sock /run/docker.sock").exit_code
    assert "containers" not in lines("ls /run /var/run").stdout


def IP_006() -> None:
    assert lines("ls /run/dbus /run/systemd").exit_code


def IP_007() -> None:
    os.environ["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={OUT}/bus"
    assert lines("echo $DBUS_SESSION_BUS_ADDRESS").stdout == "\n"


def IP_009() -> None:
    IP_007()


def IP_010() -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0pinfold-corpus")
    server.listen()
    server.settimeout(0.2)
    with server:
        python(connects("\0pinfold-corpus"))
        unreached(server)


def IP_011() -> None:
    os.environ.update(DISPLAY=":0", XAUTHORITY=f"{HOME}/.Xauthority")
    assert lines("echo $DISPLAY$XAUTHORITY; ls /tmp/.X11-unix").stdout == "\n"


def IP_013() -> None:
    path = f"/tmp/tmux-corpus-{os.getpid()}/default"
    with listening(path) as server:
        python(connects(path))
        unreached(server)
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


def IP_015() -> None:
    os.environ["VSCODE_IPC_HOOK_CLI"] = f"{OUT}/code.sock"
    assert lines("echo $VSCODE_IPC_HOOK_CLI").stdout == "\n"


def IP_017() -> None:
    path = f"{HOME}/.cache/nvim.sock"
    with listening(path) as server:
        python(connects(path))
        unreached(server)


def IP_018() -> None:
    path = f"{HOME}/agent.sock"
    os.environ["SSH_AUTH_SOCK"] = path
    with listening(path) as server:
        python(connects(path))
        unreached(server)
    assert lines("echo $SSH_AUTH_SOCK").stdout == "\n"


def IP_021() -> None:
    os.environ["GUARD_TOKEN"] = "hush-hush"
    with opened() as session:
        session.run("sleep 30 &")
        assert "hush-hush" not in session.run("cat /proc/[0-9]*/environ").stdout


def IP_022() -> None:
    with listening(f"{OUT}/rights.sock") as server:
        python(connects(f"{OUT}/rights.sock"))
        unreached(server)


def IP_023() -> None:
    with NamedTemporaryFile(prefix="corpus-", dir="/dev/shm"):
        result = lines("ls /dev/shm; ipcs -m | grep -c 0x")
    assert "corpus" not in result.stdout and result.stdout.strip() in ("", "0")


def IP_024() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        python(
            f"try: socket.create_connection({server.getsockname()!r}, 1); print('GOT')\n"
            "except OSError: pass\n"
        )
        unreached(server)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
