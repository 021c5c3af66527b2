"""A file's text, with what must come back unchanged when it is written again: encoding, mark, line ends."""

import codecs
from io import StringIO
from typing import NamedTuple

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
BINARY = b"\0"


class Text(NamedTuple):
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


def decode(data: bytes) -> Text | None:
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


def _of(text: str, encoding: str, mark: bytes = b"") -> Text:
    ends = text.count("\r\n")
    if ends and ends == text.count("\n"):
        return Text(text.replace("\r\n", "\n"), encoding, mark, "\r\n")
    return Text(text, encoding, mark)
