"""What a client says to an ssh agent, message by message, and what of it passes. Sans-io.

Facts (draft-ietf-sshm-ssh-agent): a message is 32 bits of length, a byte that says its kind, and the rest;
every request has one answer, in its turn. OpenSSH's agent takes up to 256 KiB. A client that hears
SSH_AGENT_FAILURE of an extension goes on without it.
"""

from typing import NamedTuple

LONGEST = 256 << 10
FAILURE = b"\0\0\0\1\5"
_LIST, _SIGN = 11, 13
PASSED = frozenset((_LIST, _SIGN))
_NAMES = {
    1: "list old keys", 3: "answer a challenge", 7: "add an old key", 8: "remove an old key",
    9: "remove all old keys", 17: "add a key", 18: "remove a key", 19: "remove all keys",
    20: "add a smartcard", 21: "remove a smartcard", 22: "lock", 23: "unlock", 24: "add an old key",
    25: "add a key", 26: "add a smartcard", 27: "use an extension",
}  # fmt: skip


class AgentMessageError(ValueError):
    """Bytes that are no message of this protocol; nothing can be known of what follows."""


class Message(NamedTuple):
    kind: int
    data: bytes
    """The whole of it, as it came."""

    @property
    def name(self) -> str:
        return _NAMES.get(self.kind, f"send message {self.kind}")


class Messages:
    """Takes bytes as they come."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[Message]:
        """Those that are whole by now. Raises `AgentMessageError`."""
        self._data += data
        found = []
        while len(self._data) >= 4:
            length = int.from_bytes(self._data[:4], "big")
            if not 0 < length <= LONGEST:
                raise AgentMessageError(f"a message of {length} bytes")
            if len(self._data) < 4 + length:
                break
            found.append(Message(self._data[4], self._data[: 4 + length]))
            self._data = self._data[4 + length :]
        return found
