"""Which path contains which, by their text alone.

Nothing here reads a file system, so links are not followed: the maker of a policy resolves its paths first.
The same normalisation applies here and in enforcement.

If the text leaves a doubt (a pattern, `~`, `..` out of a relative path), the answer is "not contained". That
is the safe answer for both kinds of list: an intersection of grants drops the entry, a union of restrictions
keeps it.
"""

from collections.abc import Collection, Iterable, Iterator

from pinfold.model.errors import PolicyError

_GLOB = frozenset("*?[")


def normalised(path: str) -> str:
    """The path without `//`, `/./`, a final slash, and `x/..` where `x` is a plain name.

    An empty path names nothing and stays empty.
    """
    if not path:
        return ""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and _is_plain(parts[-1], first=len(parts) == 1):
            parts.pop()
        elif part not in ("", ".") and not (part == ".." and not parts and path.startswith("/")):
            parts.append(part)
    joined = "/".join(parts)
    return f"/{joined}" if path.startswith("/") else joined or "."


def _is_plain(part: str, *, first: bool) -> bool:
    """Whether `part/..` surely cancels out: not if `part` may be several names, or none."""
    return part != ".." and not _GLOB & set(part) and not (first and part.startswith("~"))


def contains(outer: str, inner: str) -> bool:
    """Whether `inner` is `outer` or below it."""
    outer, inner = normalised(outer), normalised(inner)
    if not outer or not inner:
        return False
    below = outer if outer == "/" else outer + "/"
    if outer != inner and not inner.startswith(below):
        return False
    return ".." not in inner[len(outer) :].split("/")


def is_covered(path: str, by: Iterable[str]) -> bool:
    """Whether a path is one of those given, or below one."""
    return any(contains(outer, path) for outer in by)


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """The normalised paths, sorted, without those that lie below another of them."""
    kept: dict[str, None] = {}
    for path in sorted({normalised(path) for path in paths} - {""}):
        # A container is a prefix, and sorts first.
        if not _is_among(path, kept):
            kept[path] = None
    return tuple(kept)


def common(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """What both cover: of each pair, the path that lies below the other."""
    ours, theirs = dict.fromkeys(outermost(first)), dict.fromkeys(outermost(second))
    return outermost(
        [path for path in ours if _is_among(path, theirs)]
        + [path for path in theirs if _is_among(path, ours)]
    )


def _is_among(path: str, listed: Collection[str]) -> bool:
    """`is_covered` of normalised paths: it takes no longer if there are thousands."""
    if path in listed:
        return True
    while path != "/":
        above, slash, last = path.rpartition("/")
        if not slash or last == "..":
            return False
        path = above or "/"
        if path in listed:
            return True
    return False


def require_text(text: object, what: str) -> str:
    """A text that every format and the kernel can carry: whole characters, no NUL."""
    if not isinstance(text, str):
        raise PolicyError(f"{what} is not text: `{text!r}`")
    if "\0" in text:
        raise PolicyError(f"{what} contains a NUL: `{text!r}`")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PolicyError(f"{what} is not valid Unicode: `{text!r}`") from None
    return text


def upwards(path: str) -> Iterator[str]:
    """The path (absolute, without `..`), and every directory above it."""
    while path.strip("/"):
        yield path
        path = path.rpartition("/")[0]
    yield "/"
