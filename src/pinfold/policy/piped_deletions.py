"""Lists of everything in a directory, which a line deletes one by one: `ls | xargs rm -r`.

What a loop, an array or a pipe holds is not followed. So this module looks for the places of a line where
such a list is made, and for words that are what a list holds and nothing else.
`for d in *; do rm -r "$d/build"` deletes no directory as a whole.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from pinfold.model.script import Computed, Word

HOME, WORKING_DIRECTORY, ROOT = "~", ".", "/"
_HOME = r"(?:~|\$HOME|\$\{HOME[^}]*\})"
_PLACE = rf"""["']?(?:\.|{_HOME}|/|\$PWD|\$\{{PWD[^}}]*\}})["']?"""
_ALL = rf"""(?:{_PLACE}/*|["']?/)?["']?(?:\.?\*|\?\*|\.\[!\.\]\*)/*["']?"""
_FIND = rf"""find(?:\s+{_PLACE}/*["']?)?
    (?:\s+(?:-type\s+\w|-(?:max|min)depth\s+\d|-print0?|-not|!|-path\s+\.|-name\s+["']?(?:\.|\\?\*)["']?))*"""
_LS = rf"""(?:ls|dir)(?:\s+-[A-Za-z1]+)*(?:\s+{_PLACE}/*["']?)?"""
_PRINT = rf"""(?:echo|printf\s+(?:'[^']*'|"[^"]*"))\s+{_ALL}"""
_LISTER = rf"(?:{_FIND}|{_LS}|{_PRINT})"
_LISTED = re.compile(rf"(?x)\s*(?:\$\(\s*{_LISTER}\s*\)|`\s*{_LISTER}\s*`)\s*")
_GLOB = re.compile(rf"(?x)(?:^|(?<=\s)){_ALL}(?=\s|$)")
_PIPED = re.compile(
    rf"""(?x)(?:^|(?<=[;&|({{\n])|(?<=\bdo)|(?<=\bthen))\s*{_LISTER}\s*\|\s*
    (?:xargs\b|parallel\b|while\s+(?:IFS=\S*\s+)?read\b)"""
)
_READ = re.compile(rf"(?x)(?:\bdone|\b(?:mapfile|readarray)\b[^<;]*)\s*<\s*<\(\s*{_LISTER}\s*\)")
_GIVEN = re.compile(r":::\+?\s([^;&|\n]*)")
"""The operands that parallel gives to its command."""
_LISTS = re.compile(
    r"""(?x)\bfor\s+(?P<loop>\w+)\s+in\s(?P<items>[^;\n]*) | \bset\s+--\s(?P<set>[^;&|\n]*)
    | \b(?P<array>\w+)\+?=(?:\((?P<elements>[^)]*)\)|["']?(?P<value>(?:\./)?\*)["']?(?=[\s;&]))"""
)
POSITIONS = "@*123456789"
_VARIABLE = re.compile(r"""["']?\$\{?(\w+|[@*])(?:\[[^\]]*\])?\}?["']?""")
_AT_HOME, _AT_ROOT = re.compile(_HOME), re.compile(r"""(?:^|[\s(])["']?/""")


class _WholeLists(Struct, frozen=True):
    """The directories of which a line lists everything, by what holds the list."""

    piped: tuple[str, ...]
    held: tuple[tuple[str, str], ...]
    """The name of the variable that holds an item, or the positions, and the directory."""


def directories_listed(word: Word, line: str) -> Iterator[str]:
    """The directories of which the line lists everything, for a word that may be any item of such a list:
    `~`, `.` or `/`."""
    if match := _LISTED.fullmatch(word.source.strip("\"'")):
        yield _directory(match)
    found = _lists_of(line)
    if all(isinstance(part, Computed) for part in word.parts):
        yield from found.piped
    if found.held and (variable := _VARIABLE.fullmatch(word.source)):
        name = POSITIONS if variable[1] in POSITIONS else variable[1]
        yield from (directory for holder, directory in found.held if holder == name)


@lru_cache(maxsize=8)
def _lists_of(line: str) -> _WholeLists:
    given = (match for each in _GIVEN.finditer(line) for match in _GLOB.finditer(each[1]))
    piped = map(_directory, (*_PIPED.finditer(line), *_READ.finditer(line), *given))
    held: dict[tuple[str, str], None] = {}
    for listed in _LISTS.finditer(line):
        items = listed["items"] or listed["set"] or listed["elements"] or listed["value"] or ""
        whole = _LISTED.fullmatch(items)
        for match in (*_GLOB.finditer(items), *([whole] if whole else [])):
            held[listed["loop"] or listed["array"] or POSITIONS, _directory(match)] = None
    return _WholeLists(tuple(dict.fromkeys(piped)), tuple(held))


def _directory(match: re.Match[str]) -> str:
    if _AT_HOME.search(match[0]):
        return HOME
    return ROOT if _AT_ROOT.search(match[0]) else WORKING_DIRECTORY
