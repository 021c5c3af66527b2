"""The stdio MCP servers in an agent's own configuration, and edits that wrap them in `pinfold mcp wrap`.

Pure, but for the files' paths.

Facts: Claude Code has servers of the user at the top of `~/.claude.json`, and of one directory below
`projects`; it writes this file often. Codex has them in TOML, the others in JSON. An entry without `type`, or
with `stdio`, starts a program; one with a `url` does not. `.mcp.json` and the like belong to a project, which
others share, so they are left alone.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pinfold.integrations.hooks.rewrite import own_program
from pinfold.integrations.install.jsonc import Node, parse
from pinfold.integrations.mcp.server_command import CONTAINERS, hosts_of, program_of
from pinfold.model.errors import PolicyError
from pinfold.model.home import home_of
from pinfold.settings.toml_edit import quoted
from pinfold.settings.toml_positions import locate

VERB = ("mcp", "wrap")
OWN_PYTHON = ("-I", "-c")
"""What follows the interpreter where Pinfold is started without a launcher (`isolated.own_command`)."""
ALL = "all"


class StdioServer(NamedTuple):
    """A server that an agent starts."""

    name: str
    path: tuple[str, ...]
    """Where its entry is in the file."""
    words: tuple[str, ...]
    """The server's own program and arguments, without ours around them."""
    options: tuple[str, ...] | None
    """The options of `pinfold mcp wrap`, if it is wrapped."""
    is_ours: bool
    """Whether it is wrapped by an install, which names Pinfold by a whole path."""
    program: str
    """What its entry starts: the server, or Pinfold."""
    environment: tuple[str, ...]
    """The variables that the entry sets or passes on."""
    obstacle: str
    """Why it is not offered to be wrapped; empty if it is."""


class ReplacedText(NamedTuple):
    """A stretch of a file that begins at a value: what it was, and what was written in its place."""

    path: tuple[str, ...]
    before: str
    after: str


class ServerList(NamedTuple):
    """Where an agent keeps its servers."""

    file: str
    tables: tuple[tuple[str, ...], ...]
    """Paths of tables of servers; `*` stands for any key."""


def servers_file(agent: str, environ: Mapping[str, str]) -> ServerList:
    home = home_of(environ)
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    usual = (("mcpServers",),)
    lists = {
        "claude-code": ServerList(
            os.path.join(environ.get("CLAUDE_CONFIG_DIR") or home, ".claude.json"),
            (*usual, ("projects", "*", "mcpServers")),
        ),
        "cursor": ServerList(os.path.join(home, ".cursor", "mcp.json"), usual),
        "codex": ServerList(
            os.path.join(environ.get("CODEX_HOME") or os.path.join(home, ".codex"), "config.toml"),
            (("mcp_servers",),),
        ),
        "gemini": ServerList(
            os.path.join(environ.get("GEMINI_CLI_HOME") or home, ".gemini", "settings.json"), usual
        ),
        # opencode writes its servers otherwise, and pi has none.
        "opencode": ServerList(os.path.join(config, "opencode", "opencode.json"), ()),
        "pi": ServerList(os.path.join(home, ".pi", "agent", "settings.json"), ()),
        "droid": ServerList(
            os.path.join(environ.get("FACTORY_HOME_OVERRIDE") or home, ".factory", "mcp.json"), usual
        ),
        "auggie": ServerList(os.path.join(home, ".augment", "settings.json"), usual),
        "qwen": ServerList(
            os.path.join(environ.get("QWEN_HOME") or os.path.join(home, ".qwen"), "settings.json"), usual
        ),
        "vscode": ServerList(os.path.join(config, "Code", "User", "mcp.json"), (("servers",),)),
    }
    return lists[agent]


def servers_in(text: str, found: ServerList) -> tuple[StdioServer, ...]:
    """Every server of the file that is started as a program, in its order."""
    if not found.tables:
        return ()
    whole = _value(text, found.file)
    return tuple(
        server
        for table in found.tables
        for path, entry in _entries(whole, table)
        if (server := _server(path, entry)) is not None
    )


def _value(text: str, file: str) -> Any:
    if not file.endswith(".toml"):
        try:
            return json.loads(text)  # many times as fast, for what has no comments
        except ValueError:
            return parse(text, file).value
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"is not TOML: {error}", where=file, help="mend the file first") from None


def _entries(whole: Any, table: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    places: list[tuple[tuple[str, ...], Any]] = [((), whole)]
    for step in (*table, "*"):
        places = [
            ((*path, name), value)
            for path, each in places
            if isinstance(each, dict)
            for name, value in each.items()
            if step in ("*", name)
        ]
    yield from places


def _server(path: tuple[str, ...], entry: Any) -> StdioServer | None:
    if not isinstance(entry, dict) or entry.get("type", "stdio") != "stdio":
        return None
    command, arguments = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not isinstance(arguments, list):
        return None
    words = (command, *(word for word in arguments if isinstance(word, str)))
    if not command or len(words) != len(arguments) + 1:
        return None
    options, inner = _unwrapped(words)
    environment, passed = entry.get("env"), entry.get("env_vars")
    names = [
        *(environment if isinstance(environment, dict) else ()),
        *(passed if isinstance(passed, list) else ()),
    ]
    return StdioServer(
        path[-1],
        path,
        inner,
        options,
        options is not None and os.path.isabs(command),
        command,
        tuple(name for name in names if isinstance(name, str)),
        _obstacle(inner) if options is None else "",
    )


def _unwrapped(words: tuple[str, ...]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The options of `pinfold mcp wrap` in these words (None if it is not in them), and the server's own."""
    for at in range(len(words) - 2):
        is_pinfold = program_of(words) == "pinfold" or (at == 4 and words[1:3] == OWN_PYTHON)
        if words[at : at + 2] == VERB and is_pinfold and "--" in words[at + 2 : -1]:
            end = words.index("--", at + 2)
            return words[at + 2 : end], words[end + 1 :]
    return None, words


def _obstacle(words: tuple[str, ...]) -> str:
    if program_of(words) in CONTAINERS:
        return f"{program_of(words)} runs it in a container, which the sandbox cannot hold"
    if program_of(words) == "pinfold":
        return "it is Pinfold's own, and its commands run in a sandbox already"
    if " " in words[0] and not os.path.isabs(words[0]):
        return "its command has spaces; put the arguments into `args` first"
    return ""


def wrapped_words(server: StdioServer) -> tuple[str, ...]:
    """What starts the server in a sandbox. One that is wrapped keeps its options."""
    options = server.options
    if options is None:
        kept = [word for name in server.environment for word in ("--env", name)]
        hosts = [word for host in hosts_of(server.words) for word in ("--allow-domain", host)]
        options = (*kept, *hosts)
    return (*own_program(), *VERB, *options, "--", *server.words)


def chosen(servers: tuple[StdioServer, ...], names: tuple[str, ...], file: str) -> tuple[StdioServer, ...]:
    """The servers that are to be wrapped: those named, and those that an install has wrapped already."""
    known = {server.name for server in servers}
    for name in names:
        if name not in known and name != ALL:
            there = f"the servers are: {', '.join(sorted(known))}" if known else "it has none"
            raise PolicyError(f"no stdio MCP server `{name}`", where=file, help=there)
    for server in servers:
        if server.name in names and server.obstacle:
            raise PolicyError(f"`{server.name}` cannot be wrapped: {server.obstacle}", where=file)
    return tuple(
        server
        for server in servers
        if server.is_ours
        or (server.options is None and not server.obstacle and (ALL in names or server.name in names))
    )


def with_words(
    text: str, file: str, server: StdioServer, words: tuple[str, ...]
) -> tuple[str, list[ReplacedText]]:
    """The text in which the server is started by these words, and the pieces that were replaced."""
    before = _value(text, file)
    entry = _at(before, server.path)
    if (entry["command"], *entry.get("args", [])) == words:
        return text, []
    is_toml = file.endswith(".toml")
    places = _places(text, file, server.path)
    start, end = places.values["command"]
    command, pieces = _text_of(words[0], is_toml), []
    if "args" in places.values:
        first, last = places.values["args"]
        written = _list_of(words[1:], text[first:last], _indent(text, first), is_toml)
        pieces.append((first, last, ReplacedText((*server.path, "args"), text[first:last], written)))
    else:
        between = " " if places.is_inline else f"{_line_end(text)}{_indent(text, start)}"
        comma = "" if is_toml and between != " " else ","
        name = "args = " if is_toml else '"args": '
        command += f"{comma}{between}{name}{_list_of(words[1:], '', '', is_toml)}"
    pieces.append((start, end, ReplacedText((*server.path, "command"), text[start:end], command)))
    changed = text
    for first, last, piece in sorted(pieces, reverse=True):
        changed = changed[:first] + piece.after + changed[last:]
    wanted = _changed(before, server.path, {**entry, "command": words[0], "args": list(words[1:])})
    return _proven(changed, file, wanted), [piece for _, _, piece in pieces]


def without_wraps(text: str, found: ServerList, known: tuple[ReplacedText, ...] = ()) -> str:
    """The text without what an install has put around servers. Pieces that are as they were written become
    what they were before, to the byte."""
    for server in servers_in(text, found):
        if not server.is_ours:
            continue
        wanted = [piece for piece in known if piece.path[:-1] == server.path]
        restored = _restored(text, found.file, server, wanted)
        text = restored if restored is not None else with_words(text, found.file, server, server.words)[0]
    return text


def _restored(text: str, file: str, server: StdioServer, pieces: list[ReplacedText]) -> str | None:
    """None if the pieces are not there, or give something else than the server's own words."""
    places = _places(text, file, server.path).values
    found = [(places[piece.path[-1]][0], piece) for piece in pieces if piece.path[-1] in places]
    if not found or any(not text.startswith(piece.after, start) for start, piece in found):
        return None
    for start, piece in sorted(found, reverse=True):
        text = text[:start] + piece.before + text[start + len(piece.after) :]
    try:
        entry = _at(_value(text, file), server.path)
    except (PolicyError, KeyError):
        return None
    return text if (entry.get("command"), *entry.get("args", [])) == server.words else None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _changed(value: Any, path: tuple[str, ...], entry: Any) -> Any:
    return {**value, path[0]: _changed(value[path[0]], path[1:], entry)} if path else entry


class _Places(NamedTuple):
    """Where the values of an entry begin and end."""

    values: dict[str, tuple[int, int]]
    is_inline: bool
    """Whether it is written in braces in TOML, or on one line in JSON."""


def _places(text: str, file: str, path: tuple[str, ...]) -> _Places:
    if file.endswith(".toml"):
        found = locate(text).values
        inside = {each[-1]: place for each, place in found.items() if each[:-1] == path}
        return _Places({str(name): (place.start, place.end) for name, place in inside.items()}, path in found)
    node: Node | None = parse(text, file)
    for step in path:
        node = node.child(step) if node else None
    if node is None:
        raise KeyError(path)
    values = {str(name): (child.start, child.end) for name, _, child in node.children}
    return _Places(values, "\n" not in text[node.start : node.end])


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _text_of(word: str, is_toml: bool) -> str:
    return quoted(word) if is_toml else json.dumps(word, ensure_ascii=False)


def _list_of(words: tuple[str, ...], like: str, indent: str, is_toml: bool) -> str:
    """A list in the manner of another: on one line, or one line for each element."""
    texts = [_text_of(word, is_toml) for word in words]
    if "\n" not in like or not texts:
        return f"[{', '.join(texts)}]"
    end = _line_end(like)
    second = like.split("\n", 2)[1]
    own = second[: len(second) - len(second.lstrip())] or indent + "  "
    return f"[{end}{own}" + f",{end}{own}".join(texts) + f"{end}{indent}]"


def _proven(text: str, file: str, wanted: object) -> str:
    """INVARIANT: an edit changes this server and nothing else, or it is rejected."""
    try:
        if _value(text, file) == wanted:
            return text
    except PolicyError:
        pass
    raise PolicyError("pinfold cannot edit this file safely", where=file, help="edit it by hand")
