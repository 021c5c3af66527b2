"""A pen's spawner: confined by the plan like every command it starts, it starts them and says how they ended.

Facts that shape it:
- It has its commands' uid and Landlock domain: only that it is not dumpable keeps them out of its memory.
  So it holds no descriptor but its socket and /dev/null, has an empty environment, and is believed nothing.
- The filter that asks the warden holds it too. Only its terminals make such a call, and the warden never
  waits for it. The listener must be the warden's alone, or its death would leave calls hanging.
- posix_spawn is vfork and exec: 0.3 ms less than a fork of Python. It sets the session, the signals and the
  descriptors; the working directory is ours for the moment.
- Python ignores SIGPIPE and SIGXFSZ, and an ignored signal stays ignored through an exec.
- A pidfd polls readable when its process ends, so one poll waits for requests and for all children, and no
  signal handler is needed.
- A child that is traced, when it has ended, is its tracer's to await first (ptrace(2)): a command of the same
  pen may trace another and never do so. Its exit status is in /proc/PID/stat, for a process that may trace
  it.
- The first terminal that a session's leader opens becomes its controlling one; file actions run after setsid.
"""

import errno
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import termios
from collections.abc import Mapping
from typing import Any

from pinfold.kernel.process import close_all_but, set_dumpable, set_name
from pinfold.sandbox.linux.limits import limit_commands
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.child_process import BuildError
from pinfold.sandbox.linux.protocol.command import (
    EXITED,
    FAILED,
    NO_DIRECTORY,
    SIGNALLED,
    SPAWNER,
    STARTED,
    STATUS,
    StartCommand,
)
from pinfold.sandbox.linux.protocol.keeper import Confinement, Ready
from pinfold.sandbox.linux.spawner.confine import confine

READY = b"ready"
"""What the warden says once it answers."""
ROOM = 16
"""Descriptors for a request, a terminal, and what we have besides; each command takes two more."""
RESET = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_TIOCGPTN, _TIOCSPTLCK = 0x80045430, 0x40045431


def serve(control: socket.socket, warden: socket.socket, filters: Mapping[str, bytes]) -> None:
    """Confines this process once the pen is built, then starts commands until the host goes away.

    The builder announces the pen by the rest of the plan and the pen's root, and becomes the warden.
    """
    set_name(SPAWNER)
    close_all_but({control.fileno(), warden.fileno()})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    confinement, (root,) = channel.receive(warden, Confinement)
    os.fchdir(root)
    os.chroot(".")
    os.close(root)
    # From the filter on this would be asked of the warden.
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for operation in confinement.operations:
        listener = confine(operation, filters)
        if listener is not None:
            channel.send_bytes(warden, b"l", (listener,))
            os.close(listener)
            require_warden(warden)
    limit_commands()
    warden.close()
    os.environ.clear()
    set_dumpable(False)
    channel.send(control, Ready())
    Spawner(control, null).serve()


def require_warden(warden: socket.socket) -> None:
    """Waits for it: in a pen without one every call that it should answer would fail, unexplained."""
    try:
        said = warden.recv(1 << 12)
    except OSError:
        said = b""
    if said != READY:
        raise BuildError(f"the warden could not begin: {said.decode(errors='replace') or 'it ended'}")


class Spawner:
    def __init__(self, control: socket.socket, null: int) -> None:
        self.control = control
        self.null = null
        self.environment: dict[str, str] = {}
        """Of the last command: most have the same, and its names and values are most of a request."""
        self.children: dict[int, tuple[int, int]] = {}
        """pidfd -> pid, and where to report its end."""
        self.traced: list[int] = []
        """Children that have ended, and that a tracer awaits first."""
        self.most = max(1, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - ROOM) // 2)
        """How many commands at most: without room for a request its descriptors get lost, and without room
        for its pidfd a command would run unwatched."""
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)

    def serve(self) -> None:
        while True:
            for descriptor, _ in self.poll.poll():
                if descriptor == self.control.fileno():
                    self.start()
                else:
                    self.ended(descriptor)

    def start(self) -> None:
        command, (status, *descriptors) = channel.receive(self.control, StartCommand)
        if command.environment is not None:
            self.environment = command.environment
        if self.traced:
            self.traced = [pid for pid in self.traced if os.waitpid(pid, os.WNOHANG)[0] == 0]
        failed, umask = NO_DIRECTORY, None
        try:
            if len(self.children) >= self.most:
                failed = FAILED
                raise OSError(errno.EAGAIN, "too many commands")
            os.chdir(command.cwd)
            failed = FAILED
            if command.umask is not None:
                umask = os.umask(command.umask)
            streams = descriptors if command.has_stdin else [self.null, *descriptors]
            pid = spawn(command.arguments, self.environment, command.terminal, streams)
            handle = os.pidfd_open(pid)
        except (OSError, ValueError, TypeError) as error:
            # An argument or a variable with a NUL, or that is no text, is this command's trouble alone.
            report(status, failed, (isinstance(error, OSError) and error.errno) or errno.EINVAL)
            os.close(status)
            return
        finally:
            os.chdir("/")
            if umask is not None:
                os.umask(umask)
            for descriptor in descriptors:
                os.close(descriptor)
        self.children[handle] = (pid, status)
        self.poll.register(handle, select.POLLIN)
        report(status, STARTED, pid)

    def ended(self, handle: int) -> None:
        # The host waits for the report alone; the rest may take its time.
        pid, status = self.children.pop(handle)
        awaited, code = os.waitpid(pid, os.WNOHANG)
        if not awaited:
            self.traced.append(pid)
            code = code_of(pid)
        if os.WIFSIGNALED(code):
            report(status, SIGNALLED, os.WTERMSIG(code))
        else:
            report(status, EXITED, os.WEXITSTATUS(code))
        os.close(status)
        self.poll.unregister(handle)
        os.close(handle)


def code_of(pid: int) -> int:
    """What a process has ended with that cannot be awaited yet: the last that its stat tells."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().split()[-1])


def report(status: int, kind: int, value: int) -> None:
    try:
        os.write(status, STATUS.pack(kind, value))
    except OSError:
        return  # the host does not want to know any more


def spawn(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    terminal: tuple[int, int] | None,
    streams: list[int],
) -> int:
    """Starts one command in the current directory, with a terminal if the size of one is given: the last of
    its streams is then the socket that the terminal's master goes to.

    The streams become descriptors 0, 1 and so on. No source is below 3, so none is overwritten before its
    turn but by itself.
    """
    if terminal:
        actions = on_terminal(streams[-1], terminal)
    else:
        actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
    return os.posix_spawn(
        find(arguments[0], environment.get("PATH", os.defpath)),
        arguments,
        environment,
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=RESET,
    )


def on_terminal(channel_out: int, size: tuple[int, int]) -> list[tuple[Any, ...]]:
    """A new terminal of the pen: the host gets its master by this socket, the command the other side."""
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("=i", 0))
        (number,) = struct.unpack("=i", fcntl.ioctl(master, _TIOCGPTN, bytes(4)))
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("=HHHH", *size, 0, 0))
        with socket.socket(fileno=os.dup(channel_out)) as out:
            socket.send_fds(out, [b"t"], [master])
    finally:
        os.close(master)
    return [
        (os.POSIX_SPAWN_OPEN, 0, f"/dev/pts/{number}", os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    ]


def find(program: str, path: str) -> str:
    """Where a program is, as execvp looks for it, in the command's own PATH."""
    if "/" in program:
        return program
    for directory in path.split(":"):
        candidate = f"{directory or '.'}/{program}"
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    raise FileNotFoundError(2, "no such program", program)
