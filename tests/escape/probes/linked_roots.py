"""Roots and grants that a command leads elsewhere by a link, or moves: each function runs in a child, as both
users."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import wait_until
from tests.probe_module import probes_of, run

import pinfold

HOME = os.environ.get("HOME", "")
OUT = f"{HOME}/out"
SWAP = "import os; os.rename('a', 'moved'); os.mkdir('a'); os.symlink({!r}, 'a/b')"


def _made() -> str:
    os.makedirs("a/b")
    os.makedirs(OUT, exist_ok=True)
    return os.getcwd()


def _swap(target: str) -> list[str]:
    return ["/usr/bin/python3", "-c", SWAP.format(target)]


def _refused(session: pinfold.Session) -> bool:
    try:
        return bool(session.run(f"touch {OUT}/made", cwd=os.getcwd()).exit_code)
    except pinfold.ConfinementError:
        return True


def a_root_inside_another_is_not_led_out() -> None:
    work = _made()
    with pinfold.Session([f"{work}/a/b"], settings={}) as session:
        assert session.run("true").exit_code == 0
        session.add_project(work)
        assert session.run(_swap(OUT), cwd=work).exit_code  # a directory above a root stays
        assert _refused(session)
        session.change({"network": {"access": "none"}})
        assert _refused(session)
        os.mkdir(f"{HOME}/third")
        session.add_project(f"{HOME}/third")
        assert _refused(session)
    assert os.listdir(OUT) == []


def a_grant_inside_a_root_is_not_led_out() -> None:
    work = _made()
    grants = {"write": [f"{work}/a/b"], "read": [f"{work}/a/b"]}
    with pinfold.Session([work], settings={"filesystem": grants}) as session:
        assert session.run(_swap(OUT)).exit_code  # a directory above a grant stays
        assert _refused(session)
        session.change({"network": {"access": "none"}})
        assert _refused(session)
    assert os.listdir(OUT) == []


def a_hidden_thing_is_not_uncovered_by_a_link() -> None:
    work = _made()
    os.makedirs(f"{HOME}/.ssh")
    with open(f"{HOME}/.ssh/id", "w") as file:
        file.write("secret")
    with pinfold.Session([work], settings={"filesystem": {"read": [f"{work}/a/b"]}}) as session:
        # No command moves what lies above something that may only be read. If the host does, it is the same.
        assert session.run(_swap(f"{HOME}/.ssh")).exit_code and os.listdir("a/b") == []
        subprocess.run(_swap(f"{HOME}/.ssh"), check=True)
        session.change({"network": {"access": "none"}})
        result = session.run(f"cat {HOME}/.ssh/id a/b/id")
        assert "secret" not in result.stdout and result.exit_code


WRITER = """
import os, sys, time
def is_closed(name):
    try: os.close(os.open(name, os.O_WRONLY))
    except FileNotFoundError: return False
    except OSError: return True
open("begun", "w").close()
while not os.path.exists("made"): time.sleep(0.01)
print(os.getcwd(), all(map(is_closed, sys.argv[1:])), flush=True)
while not all(map(is_closed, sys.argv[1:])): time.sleep(0.01)
os.remove("made")  # no name can be made in a root that was moved
while not os.path.exists("replaced"): time.sleep(0.01)
while not all(map(is_closed, sys.argv[1:])): time.sleep(0.01)
"""
MOVE = "import os, sys; os.rename(sys.argv[1] + '/d', sys.argv[1] + '/e')"


@contextmanager
def below_tmp() -> Iterator[str]:
    """A workspace in the machine's /tmp: each session's own /tmp has directories that lead to it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        os.makedirs(f"{top}/d/work")
        os.chdir(f"{top}/d/work")
        yield top
        os.chdir(HOME)


def _begun(session: pinfold.Session, *names: str) -> pinfold.Execution:
    writer = session.start(["/usr/bin/python3", "-c", WRITER, *names], timeout=60)
    wait_until(lambda: os.path.exists("begun"))
    return writer


def _write(path: str, text: str = "") -> None:
    with open(path, "w") as file:
        file.write(text)


def _move(session: pinfold.Session, top: str) -> None:
    """By a command for which there is no writable root."""
    session.change({"sandbox": {"policy": "read-only"}})
    assert session.run(["/usr/bin/python3", "-c", MOVE, top]).exit_code == 0
    session.change({"sandbox": {"policy": "workspace-write"}})
    # The next command has it where it belongs.
    assert session.run("pwd -P").stdout == f"{os.getcwd()}\n"


def a_root_that_another_pen_moves_stays_as_closed() -> None:
    """Pens of a session share the directories of /tmp above its root."""
    with below_tmp() as top, pinfold.Session([os.getcwd()], settings={}) as session:
        writer = _begun(session, ".env", "new/.git/config")
        _move(session, top)
        subprocess.run(["git", "init", "-q", "new"], check=True)
        _write(".env", "secret")
        _write("made")
        wait_until(lambda: not os.path.exists("made"))
        for name in (".env", "new/.git/config"):
            _write("replacing")
            os.replace("replacing", name)
        _write("replaced")
        done = writer.wait()
        assert done.exit_code == 0 and done.stdout.startswith(f"{top}/e/work "), done


def what_another_session_makes_in_a_moved_root_is_closed_at_once() -> None:
    with below_tmp() as top:
        settings = {"filesystem": {"git_writes": True}}
        with (
            pinfold.Session([os.getcwd()], settings=settings) as session,
            pinfold.Session([os.getcwd()], settings=settings) as other,
        ):
            writer = _begun(session, "new/.git/config")
            _move(session, top)
            made = other.run("git init -q new && touch made replaced")
            assert made.exit_code == 0, made
            assert writer.wait().stdout == f"{top}/e/work True\n", writer.wait()


PROBES = probes_of(globals(), "below_tmp")

if __name__ == "__main__":
    run(globals())
