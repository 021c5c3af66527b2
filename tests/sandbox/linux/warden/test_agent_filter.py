"""Connections to a granted agent: how many one command may have."""

import errno
import os
import socket
from pathlib import Path

from tests.kernel.child import in_child

from pinfold.model.fair_share import fair_share
from pinfold.sandbox.linux.warden import agent_filter
from pinfold.sandbox.linux.warden.agent_filter import AgentFilter


def connections(where: Path, tags: list[int]) -> list[int]:
    """The results of these commands' connects to an agent; all connections stay open."""
    os.chdir(where)
    server = socket.socket(socket.AF_UNIX)
    server.bind("s")
    server.listen(len(tags))
    inode = os.open("s", os.O_PATH)
    agents = AgentFilter(os.open(".", os.O_PATH), os.open("/proc/self/fd", os.O_PATH))
    clients = [socket.socket(socket.AF_UNIX) for _ in tags]
    said = [
        agents.connect(client.fileno(), tag, inode, lambda _: None)
        for client, tag in zip(clients, tags, strict=True)
    ]
    return [-1 if each is None else each for each in said]


def test_one_command_cannot_take_all_connections_to_agents(tmp_path: Path) -> None:
    most = fair_share(agent_filter.MOST, 0)
    said = in_child(lambda: connections(tmp_path, [1] * (most + 1) + [2]))
    assert said == [0] * most + [errno.EAGAIN, 0]
