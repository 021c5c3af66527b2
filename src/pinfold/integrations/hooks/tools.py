"""What a tool's call comes to: the agents' tools, by their names, as requests. Pure.

Facts about names: the agents call the same things `Bash`, `Shell`, `run_shell_command` or `run_in_terminal`,
and `file_path`, `filePath`, `path` or `absolute_path`; some of them also load the hooks of others. So there
is one table for all, of names without case, underscores and hyphens. A tool that is not in it is not judged
here: the agent's own rules are all there is for it.

Facts about searches: `Grep` reads every file below its path, and `Glob` lists what a pattern finds, which may
begin with `/`, `~` or `..` and so lead anywhere; the part of it before the first wildcard is a directory.
"""

from collections.abc import Iterator, Mapping
from os.path import expanduser, join
from urllib.parse import unquote, urlsplit

from pinfold.integrations.hooks.hook_call import MalformedError, UnjudgedError
from pinfold.model.request import CallTool, Connect, ReadFile, Request, RunCommand, WriteFile

MONITOR = "monitor"
COMMANDS = frozenset(
    [
        "bash",
        "shell",
        "runshellcommand",
        "runinterminal",
        "runterminalcommand",
        "execute",
        "launchprocess",
        MONITOR,
    ]
)
WRITES = frozenset(
    [
        "write",
        "edit",
        "multiedit",
        "notebookedit",
        "strreplace",
        "editnotebook",
        "writefile",
        "replace",
        "createfile",
        "editfiles",
        "editfile",
        "replacestringinfile",
        "multireplacestringinfile",
        "inserteditintofile",
        "editnotebookfile",
        "createdirectory",
        "create",
        "savefile",
        "strreplaceeditor",
    ]
)
DELETES = frozenset(["delete", "deletefile", "removefiles"])
READS = frozenset(
    [
        "read",
        "notebookread",
        "ls",
        "list",
        "find",
        "view",
        "glob",
        "grep",
        "readfile",
        "readmanyfiles",
        "listdirectory",
        "listdir",
        "searchfilecontent",
        "grepsearch",
        "filesearch",
        "readnotebook",
        "viewimage",
        "lsp",
        "artifact",
        "senduserfile",
    ]
)
SEARCHES = frozenset(["grep", "grepsearch", "searchfilecontent", "readmanyfiles"])
"""Of those, the ones that read what lies below a directory."""
GLOBS = frozenset(["glob", "find", "filesearch", "readmanyfiles"])
"""Of those, the ones that take patterns of paths."""
FETCHES = frozenset(["webfetch", "fetchurl", "fetchwebpage", "fetch", "openbrowser", "opensimplebrowser"])
PATCHES = frozenset(["applypatch"])
UNREAD = frozenset(
    ["powershell", "createandruntask", "sendtoterminal", "runvscodecommand", "runnotebookcell"]
)
"""They run what the agent says, in a form that is not read here and that no hook puts into the sandbox."""

PATHS = frozenset(
    [
        "filepath",
        "filepaths",
        "path",
        "paths",
        "notebookpath",
        "absolutepath",
        "targetfile",
        "targetnotebook",
        "dirpath",
        "directory",
        "targetdirectory",
        "files",
        "include",
    ]
)
"""The arguments that name files, without case, underscores and hyphens."""
STARTS = ("working_directory", "dir_path", "directory", "cwd", "workdir")
"""Those that say where a command starts, each in the words of another agent."""
PATTERNS = ("pattern", "glob", "query", "include", "paths")
PATCH_TEXTS = ("command", "input", "patch", "patchText")
"""The arguments that a patch is in, each in the words of another agent."""
PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_SPACES = " \t\n\v\f\r\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
BLANKS = (_SPACES + "\ufeff", _SPACES + "\x85", _SPACES + "\x85\x1c\x1d\x1e\x1f")
"""What JavaScript, Rust and Python trim. A name may end with what one of them takes for a blank."""
FILE_URL = "file://"


def requests_of(tool: str, given: Mapping[str, object], cwd: str, server: str = "") -> tuple[Request, ...]:
    """What a call comes to; nothing for a tool that is not judged.

    `server` is the MCP server's name, where the agent tells it apart.
    """
    name = plain(tool)
    if name == MONITOR and "ws" in given:
        return _listened(tool, given)
    if name in COMMANDS:
        return (_command(given, cwd),)
    if name in UNREAD:
        raise UnjudgedError(f"pinfold cannot inspect what `{tool}` runs, and it does not run in the sandbox")
    if name in PATCHES:
        return _patched(given, cwd)
    if name in FETCHES:
        return _fetched(tool, given)
    if name in WRITES or name in DELETES:
        paths = [*_paths(given)]
        if not paths:
            raise UnjudgedError(f"`{tool}` names no file that it would change")
        return tuple(WriteFile(place, name in DELETES) for path in paths for place in _places(path, cwd))
    if name in READS:
        return tuple(_reads(name, given, cwd))
    return mcp_calls(tool, server)


def _reads(name: str, given: Mapping[str, object], cwd: str) -> Iterator[ReadFile]:
    paths = [*_paths(given)] or [cwd]
    for path in paths:
        yield from (ReadFile(place, below=name in SEARCHES) for place in _places(path, cwd))
    patterns = [text for key in PATTERNS for text in _texts(given.get(key))] if name in GLOBS else ()
    for pattern in patterns:
        start = _before_wildcards(pattern)
        if start.startswith(("/", "~")) or ".." in start.split("/"):
            for path in paths:
                places = (place for base in _places(path, cwd) for place in _places(start, base))
                yield from (ReadFile(place, below=True) for place in places)


def _before_wildcards(pattern: str) -> str:
    """The directory that all that a pattern finds lies in."""
    parts = pattern.split("/")
    known = next((index for index, part in enumerate(parts) if set(part) & set("*?[{")), len(parts))
    return "/".join(parts[:known]) or ("/" if pattern.startswith("/") else "")


def plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _command(given: Mapping[str, object], cwd: str) -> RunCommand:
    line = given.get("command")
    if not isinstance(line, str):
        raise UnjudgedError("the tool call has no `command`")
    places = {repr(given[key]): given[key] for key in STARTS if given.get(key)}
    if len(places) > 1:
        # No question: the line of a call that is not judged would run as it is, outside the sandbox.
        raise MalformedError("the tool call names several working directories; name one")
    where = next(iter(places.values()), None)
    if where is not None and not isinstance(where, str):
        raise UnjudgedError("its working directory is not a string")
    said = given.get("description", given.get("explanation"))
    return RunCommand(
        line,
        cwd=join(cwd, where) if where else None,
        description=said if isinstance(said, str) else "",
        disable_sandbox=given.get("dangerouslyDisableSandbox") is True,
    )


def _patched(given: Mapping[str, object], cwd: str) -> tuple[Request, ...]:
    # Which of these the agent applies is not ours to guess: all count.
    texts = [text for key in PATCH_TEXTS for text in _texts(given.get(key))]
    if not texts:
        raise UnjudgedError("there is no patch in it")
    found = [
        WriteFile(place, delete="Delete" in head)
        for text in texts
        # Nor is where it ends a line, at form feeds or not.
        for line in dict.fromkeys((*text.split("\n"), *text.splitlines()))
        for head in PATCHED
        if head in line and not line.partition(head)[0].strip().strip("\ufeff")
        for place in _places(line.partition(head)[2], cwd)
    ]
    if not found:
        raise UnjudgedError("the patch names no file")
    return tuple(found)


def _listened(tool: str, given: Mapping[str, object]) -> tuple[Request, ...]:
    """Claude Code's Monitor hears of events from a command, or from a socket by its address; never both."""
    socket = given["ws"]
    url = socket.get("url") if isinstance(socket, Mapping) else None
    if "command" in given or not isinstance(url, str):
        raise UnjudgedError(f"`{tool}` must name either a command or an address")
    return tuple(fetch_of(url, tool))


def _fetched(tool: str, given: Mapping[str, object]) -> tuple[Request, ...]:
    urls = [url for key in ("url", "urls") for url in _texts(given.get(key))]
    words = (word for text in _texts(given.get("prompt")) for word in text.split() if "://" in word)
    named = (*urls, *(word.strip("<>()[]\"'.,;") for word in words))
    found = [request for url in named for request in fetch_of(url, tool)]
    if not found:
        raise UnjudgedError(f"`{tool}` names no address")
    return tuple(found)


def _paths(given: object) -> Iterator[str]:
    """Every file that the arguments name, also in lists and tables of them."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            if plain(str(key)) in PATHS:
                yield from _texts(value)
            if isinstance(value, Mapping | list):
                yield from _paths(value)
    elif isinstance(given, list):
        for value in given:
            yield from _paths(value)


def _places(path: str, cwd: str) -> Iterator[str]:
    """Where a path leads, by each way that an agent may read it: which is its own is not ours to guess."""
    for read in dict.fromkeys(_readings(path)):
        yield join(cwd, read)
        if read.startswith("~"):
            yield expanduser(read)


def _readings(path: str) -> Iterator[str]:
    """The path as written, without the blanks around it or after it, and as a URL."""
    for text in (path, *(trim(blanks) for blanks in BLANKS for trim in (path.strip, path.rstrip))):
        yield text
        if text.startswith(FILE_URL):
            from urllib.parse import unquote

            rest = text.removeprefix(FILE_URL)
            yield from (rest, unquote(rest), unquote(rest[rest.find("/") :]))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (text for text in value if isinstance(text, str))


MOST_READINGS = 16


def mcp_calls(tool: str, server: str = "") -> tuple[CallTool, ...]:
    """The ways in which a tool's name can be read as one of an MCP server."""
    for head, mark in (("mcp__", "__"), ("mcp_", "_"), ("MCP:", ":")):
        if not tool.startswith(head):
            continue
        rest = tool.removeprefix(head)
        if server:
            return (CallTool(server, rest.removeprefix(f"{server}{mark}")),)
        parts = rest.split(mark)
        cuts = range(1, len(parts))
        if len(cuts) > MOST_READINGS:
            raise UnjudgedError(f"`{tool}` can be read in too many ways")
        found = (CallTool(mark.join(parts[:cut]), mark.join(parts[cut:])) for cut in cuts)
        return tuple(found) or (CallTool("", rest),)
    return ()


MISREAD = frozenset(["\\", "\x7f", *map(chr, range(33))])
"""Browsers take `\\` in an address for `/`, and leave out tabs and line ends (WHATWG URL, 4.4)."""
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def fetch_of(url: str, tool: str) -> Iterator[Connect | ReadFile]:
    """The host that a tool would fetch from, or the file, in each way that its address may be read."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        raise _unread(tool) from None
    if MISREAD & set(url):
        raise _unread(tool)
    if parts.scheme == "file":
        path = "/" + parts.path.lstrip("/")
        yield from (ReadFile(path), ReadFile(unquote(path)))
    elif host:
        yield Connect(host, port)
    else:
        raise _unread(tool)


def _unread(tool: str) -> UnjudgedError:
    return UnjudgedError(f"`{tool}` names an address that can be read in several ways, or none")
