"""The client that runs in place of a command: the service runs it, on the client's own streams.

`main` is what an agent's shell runs, in the agent's conversation. `command_line` is `pinfold run`, in a
session of its own or in one with a name.

The client hands over its descriptors, words, variables, working directory and mask, and waits for the exit
code. Its end ends the command: the service sees the connection close. Where there is no service, or where
the service must not be used (`NOT_HERE`), the command is run cold, by a process of its own.

INVARIANT: a command that the service may have begun is not run again. Only the service's own word, or a
connection of which it has not read the whole request, leads to a cold run.

Fact (af_unix): a peer that closes a connection with bytes that it has not read, or before it was accepted,
gives ECONNRESET.

It is loaded at each command, so it imports nothing that is not built in.
"""

import _signal  # type: ignore[import-not-found]  # typeshed does not list it
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from types import ModuleType
    from typing import NoReturn

    from pinfold.service.local_socket import Reply

FAILED, SIGNALLED = 125, 128
DIRECTORY = "--final-directory"
"""The first word where descriptor 3 is to be told the directory in which the line ended."""
DIRECTORY_STREAM = 3
GONE = b"pinfold: the service ended while the command ran; the command may have partly completed\n"
CANCEL, RESIZE = b"c", b"w"
"""What a client says while the command runs: end it; my terminal has another size."""
INTERRUPTED = b"i"
"""The service's word for a command that died of Ctrl-C in the terminal: its caller dies of it too."""
ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def main(words: list[str], local: "ModuleType", isolated: "ModuleType") -> "NoReturn":
    """`local` is `service.local_socket`, `isolated` the module of that name."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    modes = _modes_of_terminal()
    connection = None if modes and not _is_in_front() else _sent("run", words, local)
    said: list[int] = []

    def tell(number: int, _: object) -> None:
        said.append(number)
        try:
            connection.send(RESIZE)  # type: ignore[union-attr]
        except OSError:
            return  # it has just ended

    if connection and modes:
        _signal.signal(_signal.SIGWINCH, tell)
    reply = _heard(connection, local, said, modes) if connection else None
    if reply is None or reply[0] == local.NOT_HERE:
        rest = words[1:] if words[:1] == [DIRECTORY] else words
        run_cold(isolated.own_command("run", *rest, entry=isolated.COLD_ENTRY))
    code, directory, _ = reply
    if directory and words[:1] == [DIRECTORY]:
        os.write(DIRECTORY_STREAM, directory)
    os._exit(code)


def is_of_conversation(words: list[str]) -> bool:
    """Whether the words behind `pinfold run` are those that a hook of ours writes for a conversation."""
    return words[:1] == ["--asked-by"] and "--conversation" in words


def command_line(words: list[str], local: "ModuleType") -> "Reply | None":
    """Runs `pinfold run` with these words, and exits as it does. Returns where the service has not run it:
    what it said, or None if there is none."""
    connection = _sent("pinfold", words, local)
    if connection is None:
        return None
    said: list[int] = []
    modes = _modes_of_terminal()

    def ended_by() -> list[int]:
        return [number for number in said if number != _signal.SIGWINCH]

    def tell(number: int, _: object) -> None:
        said.append(number)
        if number != _signal.SIGWINCH and len(ended_by()) > 1:  # at once, then
            _restore(modes)
            os._exit(SIGNALLED + number)
        try:
            connection.send(RESIZE if number == _signal.SIGWINCH else CANCEL)
        except OSError:
            return  # it has just ended

    before = {}
    for number in (*ENDING, _signal.SIGWINCH):
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            before[number] = _signal.signal(number, tell)
    reply = _heard(connection, local, said, modes)
    if reply is None or reply[0] == local.NOT_HERE:
        for number, handler in before.items():
            _signal.signal(number, handler)
        if number := next(iter(ended_by()), 0):
            os._exit(SIGNALLED + number)
        return reply
    if reply[1] == INTERRUPTED and not ended_by():
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    number = next(iter(ended_by()), 0)
    os._exit(SIGNALLED + number if number else reply[0])


def _sent(verb: str, words: list[str], local: "ModuleType") -> "_socket.socket | None":
    """A connection on which the service has been asked; None if there is no service."""
    if not local.is_wanted(os.environ):
        return None
    try:
        connection: _socket.socket | None = local.connect(local.socket_path(os.environ))
        if connection is not None:
            umask = os.umask(0)
            os.umask(umask)
            fields = [str(umask), os.getcwd(), *words]
            local.send(connection, verb, fields, os.environ, b"", (0, 1, 2))
    except (OSError, UnicodeError, ValueError):
        return None  # the service runs nothing before it has the whole request
    return connection


def _heard(
    connection: "_socket.socket",
    local: "ModuleType",
    said: "list[int] | None" = None,
    modes: "list[object] | None" = None,
) -> "Reply | None":
    """The service's reply; None if it has not got the request. `said` are signals that it was told of."""
    try:
        reply: Reply = local.receive_reply(connection)
        return reply
    except ConnectionResetError:
        if not said:
            return None
    except (OSError, ValueError):
        pass
    _restore(modes)
    os.write(2, GONE)
    os._exit(FAILED)


def _modes_of_terminal() -> "list[object] | None":
    """Of standard input, to be restored if the service dies; None if it is no terminal."""
    if not os.isatty(0):
        return None
    import termios

    return [termios.tcgetattr(0)]


def _is_in_front() -> bool:
    """Whether we are in the foreground: in the background, the terminal is not ours to change."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # not our controlling terminal
        return True


def _restore(modes: "list[object] | None") -> None:
    if modes:
        import termios

        try:
            termios.tcsetattr(0, termios.TCSADRAIN, modes[0])  # type: ignore[arg-type]
        except termios.error:
            return  # the terminal has gone


def run_cold(command: "tuple[str, ...]") -> "NoReturn":
    os.execv(command[0], command)  # noqa: S606
