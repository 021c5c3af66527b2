"""Sockets of ssh agents are known by who serves them; nobody is connected to."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.patience import wait_until

from pinfold.sandbox.linux.host import agent_servers

SERVE = """
import ctypes, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[3])
server.listen()
if sys.argv[1] == "unseen": ctypes.CDLL(None).prctl(4, 0)
open("ready", "x").close()
sys.stdin.read()
"""
PROGRAMS = {"/usr/bin/ssh-agent": True, "python": False, "keepassxc": True, "dockerd": False}


def test_agents_are_known_by_their_programs(tmp_path: Path) -> None:
    assert served(tmp_path, "seen") == PROGRAMS


def test_what_agents_hide_may_be_theirs(tmp_path: Path) -> None:
    """Descriptors that their own user cannot see, nor any test but root's."""
    found = served(tmp_path, "unseen")
    assert {name for name in found if PROGRAMS[name]} <= {name for name in found if found[name]}


def served(where: Path, how: str) -> dict[str, bool]:
    """Of each program's socket, whether it is taken for an agent's."""
    with ExitStack() as servers:
        for number, program in enumerate(PROGRAMS):
            directory = where / str(number)
            directory.mkdir()
            words = [sys.executable, "-c", SERVE, how, program, f"s{number}"]
            server = subprocess.Popen(words, cwd=directory, stdin=subprocess.PIPE)
            servers.enter_context(server)
            servers.callback(server.kill)
            wait_until((directory / "ready").exists)
        paths = [str(where / str(number) / f"s{number}") for number in range(len(PROGRAMS))]
        found = agent_servers.agents_among([*paths, str(where / "missing")])
        assert agent_servers.agents_among(paths) == found
    return {program: path in found for program, path in zip(PROGRAMS, paths, strict=True)}
