"""Mounts that the host undoes while a command runs."""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable

from pinfold.kernel import mounts
from pinfold.model.errors import ConfinementError
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import Found, StartRequest
from pinfold.sandbox.linux.host.backend import LinuxBackend
from pinfold.sandbox.linux.host.session import LinuxSession
from pinfold.sandbox.linux.host.warden_client import WardenClient
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.rename_lock import COMMON, LOCKED
from pinfold.sandbox.linux.protocol.warden import Hold, HostOrder
from pinfold.sandbox.linux.warden import late_mounts
from pinfold.workspace.scan import WorkspaceScanner
from tests.probe_module import OPEN, among_themselves, probes_of, run
from tests.processes import wardens_of

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=(".env", "keys"))
LOOK = """
import os, time
print("on", flush=True)
spans, began = [], None
while not os.path.exists("stop") or (began is not None and time.monotonic() < began + 10):
    try:
        with open(".env") as file:
            seen = file.read() != "" or os.path.exists("keys/key")
    except OSError:
        seen = False
    if not seen:
        try:
            os.close(os.open(".envrc", os.O_WRONLY))
            seen = True
        except OSError:
            pass
    now = time.monotonic()
    if seen and began is None:
        began = now
    elif not seen and began is not None:
        spans.append(now - began)
        began = None
print(len(spans), max(spans, default=0), began is not None, *sorted(int(s*1e6) for s in spans))
"""


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def rename_over(name: str) -> None:
    write(f"{name}.new", "secret")
    os.rename(f"{name}.new", name)


def move_away(name: str) -> None:
    os.rename(name, f"{name}~")
    write(name, "secret")


def remove(name: str) -> None:
    os.unlink(name)
    write(name, "secret")


def replace_directory(name: str) -> None:
    del name
    os.rename("keys", f"keys{time.monotonic_ns()}")
    os.mkdir("keys")
    write("keys/key", "secret")


def opened_with_secrets() -> LinuxSession:
    for name in (".env", ".envrc"):
        write(name, "secret")
    os.mkdir("keys")
    write("keys/key", "secret")
    write("look.py", LOOK)
    backend = LinuxBackend()
    OPEN.append(backend)
    work = os.getcwd()
    return backend.open_session([work], WorkspaceScanner([work], os.environ["HOME"]))


def what_the_host_undoes_is_restored_while_a_command_runs() -> None:
    restores_what_is_undone(opened_with_secrets())


WATCHERS = """
import ctypes, time
libc = ctypes.CDLL(None)
while True:
    while libc.inotify_init() >= 0: pass
    print("on", flush=True)
    time.sleep(0.01)
"""


def no_command_takes_away_what_tells_of_it() -> None:
    """A user has a limited number of inotify queues for all programs: commands get only some of them."""
    session = opened_with_secrets()
    work = os.getcwd()
    write("watch.py", WATCHERS)
    other = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=("nothing",))
    command = session.start(StartRequest("/usr/bin/python3 watch.py", other, work, timeout=60))
    events = command.events()
    next(events)
    time.sleep(0.3)  # the next pen is being prepared
    restores_what_is_undone(session, (move_away,))
    command.cancel()
    for _ in events:
        pass


def restores_what_is_undone(
    session: LinuxSession, undone: tuple[Callable[[str], None], ...] = (rename_over, move_away, remove)
) -> None:
    work = os.getcwd()
    command = session.start(StartRequest("/usr/bin/python3 look.py", POLICY, work, timeout=60))
    events = command.events()
    next(events)
    for _ in range(10):
        for undo in undone:
            for name in (".env", ".envrc"):
                undo(name)
                time.sleep(0.01)
        if len(undone) > 1:
            replace_directory("keys")
            time.sleep(0.01)
    time.sleep(0.05)
    write("stop", "")
    text = b"".join(getattr(event, "data", b"") for event in events).decode()
    count, longest, is_open, *spans = text.split()
    print(f"replacements, seen {count} times, for {float(longest) * 1000:.2f} ms at most", spans)
    assert is_open == "False", text
    assert float(longest) < 5, text  # some 0.3 ms on an idle machine


KEPT = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
PRIVATE_ANONYMOUS_NORESERVE, NO_HUGE_PAGES, POPULATE_READ = 0x4022, 15, 22
size = ctypes.c_size_t(1 << 30)
start = ctypes.c_void_p(libc.mmap(None, size, 3, PRIVATE_ANONYMOUS_NORESERVE, -1, ctypes.c_long(0)))
for advice in (NO_HUGE_PAGES, POPULATE_READ): assert not libc.madvise(start, size, advice)
out, into = os.pipe()
looker = os.fork()
if not looker:
    os.close(into)
    os.set_blocking(out, False)
    spans, began = [0], None
    while True:
        try: os.close(os.open(".env", os.O_RDONLY)); seen = True
        except OSError: seen = False
        now = time.monotonic()
        if seen and began is None: began = now
        elif not seen and began is not None: spans.append(now - began); began = None
        try:
            if not os.read(out, 1): break
        except BlockingIOError: time.sleep(0.002)
    print(max(*spans, 0 if began is None else now - began), flush=True)
    os._exit(0)
os.close(out)
go, done = threading.Event(), False
def keep(number):
    go.wait()
    while not done: libc.mprotect(start, size, 1 + 2 * (number & 1)); number += 1
keepers = [threading.Thread(target=keep, args=(number,)) for number in range(30)]
for each in keepers: each.start()
os.mkdir("a")
print("on", flush=True)
go.set()
end, calls = time.monotonic() + 4, []
while time.monotonic() < end or len(calls) < 2:
    began = time.monotonic()
    os.rename("a", "b"); os.rename("b", "a")
    calls.append(time.monotonic() - began)
done = True
for each in keepers: each.join()
os.close(into)
os.waitpid(looker, 0)
print(max(calls), flush=True)
"""


def a_call_that_takes_long_keeps_nothing_else_waiting() -> None:
    """The warden reads a path while other threads of the program hold the lock of its memory nearly all the
    time. Meanwhile the host goes on replacing hidden files, and other wardens lock renames."""
    session = opened_with_secrets()
    write("kept.py", KEPT)
    command = session.start(StartRequest("/usr/bin/python3 kept.py", POLICY, os.getcwd(), timeout=80))
    events = command.events()
    next(events)
    heard: list[object] = []
    told = threading.Thread(target=lambda: heard.extend(events))
    told.start()
    locked, replaced = 0.0, time.monotonic()
    free = replaced
    common = os.open(COMMON, LOCKED)
    while told.is_alive():
        now = time.monotonic()
        if now - replaced > 0.1:
            rename_over(".env")
            replaced = now
        try:
            fcntl.flock(common, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(common, fcntl.LOCK_UN)
            free = time.monotonic()
        except BlockingIOError:
            locked = max(locked, now - free)
        told.join(0.002)
    text = b"".join(getattr(event, "data", b"") for event in heard).decode()
    seen, call = map(float, text.split())
    assert max(seen, locked) < call / 2, (seen, locked, call)


TRIES = "for name in last first; do while echo > $name; do sleep 0.02; done; done"
"""Until each of them is held: the warden needs a moment to handle the message."""


def a_warden_that_cannot_be_told_is_told_again() -> None:
    among_themselves()
    backend = LinuxBackend()
    OPEN.append(backend)
    work = os.getcwd()
    session = backend.open_session([work])
    command = session.start(
        StartRequest(f"echo on; until test -e go; do sleep 0.01; done; {TRIES}", POLICY, work, timeout=60)
    )
    events = command.events()
    next(events)
    (warden,) = wardens_of(session.keeper.pid)
    write("first", "")
    write("last", "")
    session.hold(POLICY, Found((f"{work}/first",)))
    os.kill(warden, signal.SIGSTOP)
    trouble = ""
    for number in range(5000):
        write(f"{number}", "")
        try:
            session.hold(POLICY, Found((f"{work}/{number}",)))
        except ConfinementError as error:
            trouble = str(error)
            break
    assert "could not be updated" in trouble
    try:
        session.hold(POLICY, Found((f"{work}/last",)))
    except ConfinementError:
        os.kill(warden, signal.SIGCONT)
    else:
        raise AssertionError("a warden that does not listen was told")
    told = time.monotonic() + 30
    while True:
        try:
            session.hold(POLICY, Found((f"{work}/last",)))
            break
        except ConfinementError:
            assert time.monotonic() < told, "it was never told"
            time.sleep(0.01)
    (pen,) = session.retired
    assert f"{work}/last" in pen.protected and f"{work}/{number}" not in pen.protected
    write("go", "")
    text = b"".join(getattr(event, "data", b"") for event in events).decode()
    assert text.count("Read-only file system") == 2, text


def a_file_is_removed_with_all_that_is_mounted_on_it() -> None:
    among_themselves()
    write("config", "")
    for _ in range(3):
        mounts.bind("config", "config")
    directory = os.open(".", os.O_PATH)
    here = os.getcwd()
    late_mounts.remove_with_mounts(directory, b"config")
    assert not os.path.lexists(f"{here}/config")
    os.chdir(here)
    os.close(directory)


def a_warden_hears_of_each_thing_once() -> None:
    backend = LinuxBackend()
    OPEN.append(backend)
    work = os.getcwd()
    names = [f"{work}/{number}" for number in range(700)]
    for name in names:
        write(name, "")
    session = backend.open_session([work], lambda _: Found(tuple(names[:600])))
    command = session.start(StartRequest("sleep 1000", POLICY, work))
    pen = session.pens[0][1]
    # Read here instead of by the warden.
    wardens, pen.warden = pen.warden, WardenClient((ends := channel.pair())[0])
    with ends[1] as heard:
        heard.setblocking(False)
        session.hold(POLICY, Found(tuple(names[:601])))
        assert channel.receive(heard, HostOrder)[0] == Hold((names[600],), ())
        session.hold(POLICY, Found(tuple(names[:601])))
        session.hold(POLICY, Found(tuple(names[:601]), (names[0],)))
        assert channel.receive(heard, HostOrder)[0] == Hold((), (names[0],))
    ends[0].close()
    pen.warden = wardens
    command.cancel()
    command.wait()


PROBES = probes_of(
    globals(),
    "write",
    "rename_over",
    "move_away",
    "remove",
    "replace_directory",
    "opened_with_secrets",
    "restores_what_is_undone",
)

if __name__ == "__main__":
    run(globals())
