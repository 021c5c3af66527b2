"""Streams of a command that its caller has opened."""

from msgspec import Struct


class HandedStreams(Struct, frozen=True):
    """Descriptors of the caller that a command gets as its own streams: nothing copies what it writes there.

    The caller keeps its descriptors, and closes them. A stream that is None is as without this.
    """

    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    joined: bool = False
    """Whether stderr goes where stdout goes, in the order in which the command writes."""
    directory: int | None = None
    """Gets the working directory in which a shell line ended, if it ended with exit code 0."""
