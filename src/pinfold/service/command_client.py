"""The client that an agent's shell runs in place of a command: the service runs it, on the client's own
streams.

It hands over its descriptors, words, variables, working directory and mask, and waits for the exit code.
Its end ends the command: the service sees the connection close. Where there is no service, or where the
service must not be used (`NOT_HERE`), it runs the command by itself, cold.

INVARIANT: a command that the service may have begun is not run again. Only the service's own word, or a
connection that it never accepted, leads to a cold run.

It is loaded at each command, so it imports nothing that is not built in.
"""

import _signal  # type: ignore[import-not-found]  # typeshed does not list it
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import NoReturn

FAILED = 125
DIRECTORY = "--final-directory"
"""The first word where descriptor 3 is to be told the directory in which the line ended."""
DIRECTORY_STREAM = 3
GONE = b"pinfold: the service ended while the command ran; the command may have partly completed\n"


def main(words: list[str], local: "ModuleType", isolated: "ModuleType") -> "NoReturn":
    """`local` is `service.local_socket`, `isolated` the module of that name."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    reply = _asked(words, local) if local.is_wanted(os.environ) else None
    if reply is None or reply[0] == local.NOT_HERE:
        _run_cold(words, isolated)
    code, directory, _ = reply
    if directory and words[:1] == [DIRECTORY]:
        os.write(DIRECTORY_STREAM, directory)
    os._exit(code)


def _asked(words: list[str], local: "ModuleType") -> "tuple[int, bytes, bytes] | None":
    """The service's reply; None if it has not got the command."""
    try:
        connection = local.connect(local.socket_path(os.environ))
    except OSError:
        return None
    if connection is None:
        return None
    umask = os.umask(0)
    os.umask(umask)
    try:
        local.send(connection, "run", [str(umask), os.getcwd(), *words], os.environ, b"", (0, 1, 2))
    except (OSError, UnicodeError):
        return None  # the service runs nothing before it has the whole request
    try:
        reply: tuple[int, bytes, bytes] = local.receive_reply(connection)
        return reply
    except (OSError, ValueError):
        os.write(2, GONE)
        os._exit(FAILED)


def _run_cold(words: list[str], isolated: "ModuleType") -> "NoReturn":
    rest = words[1:] if words[:1] == [DIRECTORY] else words
    command = isolated.own_command("run", *rest)
    os.execv(command[0], command)  # noqa: S606
