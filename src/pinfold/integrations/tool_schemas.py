"""What each tool takes: its parameters, and what a model is told of them; their JSON Schemas come of this.

A name here is a promise to every agent that knows the tool. What is asked of a value beyond its type is the
tool's to refuse.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct


class _Params(Struct, frozen=True, forbid_unknown_fields=True):
    pass


def _about(text: str) -> Any:
    return Meta(description=text)


class ExecuteCommand(_Params, frozen=True):
    command: Annotated[str, _about("a shell line, as bash reads it")]
    description: Annotated[str, _about("what it is for, in a few words; a person may read it")] = ""
    cwd: Annotated[str | None, _about("where to start; the project if left out")] = None
    timeout: Annotated[float | None, _about("seconds it may take")] = None
    sandboxPolicy: Annotated[  # noqa: N815  (as agents know it)
        dict[str, Any] | None,
        _about("a policy for this call alone: what it narrows applies, what it would widen is asked for"),
    ] = None
    dangerouslyDisableSandbox: Annotated[  # noqa: N815
        bool, _about("only where the person asked for it in so many words; they are asked again")
    ] = False


class ReadFile(_Params, frozen=True):
    path: str
    first_line: Annotated[int, _about("counted from 1")] = 1
    lines: Annotated[int | None, _about("how many; all if left out")] = None


class WriteFile(_Params, frozen=True):
    path: str
    text: Annotated[str, _about("the whole of the file")]


class Block(_Params, frozen=True):
    search: Annotated[str, _about("text that is in the file exactly once")]
    replace: Annotated[str, _about("what stands there afterwards")]


class ReplaceInFile(_Params, frozen=True):
    path: str
    blocks: Annotated[tuple[Block, ...], _about("all of them are replaced, or none")]


class ListFiles(_Params, frozen=True):
    path: str = "."
    pattern: Annotated[str, _about("such as `**/*.py`; without one, what is right in the directory")] = ""


class SearchFiles(_Params, frozen=True):
    pattern: Annotated[str, _about("a regular expression of RE2")]
    path: str = "."
    only: Annotated[str, _about("which files, such as `**/*.py`")] = "**"


class Explain(_Params, frozen=True):
    command: Annotated[str, _about("a shell line; it is not run")]


class RequestPermission(_Params, frozen=True):
    why: Annotated[str, _about("which restriction stands in the way of which task, in a sentence")]
    write: Annotated[tuple[str, ...], _about("paths to write")] = ()
    read: Annotated[tuple[str, ...], _about("paths to read that are hidden")] = ()
    hosts: Annotated[tuple[str, ...], _about("hosts to reach, such as `pypi.org`")] = ()
    git_writes: Annotated[bool, _about("commit, checkout, stash and so on")] = False
    projects: Annotated[tuple[str, ...], _about("other directories to work in, as in this one")] = ()
