"""Roots and grants that a command leads elsewhere by a link: each function runs in a child, as both users."""

import os
import subprocess

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


PROBES = probes_of(globals())

if __name__ == "__main__":
    run(globals())
