"""Reports to the host which calls the warden denied. No program can make it report without bounds.

One record covers an operation on a path by a command. The warden sends it again when it has happened two,
four, eight times and so on. Beyond `PATHS` paths of a command, one record without a path covers the rest. If
the host does not read, records are lost; the warden does not wait.
"""

import _socket
from contextlib import suppress

from pinfold.kernel.files import identity_of
from pinfold.model.codes import ViolationCode
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.warden import (
    CallRefused,
    Denial,
    EnvFileMade,
    LastWords,
    Settled,
)

READ = "read"
"""The operation of what would have been read, had it not been hidden: as `model.violation` has it."""
AGENT = "ssh-agent"
"""The beginning of the operation of what a granted agent was asked for: as `model.violation` has it."""
PATHS = 100
UNLISTED = "more was denied than is listed"
FEW = 20
"""A command with fewer paths than this has room for records that are only hints, not denials."""
COMMANDS = 64
Key = tuple[str, str]
NOT_ASKED = Denial()


class ViolationLog:
    def __init__(self, host: _socket.socket) -> None:
        self.host = host
        self.host.setblocking(False)
        self.seen: dict[int, dict[Key, int]] = {}

    def add(
        self,
        tag: int,
        operation: str,
        path: str,
        rule: NameRule,
        program: str,
        pid: int,
        denial: Denial = NOT_ASKED,
        remedy: str = "",
    ) -> None:
        """`rule` says why. It has no name where no protected name is involved."""
        if not tag:
            return  # the caller ended before its command could be read
        seen = self._of(tag)
        if (operation, path) not in seen and len(seen) >= PATHS:
            operation, path, rule = (
                "",
                "",
                rule._replace(name="", why=UNLISTED, is_git_writes=False, code=ViolationCode.UNLISTED),
            )
        times = seen[operation, path] = seen.get((operation, path), 0) + 1
        if times & times - 1 == 0:
            refused = CallRefused(
                tag,
                operation,
                path,
                rule.name,
                rule.why,
                denial.code or rule.code.value,
                remedy,
                rule.grantable,
                program,
                pid,
                times,
                denial.text,
                denial.asked_at,
                rule.is_git_writes,
            )
            with suppress(OSError, channel.ChannelClosed):
                channel.send(self.host, refused)

    def has_room(self, tag: int) -> bool:
        return len(self.seen.get(tag, ())) < FEW

    def settled(self, number: int) -> None:
        """The loop answers one call at a time, so when it says this, no call is under way."""
        with suppress(OSError, channel.ChannelClosed):
            channel.send(self.host, Settled(number))

    def made(self, directory: int, name: bytes) -> None:
        """Reports a new file whose name hides it if the host made it. If the report is lost, the file stays
        hidden."""
        with suppress(OSError, channel.ChannelClosed):
            channel.send(self.host, EnvFileMade(*identity_of(name, directory)))

    def last_words(self, why: str) -> None:
        """Reports why the warden ends."""
        with suppress(OSError, channel.ChannelClosed):
            channel.send(self.host, LastWords(why))

    def _of(self, tag: int) -> dict[Key, int]:
        if tag not in self.seen:
            if len(self.seen) >= COMMANDS:
                del self.seen[next(iter(self.seen))]
            self.seen[tag] = {}
        return self.seen[tag]
