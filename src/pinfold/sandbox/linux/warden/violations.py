"""What the warden tells the host about calls it refused: bounded, whatever a program does.

One record for each operation and path of a command; it is sent again when it has happened twice, four times,
eight times as often. Beyond `PATHS` a command's further paths are one record without a path. A host that
does not read loses records, never the warden's time.
"""

import _socket
from contextlib import suppress

from pinfold.kernel.file_identity import identity_of
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
UNLISTED = "more was refused than is listed"
FEW = 20
"""How many paths of a command leave room for what is no refusal, and only worth a word."""
COMMANDS = 64
Key = tuple[str, str]
NOT_ASKED = Denial()


class Records:
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
        """`rule` says why, and has no name where none is in the way."""
        if not tag:
            return  # of a caller that was gone before it could be told whose it was
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
            with suppress(OSError, channel.Closed):
                channel.send(self.host, refused)

    def has_room(self, tag: int) -> bool:
        return len(self.seen.get(tag, ())) < FEW

    def settled(self, number: int) -> None:
        """One call is answered at a time: who says this has none under way."""
        with suppress(OSError, channel.Closed):
            channel.send(self.host, Settled(number))

    def made(self, directory: int, name: bytes) -> None:
        """A file has a name now that hides it, had the host given it. Lost, it stays hidden."""
        with suppress(OSError, channel.Closed):
            channel.send(self.host, EnvFileMade(*identity_of(name, directory)))

    def last_words(self, why: str) -> None:
        """What ends the warden."""
        with suppress(OSError, channel.Closed):
            channel.send(self.host, LastWords(why))

    def _of(self, tag: int) -> dict[Key, int]:
        if tag not in self.seen:
            if len(self.seen) >= COMMANDS:
                del self.seen[next(iter(self.seen))]
            self.seen[tag] = {}
        return self.seen[tag]
