"""Runs a command where there is no network but the gate's: what a pen will give it, and no more.

`python -m tests.network.no_network DESCRIPTOR RESOLV_CONF PORT... -- COMMAND...`: makes a network namespace
in which every stand-in address is local, sends the gate's faces through the descriptor, waits for a byte,
and runs the command.
"""

import os
import socket
import sys

from pinfold.kernel import mounts, namespaces, netlink

GATE = "198.18.0.1"
PROXY_PORT = 3128
MS_PRIVATE_RECURSIVE = 0x44000


def main(arguments: list[str]) -> None:
    (descriptor, resolv_conf, *ports), command = split(arguments)
    flags = namespaces.CLONE_NEWNET | namespaces.CLONE_NEWNS
    user, group = os.getuid(), os.getgid()
    namespaces.unshare(flags | (namespaces.CLONE_NEWUSER if user else 0))
    if user:
        namespaces.write_id_maps(user, group, inside_uid=user, inside_gid=group)
    netlink.set_up()
    netlink.add_local_route("198.18.0.0", 15)
    mounts.mount("none", "/", "", MS_PRIVATE_RECURSIVE)
    mounts.bind(resolv_conf, os.path.realpath("/etc/resolv.conf"))
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((GATE, 53))
    faces = [names, socket.create_server((GATE, PROXY_PORT))]
    faces += [socket.create_server(("0.0.0.0", int(port)), backlog=128) for port in ports]
    with socket.socket(fileno=int(descriptor)) as line:
        socket.send_fds(line, [b"faces"], [face.fileno() for face in faces])
        line.recv(1)
    for face in faces:
        face.close()
    os.execvp(command[0], command)


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    main(sys.argv[1:])
