"""JSON as people write it in settings: with comments and trailing commas, edited without touching the rest.
Pure.

Every edit is one insertion or one deletion at a place that `parse` found, and its result is parsed and
compared before it is believed.
"""

import json
import re
from typing import Any, NamedTuple

from pinfold.model.errors import PolicyError

_TRIVIA = re.compile(r"(?:\s+|//[^\n]*|/\*[\s\S]*?\*/)*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"[-+.\w]+")
DEEPEST = 200


class Node(NamedTuple):
    """A value and its position."""

    start: int
    end: int
    value: Any
    children: "tuple[tuple[str | int, int, Node], ...]" = ()
    """Key or index, where the child begins with its key, and the child."""

    def child(self, key: str | int) -> "Node | None":
        return next((node for name, _, node in self.children if name == key), None)


def parse(text: str, file: str = "") -> Node:
    """The value in the text; an empty text is an empty object."""
    scanner = _JsonScanner(text, file)
    if not text.strip():
        return Node(0, len(text), {})
    node = scanner.value(scanner.skipped(0), 0)
    end = scanner.skipped(node.end)
    if end != len(text):
        raise scanner.trouble(end, "something follows the end")
    return node


class _JsonScanner:
    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file

    def trouble(self, at: int, what: str) -> PolicyError:
        line = self.text.count("\n", 0, at) + 1
        return PolicyError(f"is not JSON: {what}", where=f"{self.file}:{line}", help="mend the file first")

    def skipped(self, at: int) -> int:
        found = _TRIVIA.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.trouble(at, "it is nested too deeply")
        opening = self.text[at : at + 1]
        if opening in ("{", "["):
            return self._group(at, "}" if opening == "{" else "]", depth)
        if opening == '"':
            return self._string(at)
        word = _WORD.match(self.text, at)
        try:
            return Node(at, word.end(), json.loads(word.group())) if word else self._nothing(at)
        except ValueError:
            raise self.trouble(at, "expected a JSON value here") from None

    def _nothing(self, at: int) -> Node:
        raise self.trouble(at, "a value is missing")

    def _string(self, at: int) -> Node:
        found = _STRING.match(self.text, at)
        try:
            if found:
                return Node(at, found.end(), json.loads(found.group()))
        except ValueError:
            pass
        raise self.trouble(at, "a text has no end, or something in it that it may not have")

    def _group(self, start: int, closing: str, depth: int) -> Node:
        children: list[tuple[str | int, int, Node]] = []
        at = self.skipped(start + 1)
        while self.text[at : at + 1] != closing:
            first, name = at, self._key(at) if closing == "}" else None
            if name:
                at = self.skipped(name.end)
                if self.text[at : at + 1] != ":":
                    raise self.trouble(at, "a colon is missing")
                at = self.skipped(at + 1)
            node = self.value(at, depth + 1)
            children.append((name.value if name else len(children), first, node))
            at = self.skipped(node.end)
            if self.text[at : at + 1] == ",":
                at = self.skipped(at + 1)
            elif self.text[at : at + 1] != closing:
                raise self.trouble(at, "a comma is missing")
        names = [name for name, _, _ in children]
        if len(set(names)) != len(names):
            raise self.trouble(start, "this object has the same key twice")
        values = [node.value for _, _, node in children]
        value = dict(zip(names, values, strict=True)) if closing == "}" else values
        return Node(start, at + 1, value, tuple(children))

    def _key(self, at: int) -> Node:
        if self.text[at : at + 1] != '"':
            raise self.trouble(at, "a key in quotes is missing")
        return self._string(at)


def with_value(text: str, path: tuple[str, ...], value: object, file: str = "") -> str:
    """The text with `value` at the end of the list at `path`, which is made where it is not there."""
    node, at = parse(text, file), 0
    if not text.strip():
        return json.dumps(_nested(path, [value]), indent=2, ensure_ascii=False) + "\n"
    wanted = _added(node.value, path, value, file)
    while at < len(path) and isinstance(node.value, dict) and (child := node.child(path[at])):
        node, at = child, at + 1
    item = value if at == len(path) else _nested(path[at + 1 :], [value])
    changed = _inserted(text, node, path[at] if at < len(path) else None, item)
    return _proven(changed, wanted)


def with_member(text: str, name: str, value: object, file: str = "") -> str:
    """The text with a member of the whole object, where there is none of that name yet."""
    node = parse(text, file)
    if name in node.value or not text.strip():
        return text
    return _proven(_inserted(text, node, name, value), {**node.value, name: value})


def without(text: str, path: tuple[str | int, ...]) -> str:
    """The text without the value at `path`."""
    parent = parse(text)
    for step in path[:-1]:
        child = parent.child(step)
        assert child is not None  # noqa: S101 - callers have found it there
        parent = child
    names = [name for name, _, _ in parent.children]
    index = names.index(path[-1])
    start, end = parent.children[index][1], parent.children[index][2].end
    skipped = _JsonScanner(text, "").skipped(end)
    if text[skipped : skipped + 1] == ",":
        end = skipped + 1
    elif index:  # the last one: the comma before it goes with it
        before = parent.children[index - 1][2].end
        comma = text.index(",", _JsonScanner(text, "").skipped(before))
        if not text[comma + 1 : start].strip(" \t"):
            return text[:comma] + text[end:]  # all on one line
        text, start, end = text[:comma] + text[comma + 1 :], start - 1, end - 1
    line = text.rfind("\n", 0, start) + 1
    after = text.find("\n", end)
    if not text[line:start].strip() and after != -1 and not text[end:after].strip():
        return text[:line] + text[after + 1 :]  # it had its lines for itself
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return text[:start] + text[end:]


def _added(whole: object, path: tuple[str, ...], value: object, file: str) -> object:
    if not path:
        if not isinstance(whole, list):
            raise PolicyError("has something else where a list of hooks belongs", where=file)
        return [*whole, value]
    if not isinstance(whole, dict):
        raise PolicyError(f"has something else where an object with `{path[0]}` belongs", where=file)
    inner = _added(whole[path[0]], path[1:], value, file) if path[0] in whole else _nested(path[1:], [value])
    return {**whole, path[0]: inner}


def _nested(path: tuple[str, ...], value: object) -> object:
    for name in reversed(path):
        value = {name: value}
    return value


def _inserted(text: str, node: Node, name: str | None, item: object) -> str:
    """One more child at the end, in the manner of those that are there."""
    unit, around = _unit(text), _indent(text, node.start)
    written = json.dumps(item, indent=unit, ensure_ascii=False)
    head = f"{json.dumps(name)}: " if name is not None else ""
    if not node.children:
        own = around + unit
        inside = text[node.start + 1 : node.end - 1].rstrip()
        body = _ended(f"\n{own}{head}{_shifted(written, own)}\n{around}", text)
        return text[: node.start + 1] + inside + body + text[node.end - 1 :]
    first, last = node.children[0][1], node.children[-1][2].end
    if "\n" not in text[node.start : first]:  # all on one line
        return f"{text[:last]}, {head}{json.dumps(item, ensure_ascii=False)}{text[last:]}"
    own = _indent(text, first)
    comma = _JsonScanner(text, "").skipped(last)
    has_comma = text[comma : comma + 1] == ","
    at = _behind(text, comma + 1 if has_comma else last)
    child = _ended(f"\n{own}{head}{_shifted(written, own)}", text) + ("," if has_comma else "")
    return text[:last] + ("" if has_comma else ",") + text[last:at] + child + text[at:]


def _behind(text: str, at: int) -> int:
    """The end of the line, if only a comment is left on it: a comment belongs to the value before it."""
    end = re.compile(r"[ \t]*(//[^\n]*?|/\*[^\n]*?\*/[ \t]*)?(?=\r?\n)").match(text, at)
    return end.end() if end else at


def _ended(written: str, text: str) -> str:
    """With the line ends that the text has."""
    return written.replace("\n", "\r\n") if "\r\n" in text else written


def _unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _shifted(written: str, indent: str) -> str:
    return written.replace("\n", f"\n{indent}")


def _proven(text: str, wanted: object) -> str:
    """INVARIANT: an edit changes what it is to change and nothing else, or it is refused."""
    if parse(text).value != wanted:
        raise PolicyError("pinfold cannot edit this file safely", help="edit it by hand")
    return text
