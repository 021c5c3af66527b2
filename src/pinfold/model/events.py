"""Events of a running command: its output, and how it ended."""

from enum import StrEnum

from msgspec import Struct


class Stream(StrEnum):
    """Where a command writes; on a terminal all output is `stdout`."""

    STDOUT = "stdout"
    STDERR = "stderr"


class Output(Struct, frozen=True):
    """The command wrote some bytes."""

    stream: Stream
    data: bytes


class Exited(Struct, frozen=True):
    """The command's first process has ended: by itself with a code, or by a signal."""

    exit_code: int | None
    signal: int | None
    timed_out: bool = False
    cancelled: bool = False


Event = Output | Exited
