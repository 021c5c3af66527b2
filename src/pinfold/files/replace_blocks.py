"""Search-and-replace blocks: all of them, each in exactly one place, or none."""

from collections.abc import Sequence

from pinfold.model.errors import FileRefused


def replaced(text: str, blocks: Sequence[tuple[str, str]], path: str) -> str:
    """The text after each block in turn. Raises FileRefused, with which block and why."""
    for number, (old, new) in enumerate(blocks, 1):
        if not old:
            raise _refused(path, number, "has nothing to search for")
        times = text.count(old)
        if times != 1:
            why = "is not in the file" if not times else f"is in the file {times} times"
            raise _refused(path, number, why)
        text = text.replace(old, new)
    return text


def _refused(path: str, number: int, why: str) -> FileRefused:
    said = f"{path}: the text of block {number} {why}; nothing was changed"
    return FileRefused("no_single_match", path, said, "read the file, and send more lines around it")
