"""Files that a line itself writes, and what they hold where it runs them: `echo ls > x; bash x`.

This module decides which texts a file may hold; `stdout` finds what writes them. Code that judges a file that
the line runs asks `Findings.contents_of` for its texts, and judges them as a text on standard input.

A file is identified by the last part of its path alone: `cd`, links and `..` lead to one file by many paths.
A text counts wherever in the line it is written: functions, loops and traps may run in any order.

Accepted: what programs write by themselves (`python -c`, `curl -o`, `sed -i`) is unknown, as is the text of
any existing file; so are most files that programs load by themselves (`make` its Makefile). A text that is
not literal does not count where the file's name is unknown too: that is a log.
"""

from collections.abc import Callable

from msgspec import Struct

from pinfold.model.script import Word


class WrittenFile(Struct, frozen=True):
    """A file that gets a text, or the content of another file."""

    name: str
    """The last part of its path; empty if unknown."""
    text: Word | None = None
    source: Word | None = None
    appends: bool = False


class FileContents(Struct, frozen=True):
    """What a file may hold, as far as the line writes it."""

    texts: tuple[Word, ...] = ()
    copied_from: tuple[Word, ...] = ()
    """The files that it may be a copy of, or a link to."""


NOTHING = FileContents()
ContentsOf = Callable[[Word], FileContents]
"""Returns what the line itself writes to a file."""


def contents_of(file: Word, written: tuple[WrittenFile, ...]) -> FileContents:
    """What a file may hold of the texts that the line writes."""
    files: dict[str, list[WrittenFile]] = {}
    for each in written:
        files.setdefault(each.name, []).append(each)
    names = [name_of(file)]
    seen = set(names)
    sources: list[Word] = []
    texts: list[Word] = []
    for name in names if names[0] else ():
        found = files.get(name, [])
        copied = [each.source for each in found if each.source is not None]
        sources += copied
        others = dict.fromkeys(other for other in map(name_of, copied) if other and other not in seen)
        names += others
        seen.update(others)
        texts += _texts([each for each in written if each.name in (name, "")] if found else files.get("", []))
    return FileContents(tuple(dict.fromkeys(texts)), tuple(dict.fromkeys(sources)))


def _texts(written: list[WrittenFile]) -> list[Word]:
    """Each text, and where one is appended to another, also all of them joined."""
    texts = [each.text for each in written if each.text is not None]
    if len(texts) > 1 and any(each.appends for each in written):
        parts = tuple(part for text in texts for part in text.parts)
        texts.append(Word(" ".join(text.source for text in texts), texts[0].span, parts))
    return texts


def name_of(file: Word) -> str:
    """The last part of a file's path; empty if unknown."""
    if file.literal is not None:
        return file.literal.rstrip("/").rpartition("/")[2]
    return file.file_name or ""
