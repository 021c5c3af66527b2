"""The text of a file, with what must come back unchanged when it is written again: encoding, mark, line ends.

Also search-and-replace blocks: each is found exactly once and replaced, or nothing is. Pure.
"""

import codecs
from collections.abc import Sequence
from io import StringIO
from typing import NamedTuple

from pinfold.model.errors import FileRefused

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
BINARY = b"\0"


class DecodedText(NamedTuple):
    text: str
    """Its line ends are `\\n`, unless they were mixed."""
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark it began with."""
    newline: str = "\n"

    def encoded(self, text: str) -> bytes:
        """Another text, as this file would have it. Raises UnicodeEncodeError if its encoding cannot."""
        if self.newline != "\n":
            text = text.replace("\r\n", "\n").replace("\n", self.newline)
        return self.mark + text.encode(self.encoding)


def decode(data: bytes) -> DecodedText | None:
    """None if it is no text: it has NULs and no mark that would explain them."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                return _of(data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                return None
    if BINARY in data:
        return None
    try:
        return _of(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return _of(data.decode("latin-1"), "latin-1")


def lines_of(text: str) -> list[str]:
    """Its lines with their ends, as compilers and editors count them: `str.splitlines` ends some at form
    feeds and at separators of Unicode's, too."""
    return list(StringIO(text, newline=""))


def _of(text: str, encoding: str, mark: bytes = b"") -> DecodedText:
    ends = text.count("\r\n")
    if ends and ends == text.count("\n"):
        return DecodedText(text.replace("\r\n", "\n"), encoding, mark, "\r\n")
    return DecodedText(text, encoding, mark)


def replace_blocks(text: str, blocks: Sequence[tuple[str, str]], path: str) -> str:
    """The text after each block in turn. Raises FileRefused, with which block and why."""
    for number, (old, new) in enumerate(blocks, 1):
        if not old:
            raise _refused(path, number, "has an empty search text")
        times = text.count(old)
        if times != 1:
            why = "is not in the file" if not times else f"is in the file {times} times"
            raise _refused(path, number, why)
        text = text.replace(old, new)
    return text


def _refused(path: str, number: int, why: str) -> FileRefused:
    said = f"{path}: the search text of block {number} {why}; nothing was changed"
    return FileRefused(
        "no_single_match", path, said, "read the file again, and include more lines around the change"
    )
