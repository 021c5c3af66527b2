"""Mounts that the host undoes while a command runs."""

import os
import sys
import time

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import Request
from pinfold.sandbox.linux.backend import LinuxBackend
from pinfold.session.survey import Surveyor

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=(".env", "keys"))
OPEN: list[LinuxBackend] = []
LOOK = """
import os, time
print("on", flush=True)
spans, began = [], None
while not os.path.exists("stop"):
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


def what_the_host_undoes_is_restored_while_a_command_runs() -> None:
    for name in (".env", ".envrc"):
        write(name, "secret")
    os.mkdir("keys")
    write("keys/key", "secret")
    write("look.py", LOOK)
    backend = LinuxBackend()
    OPEN.append(backend)
    work = os.getcwd()
    session = backend.open_session([work], Surveyor([work], os.environ["HOME"]))
    command = session.start(Request("/usr/bin/python3 look.py", POLICY, work, timeout=60))
    events = command.events()
    next(events)
    for _ in range(10):
        for undo in (rename_over, move_away, remove):
            for name in (".env", ".envrc"):
                undo(name)
                time.sleep(0.01)
        replace_directory("keys")
        time.sleep(0.01)
    time.sleep(0.05)
    write("stop", "")
    text = b"".join(getattr(event, "data", b"") for event in events).decode()
    count, longest, is_open, *spans = text.split()
    print(f"70 replacements, seen {count} times, for {float(longest) * 1000:.2f} ms at most", spans)
    assert is_open == "False", text
    assert float(longest) < 5, text  # some 0.3 ms on a machine that is not busy


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]]()
    except ConfinementError as error:
        if any(word in str(error) for word in ("unshare", "uid_map", "setgroups")):
            print(f"this machine has no user namespaces for us: {error}")
            sys.exit(77)
        raise
    finally:
        for each in OPEN:
            each.close()
