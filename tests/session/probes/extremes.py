"""Hard days: odd roots, full disks, bombs, floods of output, and a kernel that refuses one step of a pen.

Each function runs in a child, as root and as another user, and tries a `Session` and `pinfold run` alike.
What must come of each is its own assertion: the command's own error, or one clear line and nothing run.
"""

import errno
import os
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pinfold
from pinfold.audit import JournalError
from pinfold.audit.history import entries
from pinfold.kernel import mounts, process, seccomp
from pinfold.kernel.syscall import number
from pinfold.model.errors import ConfinementError, PinfoldError
from pinfold.session import open_parts
from pinfold.state.directory import journal_file
from tests.probe_module import LIVING, in_own_mounts, run

PROGRAM = "from pinfold.cli import entry; entry()"
PLENTY = 300_000_000
"""Bytes of output: many times what a host may keep of it."""
FAILED, DENIED, BAD_INPUT = 125, 126, 2


def opened(*roots: str, **settings: Any) -> pinfold.Session:
    return pinfold.Session(list(roots) or [os.getcwd()], settings=settings)


def told(*arguments: str, cwd: str | None = None) -> subprocess.CompletedProcess[bytes]:
    """What `pinfold run` says."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "run", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cwd,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr, done
    return done


def require_one_line(done: subprocess.CompletedProcess[bytes], words: str) -> None:
    """It failed by itself, and said so in one line that has these words."""
    assert done.returncode == FAILED and not done.stdout, done
    assert done.stderr.count(b"\n") == 1 and done.stderr.startswith(b"pinfold: "), done
    assert words in done.stderr.decode(), done


def error_of(action: Callable[[], object]) -> PinfoldError:
    """The error that an action ends with, whose text is one line."""
    try:
        result = action()
    except PinfoldError as error:
        assert "\n" not in str(error), str(error)
        return error
    raise AssertionError(f"it went on: {result}")


def refusal_of(session: pinfold.Session, line: str) -> str:
    """Why a line was not run, be it told by a result or by an error."""
    try:
        result = session.run(line)
    except ConfinementError as error:
        return str(error)
    assert not result.ran, result
    try:
        result.check()
    except pinfold.SandboxUnavailable as error:
        return str(error)
    raise AssertionError("it passed for one that ran")


def odd_roots_are_roots_like_others() -> None:
    for name in (b"a b", b"new\nline", b"\xff\xfe", b"'quote\"\\", b"-rf", b"$(id) *"):
        work = os.path.join(os.getcwdb(), name)
        os.makedirs(os.path.join(work, b".git/hooks"))
        text = os.fsdecode(work)
        line = "pwd; echo > made; echo > .git/hooks/pre-commit; echo > ../beside"
        with opened(text) as session:
            result = session.run(line)
            assert result.stdout_bytes == work + b"\n" and result.exit_code == 1, (name, result)
        assert os.listdir(os.path.join(work, b".git/hooks")) == []
        os.unlink(os.path.join(work, b"made"))
        done = told("-c", line, cwd=text)
        assert done.stdout == work + b"\n" and done.returncode == 1, (name, done)
        assert sorted(os.listdir(work)) == [b".git", b"made"]
        done = told("--cwd", text, "--json", "--", "pwd")
        assert done.returncode == 0 and done.stdout.startswith(b"{"), (name, done)
    assert not os.path.exists("beside")


def a_name_that_cannot_be_written_down_is_told() -> None:
    """The patterns of ignore files travel as JSON: one below bytes that are no text cannot."""
    work = os.fsdecode(os.path.join(os.getcwdb(), b"\xff"))
    os.mkdir(work)
    with open(f"{work}/.pinfoldignore", "w") as file:
        file.write("secret\n")
    with opened(work) as session:
        assert "not valid Unicode" in str(error_of(lambda: session.run("touch made")))
    done = told("--cwd", work, "--", "touch", "made")
    assert done.returncode == BAD_INPUT and done.stderr.count(b"\n") == 1, done
    assert os.listdir(work) == [".pinfoldignore"]


def a_link_to_a_root_leads_to_it() -> None:
    os.makedirs("real/.git/hooks")
    os.symlink("real", "link")
    os.symlink("link", "chain")
    work = os.getcwd()
    line = "pwd; echo > made; echo > .git/hooks/h; echo > ../beside"
    with opened(f"{work}/chain") as session:
        result = session.run(line)
        assert result.stdout == f"{work}/real\n" and result.exit_code == 1, result
    os.unlink("real/made")
    done = told("--cwd", "chain", "-c", line)
    assert done.stdout == f"{work}/real\n".encode() and done.returncode == 1, done
    assert os.listdir("real/.git/hooks") == [] and sorted(os.listdir("real")) == [".git", "made"]
    assert sorted(os.listdir(".")) == ["chain", "link", "real"]


def a_root_that_is_none_is_told() -> None:
    with open("file", "w"):
        pass
    os.symlink("nowhere", "dangling")
    os.symlink("loop", "loop")
    for name in ("nowhere", "file", "file/below", "dangling", "loop", "x" * 300, "nul\0"):
        error = error_of(lambda: opened(os.path.abspath(name)).run("touch made"))  # noqa: B023
        assert "not a directory" in str(error), error
        if "\0" in name:
            continue
        done = told("--cwd", name, "--", "touch", "made")
        assert done.returncode == BAD_INPUT and b"not a directory" in done.stderr, done
        assert done.stderr.count(b"\n") == 2, done  # what, and what to do
    assert not os.path.exists("made") and os.path.getsize("file") == 0


def a_root_that_goes_away_stops_the_next_command() -> None:
    os.mkdir("root")
    work = f"{os.getcwd()}/root"
    with opened(work) as session:
        assert session.run("true").exit_code == 0
        os.rename("root", "moved")
        assert "root" in str(error_of(lambda: session.run("touch made")))
        with open("root", "w"):
            pass
        assert "root" in str(error_of(lambda: session.run("touch made")))
        os.unlink("root")
        os.mkdir("root")
        assert session.run("touch made").exit_code == 0
    assert os.listdir("root") == ["made"] and os.listdir("moved") == []


def five_thousand_protected_paths_hold() -> None:
    for count in range(5000):
        os.makedirs(f"d{count}/.vscode")
    line = "echo > d0/.vscode/x; echo > d4999/.vscode/x; mv d2500/.vscode d2500/y; echo > d2500/ok"
    began = time.monotonic()
    with opened() as session:
        result = session.run(line)
        first = time.monotonic() - began
        assert result.stderr.count("Read-only") + result.stderr.count("busy") == 3, result
        began = time.monotonic()
        assert session.run("true").exit_code == 0
        print(f"first {first:.3f} s, second {time.monotonic() - began:.4f} s")
    assert os.path.exists("d2500/ok")
    os.unlink("d2500/ok")
    began = time.monotonic()
    done = told("-c", line)
    print(f"pinfold run {time.monotonic() - began:.3f} s")
    assert done.returncode == 0 and os.path.exists("d2500/ok"), done
    assert not os.listdir("d0/.vscode") and not os.listdir("d4999/.vscode")
    assert os.path.isdir("d2500/.vscode")


def small_disk(path: str) -> None:
    """A file system of its own at a path, in mounts of this process alone: ext4 where we may, or tmpfs."""
    os.makedirs(path, exist_ok=True)
    in_own_mounts()
    if os.geteuid() or not _mounted_ext4(f"{path}.image", path):
        mounts.mount("small", path, "tmpfs", 0, "size=2m,mode=0755")


def _mounted_ext4(image: str, path: str) -> bool:
    try:
        with open(image, "wb") as file:
            file.truncate(4 << 20)
        subprocess.run(["/sbin/mkfs.ext4", "-q", image], check=True, capture_output=True)
        subprocess.run(["/bin/mount", "-o", "loop", image, path], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def fill(path: str) -> None:
    """Leaves no byte free on the file system at a path."""
    with open(f"{path}/filler", "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC


def a_full_workspace_is_the_commands_own_trouble() -> None:
    work = f"{os.getcwd()}/small"
    small_disk(work)
    fill(work)
    line = "echo begun; head -c 100000 /dev/zero > made"
    with opened(work) as session:
        result = session.run(line)
        assert result.ran and result.exit_code and result.stdout == "begun\n", result
        assert "No space left" in result.stderr and not result.violations, result
        os.unlink(f"{work}/filler")
        assert session.run(line).exit_code == 0
    os.unlink(f"{work}/made")
    fill(work)
    done = told("--cwd", work, "-c", line)
    assert done.returncode == 1 and done.stdout == b"begun\n" and b"No space left" in done.stderr, done


def a_journal_without_room_stops_the_run() -> None:
    state = f"{os.environ['HOME']}/state"
    small_disk(state)
    fill(state)
    os.environ["XDG_STATE_HOME"] = state
    with opened() as session:
        for _ in range(2):
            error = error_of(lambda: session.run("touch made"))
            assert "so nothing is run" in str(error) and "free disk space" in str(error), error
    require_one_line(told("--", "touch", "made"), "so nothing is run")
    assert not os.path.exists("made")
    os.unlink(f"{state}/filler")
    assert told("--", "touch", "made").returncode == 0


def a_journal_that_fills_up_stops_the_next_run() -> None:
    state = f"{os.environ['HOME']}/state"
    small_disk(state)
    os.environ["XDG_STATE_HOME"] = state
    with opened() as session:
        assert session.run("true").exit_code == 0
        fill(state)
        ran = 0
        try:
            while ran < 2000:
                # What is journaled may use room that the journal has already.
                assert session.run(f"echo > made{ran}; : {'x' * 2000}").ran
                ran += 1
        except JournalError as error:
            assert "so nothing is run" in str(error) and "\n" not in str(error)
        assert ran < 2000 and not os.path.exists(f"made{ran}"), ran
        os.unlink(f"{state}/filler")
        assert session.run("echo > again").exit_code == 0
    told_of = sum(entry.kind == "run" for entry in entries(journal_file(os.environ)))
    assert told_of == ran + 2, (told_of, ran)


def a_full_tmpdir_of_the_host_is_not_the_pens() -> None:
    there = f"{os.environ['HOME']}/tmp"
    small_disk(there)
    fill(there)
    os.environ["TMPDIR"] = there
    line = "echo $TMPDIR; head -c 100000 /dev/zero > $(mktemp)"
    with opened() as session:
        result = session.run(line)
        assert (result.exit_code, result.stdout) == (0, "/tmp\n"), result
    done = told("-c", line)
    assert (done.returncode, done.stdout) == (0, b"/tmp\n"), done


def a_flood_of_output_is_capped() -> None:
    with opened(limits={"output": "1MB"}) as session:
        session.run("true")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.monotonic()
        result = session.run(f"head -c {PLENTY} /dev/zero; echo end >&2")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"{time.monotonic() - began:.2f} s, {grown} kB more")
        assert result.exit_code == 0 and result.truncated and result.stderr == "end\n"
        assert len(result.stdout_bytes) == 1_000_000 and grown < 20_000, grown
    done = told("--json", "-c", f"head -c {PLENTY} /dev/zero | tr '\\0' x")
    assert done.returncode == 0 and b'"truncated": true' in done.stdout and len(done.stdout) < 20_000_000


def a_flood_of_output_is_streamed() -> None:
    began = time.monotonic()
    size = 0
    with opened() as session:
        session.run("true")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for event in session.start(f"head -c {PLENTY} /dev/zero").events():
            size += len(event.data) if isinstance(event, pinfold.Output) else 0
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"events: {time.monotonic() - began:.2f} s, {grown} kB more")
    assert size == PLENTY and grown < 20_000, (size, grown)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "run", "-c", f"head -c {PLENTY} /dev/zero"], stdout=subprocess.PIPE
    )
    counted = subprocess.run(["wc", "-c"], stdin=process.stdout, capture_output=True, check=True)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    print(f"pinfold run | wc -c: {time.monotonic() - began:.2f} s, {usage.ru_maxrss} kB in all")
    assert counted.stdout.strip() == str(PLENTY).encode() and process.returncode == 0
    assert usage.ru_maxrss < 80_000, usage.ru_maxrss


def a_host_without_descriptors_is_told() -> None:
    """However few are left, a command runs whole or not at all."""
    ends = {True: 0, False: 0}
    with opened() as session:
        for spare in (100, *range(16), 100):
            ends[_with_spare(spare, session)] += 1
    assert ends[True] > 2 and ends[False] > 2, ends


def _with_spare(spare: int, session: pinfold.Session) -> bool:
    """Whether a command ran with so few descriptors left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + spare, hard))
    try:
        result = session.run("echo > made")
    except PinfoldError as error:
        assert "\n" not in str(error), error
        return False
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if not result.ran:
        assert not os.path.exists("made")
        return False
    assert result.exit_code == 0, result
    os.unlink("made")
    return True


BOMB = "b() { b | b & }; b"


def a_bomb_that_is_waited_for_ends_in_time() -> None:
    with opened() as session:
        session.run("sleep 1001 & true")
        result = session.run(pinfold.RunCommand(f"{BOMB}; sleep 1000", timeout=1.5))
        assert result.timed_out, result
        result = session.run(LIVING)
        assert result.exit_code == 0, result
        left = result.stdout.split()
        assert left.count("sleep") == 1 and left.count("bash") <= 1, left
    done = told("--timeout", "1.5", "-c", f"{BOMB}; sleep 1000")
    assert done.returncode == 124, done.returncode


def a_bomb_left_behind_leaves_the_machine() -> None:
    before = sum(name.isdigit() for name in os.listdir("/proc"))
    with opened() as session:
        session.run(BOMB)
        deadline, worked, most = time.monotonic() + 5, 0, 0
        while time.monotonic() < deadline:
            most = max(most, sum(name.isdigit() for name in os.listdir("/proc")) - before)
            try:
                worked += session.run(pinfold.RunCommand("true", timeout=2)).exit_code == 0
            except ConfinementError as error:
                assert "no more processes" in str(error) and "nothing was run" in str(error), error
        assert subprocess.run(["true"]).returncode == 0
    print(f"{most} processes; {worked} more worked")
    # 512 by default; root, who is bound by process numbers, has those below 300 besides.
    assert most < 2000, most
    with opened() as session:
        assert session.run("echo on").stdout == "on\n"
    done = told("-c", BOMB)
    assert done.returncode == 0, done.returncode


STEPS: tuple[tuple[str, int | None, str], ...] = (
    ("unshare", None, "unshare"),
    ("setns", None, "setns"),
    ("mount", None, "mount"),
    ("pivot_root", None, "pivot_root"),
    ("umount2", None, "umount2"),
    ("open_tree", None, "open_tree"),
    ("move_mount", None, "move_mount"),
    ("mount_setattr", None, "mount_setattr"),
    ("fsopen", None, "fsopen"),
    ("fsmount", None, "fsmount"),
    ("openat2", None, "openat2"),
    ("capset", None, "capset"),
    ("prlimit64", None, "setrlimit"),
    ("landlock_create_ruleset", None, "landlock"),
    ("landlock_add_rule", None, "landlock_add_rule"),
    ("landlock_restrict_self", None, "landlock_restrict_self"),
    ("seccomp", None, "seccomp"),
    ("close_range", None, "close_range"),
    ("pidfd_open", None, "keeper process could not be started"),
    ("prctl", 1, "PR_SET_PDEATHSIG"),
    ("prctl", 4, "PR_SET_DUMPABLE"),
    ("prctl", 24, "PR_CAPBSET_DROP"),
    ("prctl", 38, "PR_SET_NO_NEW_PRIVS"),
    ("socket", 16, "not permitted"),  # AF_NETLINK
)
"""Calls without which there is no pen, some by their first argument, and what is said where one fails."""


def refuse(call: str, argument: int | None, code: int) -> None:
    """From here on this process, and all it starts, get an error from one system call."""
    program = [(0x20, 0, 0, 0), (0x15, 0, 1 if argument is None else 3, number(call))]
    if argument is not None:
        program += [(0x20, 0, 0, 16), (0x15, 0, 1, argument)]
    program += [(0x06, 0, 0, seccomp.RET_ERRNO | code), (0x06, 0, 0, seccomp.RET_ALLOW)]
    if os.geteuid():
        process.set_no_new_privs()
    seccomp.install(seccomp.pack(program))


def a_step_that_is_refused_stops_the_session() -> None:
    for call, argument, words in STEPS:
        in_child(lambda: _try_without(call, argument, errno.EPERM, words))  # noqa: B023
        assert not os.path.exists("made"), call


def a_step_that_fails_where_it_was_known_stops_the_session() -> None:
    """The machine had been asked when it still took the step."""
    for call, argument, _ in STEPS:
        for code in (errno.EPERM, errno.ENOMEM):
            in_child(lambda: _try_once_known(call, argument, code))  # noqa: B023
        assert not os.path.exists("made"), call


def a_step_that_is_refused_stops_the_program() -> None:
    for call, argument, words in STEPS:
        in_child(lambda: _tell_without(call, argument, words))  # noqa: B023
        assert not os.path.exists("made"), call


def in_child(action: Callable[[], object]) -> None:
    if (child := os.fork()) == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException:  # noqa: BLE001  (told here; this copy of the parent must not go on)
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _try_without(call: str, argument: int | None, code: int, words: str) -> None:
    refuse(call, argument, code)
    with opened() as session:
        said = refusal_of(session, "touch made")
    assert words in said and "\n" not in said, (call, argument, said)


def _try_once_known(call: str, argument: int | None, code: int) -> None:
    open_parts._backend()
    _try_without(call, argument, code, "")


def _tell_without(call: str, argument: int | None, words: str) -> None:
    refuse(call, argument, errno.EPERM)
    done = told("--", "touch", "made")
    lines = done.stderr.decode().splitlines()
    assert lines[-1].startswith("pinfold: ") and not done.stdout, (call, argument, done)
    assert any(words in line for line in lines), (call, argument, done)
    assert done.returncode in (FAILED, DENIED), done


TRIALS = [
    name
    for name, value in list(globals().items())
    if callable(value) and value.__module__ == __name__ and name.startswith(("a_", "odd_", "five_"))
]

if __name__ == "__main__":
    run(globals())
