"""The nodes of a plain line's tree, spelled as shfmt spells them in JSON.

Only shapes here: which keys a node has, which it leaves out when it is empty, and where it begins and ends.
Every place is on the first line and counts bytes, which in ASCII are characters.
"""

from typing import Any

Node = dict[str, Any]


def place(offset: int) -> Node:
    return {"Offset": offset, "Line": 1, "Col": offset + 1}


def valued(start: int, text: str) -> Node:
    begin, end = place(start), place(start + len(text))
    return {"Pos": begin, "End": end, "ValuePos": begin, "ValueEnd": end, "Value": text}


def literal(start: int, text: str) -> Node:
    return {"Type": "Lit", **valued(start, text)}


def enclosed(kind: str, left: int, right: int) -> Node:
    begin = place(left)
    return {"Type": kind, "Pos": begin, "End": place(right + 1), "Left": begin, "Right": place(right)}


def single_quoted(start: int, text: str) -> Node:
    node = enclosed("SglQuoted", start, start + len(text) - 1)
    if len(text) > 2:
        node["Value"] = text[1:-1]
    return node


def parameter(start: int, text: str) -> Node:
    begin, end = place(start), place(start + len(text))
    node: Node = {"Type": "ParamExp", "Pos": begin, "End": end, "Dollar": begin}
    if text[1] == "{":
        node["Rbrace"] = place(start + len(text) - 1)
        node["Param"] = valued(start + 2, text[2:-1])
    else:
        node["Short"] = True
        node["Param"] = valued(start + 1, text[1:])
    return node


def literal_of(word: Node) -> str:
    """The text of a word that is one bare literal; an empty string for any other."""
    parts = word["Parts"]
    return parts[0]["Value"] if len(parts) == 1 and parts[0]["Type"] == "Lit" else ""


def assignment(word: Node) -> Node | None:
    """`NAME=value` or `NAME+=value` out of a word that begins so; None for any other word."""
    first, *rest = word["Parts"]
    left, equals, value = first["Value"].partition("=") if first["Type"] == "Lit" else ("", "", "")
    name = left.removesuffix("+")
    if not equals or not name.isidentifier():
        return None
    start = word["Pos"]["Offset"]
    if value:
        rest.insert(0, literal(start + len(left) + 1, value))
    node: Node = {"Pos": word["Pos"], "End": word["End"], "Name": valued(start, name)}
    if name != left:
        node["Append"] = True
    if rest:
        node["Value"] = {"Pos": rest[0]["Pos"], "End": word["End"], "Parts": rest}
    return node


def statement(assigns: list[Node], args: list[Node], redirs: list[Node]) -> Node | None:
    """A simple command; None if there is nothing in it."""
    words = [*assigns, *args]
    if not words and not redirs:
        return None
    start = min((nodes[0]["Pos"] for nodes in (words, redirs) if nodes), key=_offset)
    end = max((nodes[-1]["End"] for nodes in (words, redirs) if nodes), key=_offset)
    stmt: Node = {"Pos": start, "End": end, "Position": start}
    if words:
        stmt["Cmd"] = command = {"Type": "CallExpr", "Pos": words[0]["Pos"], "End": words[-1]["End"]}
        if assigns:
            command["Assigns"] = assigns
        if args:
            command["Args"] = args
    if redirs:
        stmt["Redirs"] = redirs
    return stmt


def _offset(at: Node) -> int:
    offset: int = at["Offset"]
    return offset


def joined(op: str, at: int, left: Node, right: Node) -> Node:
    command = {
        "Type": "BinaryCmd", "Pos": left["Pos"], "End": right["End"],
        "OpPos": place(at), "Op": op, "X": left, "Y": right,
    }  # fmt: skip
    return {"Pos": left["Pos"], "End": right["End"], "Cmd": command, "Position": left["Pos"]}
