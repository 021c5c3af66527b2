"""Which paths are ignored, by git's own rules; the caller reads the ignore files.

Facts about git (dir.c, wildmatch.c; held to `git check-ignore` by a fuzz test):
- matching is by bytes, so `?` is half of `é`, and is case-sensitive;
- the last matching pattern of a file decides, and a file nearer to the path decides before one above it;
- nothing below an ignored directory is ever taken back by `!`;
- the literal start of a pattern with a slash is compared first and cut off, and what is left is matched
  as a pattern of its own: in `foo**/bar` the stars are at its start, and so cross slashes.

What this means for us: two lists with `!` in them cannot be put behind one another, or what one ignores
the other takes back. A mapping therefore holds **layers**. Layers do not see each other, and a path is
ignored if any layer ignores it. A directory's trailing slashes say which layer its patterns belong to:
`/ws` is layer 0, `/ws/` layer 1, `/ws//` layer 2. The shape stays `{directory: [patterns]}`, and to a
reader that knows nothing of layers each key still names the right directory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from posixpath import basename, dirname
from typing import TYPE_CHECKING

from pinfold.model.policy import IgnoreMapping
from pinfold.policy.paths import normalised
from pinfold.policy.wildmatch import expression, is_costly

if TYPE_CHECKING:
    import re

_ANYTHING = rb"[^/]*"
_SPECIAL = "*?[\\"
NAMED = "/"
"""The directory of patterns that are paths (`naming`): no project is there, and no ignore file."""
_Says = Callable[[bytes, bool], bool]

_CACHED_DIRECTORIES = 100_000
ANY_DEPTH = 1 << 30
"""Levels of directories."""
MOST_PATTERNS = 5_000
"""Patterns of all files together. Each is compared with each path, and a project's files are untrusted."""
# `info/exclude` is read before the top `.gitignore`, which may take back what it ignores.
_SHARED = {"exclude": ".gitignore"}


def parse_patterns(text: str) -> tuple[str, ...]:
    """The patterns of an ignore file: comments, blank lines and unescaped trailing spaces gone."""
    lines = text.removeprefix("\ufeff").split("\n")
    patterns = (_trimmed(line.removesuffix("\r").partition("\0")[0]) for line in lines if line[:1] != "#")
    return tuple(pattern for pattern in patterns if pattern)


def _trimmed(line: str) -> str:
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    # `a\  ` ends in an escaped space, `a\\  ` in an escaped backslash.
    return bare + " " if slashes % 2 and bare != line else bare


def mapping_of(files: Mapping[str, Sequence[tuple[str, str]]]) -> IgnoreMapping:
    """The mapping for ignore files already read: directory -> (file name, its text).

    Files of one name are one layer, as git's are; a `!` in one kind of file takes nothing back from another.
    """
    by_name: dict[str, IgnoreMapping] = {}
    for directory, found in files.items():
        for name, text in found:
            layer = by_name.setdefault(_SHARED.get(name, name), {})
            place = normalised(directory)
            layer[place] = layer.get(place, ()) + parse_patterns(text)
    return _joined(by_name.values())


def naming(paths: Iterable[str]) -> IgnoreMapping:
    """The mapping that ignores these absolute paths.

    A byte that is of no character matches any, since a policy is text: a doubt hides.
    """
    patterns = tuple("".join(map(_literal, path)) for path in paths)
    return {NAMED: patterns} if patterns else {}


def _literal(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return "?"
    return f"\\{character}" if character in _SPECIAL else character


def united(*mappings: IgnoreMapping) -> IgnoreMapping:
    """The mapping that ignores what any of these ignores, in a canonical form for every order."""
    return _joined(layer for mapping in mappings for layer in _layers(mapping))


def _layers(mapping: IgnoreMapping) -> list[IgnoreMapping]:
    layers: dict[int, IgnoreMapping] = {}
    for key, patterns in mapping.items():
        directory = key.rstrip("/") or "/"
        layer = layers.setdefault(len(key) - len(directory), {})
        name = normalised(directory)
        layer[name] = layer.get(name, ()) + tuple(patterns)
    return list(layers.values())


def _joined(layers: Iterable[IgnoreMapping]) -> IgnoreMapping:
    """One mapping of many layers.

    A pattern that no later `!` takes back is independent, so all such go into one layer, as sets. The rest
    are groups with a `!`: each is kept whole, in the first layer where it meets no other.
    """
    plain: dict[str, set[str]] = {}
    groups: set[tuple[tuple[str, tuple[str, ...]], ...]] = set()
    for layer in layers:
        for group in _groups(layer):
            if any(pattern.startswith("!") for _, patterns in group for pattern in patterns):
                groups.add(group)
                continue
            for directory, patterns in group:
                plain.setdefault(directory, set()).update(patterns)
    filled = [_Filled()]
    for directory in sorted(plain):
        filled[0].add(directory, tuple(sorted(plain[directory])))
    for group in sorted(groups):
        place = next((layer for layer in filled if not layer.meets(group[0][0])), None)
        if place is None:
            filled.append(place := _Filled())
        for directory, patterns in group:
            place.add(directory, patterns)
    return {
        directory + "/" * number: patterns
        for number, layer in enumerate(filled)
        for directory, patterns in sorted(layer.patterns.items())
    }


class _Filled:
    """A layer as it is put together: thousands of directories may have an ignore file each."""

    def __init__(self) -> None:
        self.patterns: IgnoreMapping = {}
        self._above: set[str] = set()

    def add(self, directory: str, patterns: tuple[str, ...]) -> None:
        self.patterns[directory] = patterns
        self._above.update(_with_parents(directory))

    def meets(self, top: str) -> bool:
        """Whether one of its directories lies in `top`, or `top` in one of them."""
        return top in self._above or any(place in self.patterns for place in _with_parents(top))


def _groups(layer: IgnoreMapping) -> Iterable[tuple[tuple[str, tuple[str, ...]], ...]]:
    """The layer's directories with patterns, those below one another together."""
    groups: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    # By parts, so that all that is below a directory follows it at once.
    for directory in sorted((key for key in layer if layer[key]), key=lambda key: key.split("/")):
        top = next((place for place in _with_parents(directory) if place in groups), directory)
        groups.setdefault(top, []).append((directory, tuple(layer[directory])))
    return (tuple(group) for group in groups.values())


def _with_parents(directory: str) -> Iterator[str]:
    """A normalised path and what it lies in, as far as the text shows that."""
    yield directory
    while directory not in ("/", "") and basename(directory) != "..":
        directory = dirname(directory)
        yield directory


class Ignore:
    """A mapping made ready for many questions."""

    def __init__(self, mapping: IgnoreMapping) -> None:
        self._layers = [_Layer(layer) for layer in _layers(mapping)]

    def is_ignored(self, path: str, *, is_directory: bool = False) -> bool:
        """Whether an absolute path is ignored, by itself or with a directory it lies in."""
        is_directory = is_directory or path.endswith("/")
        plain = normalised(path)
        return any(layer.is_ignored(plain, is_directory) for layer in self._layers)

    def written(self, path: str) -> tuple[str, str] | None:
        """The pattern that a path is ignored by, and the directory of its file; None if it is not."""
        plain = normalised(path)
        found = (layer.written(plain, path.endswith("/")) for layer in self._layers)
        return next(filter(None, found), None)

    def within(self, directory: str) -> "IgnoredNames | None":
        """The ignored names in one directory; None if no pattern reaches it.

        Preconditions: the path is normalised, and the caller has checked that it is not ignored.
        """
        place = _bytes(directory).rstrip(b"/")
        reaching = [(found, layer.says) for layer in self._layers if (found := layer.candidates(place))]
        return IgnoredNames(place + b"/", reaching) if reaching else None

    def levels_below(self, link: str, target: str) -> int:
        """How many levels below a link to a directory a path may be ignored that is not where it leads.

        Preconditions: both paths are normalised.
        """
        return max((layer.levels_below(_bytes(link), _bytes(target)) for layer in self._layers), default=0)

    def may_lead(self, link: str, tops: Sequence[str]) -> bool:
        """Whether there may be such levels, wherever in these directories it leads; False is certain."""
        return any(layer.may_lead(_bytes(link), list(map(_bytes, tops))) for layer in self._layers)

    def has_places(self, tops: Sequence[str]) -> bool:
        """Whether any of it depends on where in these directories a name is."""
        places = [_bytes(top.rstrip("/")) + b"/" for top in tops]
        return any(layer.has_places(places) for layer in self._layers)


class IgnoredNames:
    """The question about names in one directory. Most match nothing, and one expression says so of many."""

    def __init__(self, start: bytes, reaching: Sequence[tuple["re.Pattern[bytes]", "_Says"]]) -> None:
        self._start = start
        self._reaching = reaching

    def may_ignore(self, names: str) -> bool:
        """Whether some of these names, with slashes between them, may be ignored."""
        joined = _bytes(names)
        return any(candidates.search(joined) for candidates, _ in self._reaching)

    def is_ignored(self, name: str, is_directory: bool) -> bool:
        raw = _bytes(name)
        return any(
            candidates.search(raw) and says(self._start + raw, is_directory)
            for candidates, says in self._reaching
        )


class _Layer:
    def __init__(self, layer: IgnoreMapping) -> None:
        self._candidates: dict[tuple[bytes, ...], re.Pattern[bytes] | None] = {}
        self._files = {
            _bytes(directory.rstrip("/")): [_Pattern(_bytes(pattern)) for pattern in reversed(patterns)]
            for directory, patterns in layer.items()
        }
        self._directories: dict[bytes, bool] = {}
        self._placed = {
            directory: _Placed(pattern for pattern in patterns if not pattern.negative)
            for directory, patterns in self._files.items()
        }
        self._takes_back = any(
            pattern.negative and (pattern.is_placed or len(self._files) > 1)
            for patterns in self._files.values()
            for pattern in patterns
        )
        self._taken_back = {
            directory: _Placed(pattern for pattern in patterns if pattern.negative)
            for directory, patterns in self._files.items()
        }

    def has_places(self, tops: Sequence[bytes]) -> bool:
        return any(
            any(pattern.is_placed for pattern in patterns)
            or not all(top.startswith(directory + b"/") for top in tops)
            for directory, patterns in self._files.items()
            if patterns
        )

    def may_lead(self, link: bytes, tops: Sequence[bytes]) -> bool:
        for above in _upwards(link.rpartition(b"/")[0], self._placed):
            is_wide = not self._takes_back and all((top + b"/").startswith(above + b"/") for top in tops)
            if self._placed[above].levels_below(link[len(above) + 1 :], is_wide):
                return True
        return False

    def levels_below(self, link: bytes, target: bytes) -> int:
        # What the target's own file takes back, it takes back under every path.
        kept = not any(
            self._taken_back[above].levels_below(target[len(above) + 1 :], link.startswith(above + b"/"))
            for above in _upwards(target.rpartition(b"/")[0], self._taken_back)
        )
        return max(
            (
                self._placed[above].levels_below(
                    link[len(above) + 1 :], kept and (target + b"/").startswith(above + b"/")
                )
                for above in _upwards(link.rpartition(b"/")[0], self._placed)
            ),
            default=0,
        )

    def is_ignored(self, path: str, is_directory: bool) -> bool:
        whole = _bytes(path)
        # From the top: below an ignored directory nothing is asked any more.
        return any(map(self._is_ignored_directory, _above(whole))) or self.says(whole, is_directory)

    def written(self, path: str, is_directory: bool) -> tuple[str, str] | None:
        whole = _bytes(path)
        for place, is_there in (*((above, True) for above in _above(whole)), (whole, is_directory)):
            found = self._decisive(place, is_there)
            if found and not found[1].negative:
                return _text(found[1].text), _text(found[0]) or "/"
        return None

    def candidates(self, directory: bytes) -> "re.Pattern[bytes] | None":
        """Finds each name, among several with slashes between them, that a pattern may match here."""
        above = tuple(_upwards(directory, self._files))
        if above not in self._candidates:
            import re

            found = (pattern for place in above for pattern in self._files[place] if not pattern.negative)
            names = dict.fromkeys(pattern.last_name() for pattern in found)
            # What ends like a name is found ten times faster than what begins with anything.
            ends = [name.removeprefix(_ANYTHING) for name in names if name.startswith(_ANYTHING)]
            wholes = [rb"(?:^|/)(?:%s)" % name for name in names if not name.startswith(_ANYTHING)]
            either = b"|".join((*ends, *wholes))
            whole = re.compile(rb"(?:%s)(?=/|$)" % either, re.DOTALL) if names else None
            self._candidates[above] = whole
        return self._candidates[above]

    def says(self, path: bytes, is_directory: bool) -> bool:
        """What the patterns say of the path itself."""
        found = self._decisive(path, is_directory)
        return found is not None and not found[1].negative

    def _decisive(self, path: bytes, is_directory: bool) -> "tuple[bytes, _Pattern] | None":
        """The first pattern that matches the path itself, the nearest file's first, and its directory."""
        above = path.rpartition(b"/")[0]
        while True:
            for pattern in self._files.get(above, ()):
                if pattern.matches(path[len(above) + 1 :], is_directory):
                    return above, pattern
            if not above:
                return None
            above = above.rpartition(b"/")[0]

    def _is_ignored_directory(self, path: bytes) -> bool:
        known = self._directories.get(path)
        if known is None:
            if len(self._directories) >= _CACHED_DIRECTORIES:
                self._directories.clear()
            known = self._directories[path] = self.says(path, True)
        return known


class _Placed:
    """The patterns of a directory, by what must come first in a path that they match."""

    def __init__(self, patterns: Iterable["_Pattern"]) -> None:
        self._by_first: dict[bytes, list[_Pattern]] = {}
        for pattern in patterns:
            self._by_first.setdefault(pattern.first, []).append(pattern)

    def levels_below(self, link: bytes, is_same: bool) -> int:
        first = link.partition(b"/")[0]
        near = chain.from_iterable(self._by_first.values()) if not link else self._by_first.get(first, ())
        found = chain(near, self._by_first.get(b"", ()))
        return max((pattern.levels_below(link, is_same) for pattern in found), default=0)


class _Pattern:
    """One pattern, taken apart as git's `parse_path_pattern` does."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.negative = text.startswith(b"!")
        text = text[self.negative :]
        self._only_directories = text.endswith(b"/")
        text = text[: len(text) - self._only_directories]
        self._by_name = b"/" not in text
        text = text.removeprefix(b"/")
        literal = 0 if self._by_name else _literal_length(text)
        self._start, self._rest = text[:literal], text[literal:]
        self._is_costly = not self._by_name and is_costly(self._rest)
        self._compiled: re.Pattern[bytes] | None = None

    @property
    def is_placed(self) -> bool:
        """Whether it depends on where a name is, and not on the name alone."""
        return not self._by_name

    @property
    def first(self) -> bytes:
        """The first component of each path that the pattern matches; empty if that is not told."""
        return self._start.partition(b"/")[0] if self.is_placed and b"/" in self._start else b""

    def levels_below(self, link: bytes, is_same: bool) -> int:
        """As `Ignore.levels_below`. `is_same`: whether the pattern counts alike where the link leads."""
        if self._by_name:
            return 0 if is_same else ANY_DEPTH
        way = link + b"/" if link else b""
        if not (self._start.startswith(way) or way.startswith(self._start)):
            return 0
        parts, passed = (self._start + self._rest).split(b"/"), link.split(b"/") if link else []
        if self._is_costly or any(b"[" in part or (b"**" in part and part != b"**") for part in parts):
            return ANY_DEPTH  # a doubt hides
        if parts[0] != b"**":
            return _levels_left(parts, passed)
        # What lies below the link as a whole matches where that leads, too.
        starts = range(len(passed)) if is_same else ()
        return max(
            (_levels_left(parts[1:], passed[start:]) for start in starts), default=0 if is_same else ANY_DEPTH
        )

    def last_name(self) -> bytes:
        """An expression that fits the last name of all that the pattern matches, and maybe of more."""
        text = self._start + self._rest
        last = text.rpartition(b"/")[2]
        is_split = not self._by_name and (b"[" in text or b"\\" in text)
        if self._is_costly or is_costly(text) or is_split or b"**" in last:
            return _ANYTHING
        return expression(last, crosses=False).pattern

    def matches(self, path: bytes, is_directory: bool) -> bool:
        """Whether it names this path, relative to the pattern's directory."""
        if self._only_directories and not is_directory:
            return False
        name = path.rpartition(b"/")[2] if self._by_name else path
        if not name.startswith(self._start):
            return False
        if self._is_costly:
            return not self.negative  # a doubt hides
        if self._compiled is None:
            self._compiled = expression(self._rest, crosses=self._by_name)
        return self._compiled.fullmatch(name, len(self._start)) is not None


@lru_cache(maxsize=1_024)
def _component(part: bytes) -> "re.Pattern[bytes]":
    return expression(part, crosses=False)


def _levels_left(parts: Sequence[bytes], passed: Sequence[bytes]) -> int:
    """How many more levels a pattern may match, after the components of a path that it begins with."""
    for place, part in enumerate(parts):
        if part == b"**":
            return ANY_DEPTH
        if place == len(passed):
            return ANY_DEPTH if b"**" in parts[place:] else len(parts) - place
        if not _component(part).fullmatch(passed[place]):
            return 0
    return 0


def _above(path: bytes) -> Iterator[bytes]:
    """The directories that it lies in, from the top."""
    return (path[:at] for at, byte in enumerate(path) if byte == ord("/") and at)


def _upwards(directory: bytes, known: Mapping[bytes, object]) -> Iterable[bytes]:
    """Those of the known directories that are this one or above it, the nearest first."""
    while True:
        if directory in known:
            yield directory
        if not directory:
            return
        directory = directory.rpartition(b"/")[0]


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character: no file has such a name
        return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _literal_length(text: bytes) -> int:
    return next((at for at, byte in enumerate(text) if byte in b"*?[\\"), len(text))
