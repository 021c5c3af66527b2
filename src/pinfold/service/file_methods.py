"""The calls that are about files: what each does with a session's file tools, and what it tells of it."""

from collections.abc import Callable
from typing import Any

from pinfold.model.tool_parameters import ToolParameters
from pinfold.service import messages as said
from pinfold.session import Session
from pinfold.session.serialize import writable

FileCall = Callable[[Session, Any], dict[str, Any] | list[Any]]


def _read(session: Session, asked: said.ReadFileCall) -> dict[str, Any]:
    return session.files.read(asked.path, first_line=asked.first_line, lines=asked.lines)._asdict()


def _write(session: Session, asked: said.WriteFileCall) -> dict[str, Any]:
    return session.files.write(asked.path, asked.text)._asdict()


def _append(session: Session, asked: said.WriteFileCall) -> dict[str, Any]:
    return session.files.append(asked.path, asked.text)._asdict()


def _replace(session: Session, asked: said.ReplaceInFile) -> dict[str, Any]:
    blocks = [(block.search, block.replace) for block in asked.blocks]
    return session.files.replace(asked.path, blocks)._asdict()


def _delete(session: Session, asked: said.DeleteFile) -> dict[str, Any]:
    session.files.delete(asked.path)
    return {}


def _move(session: Session, asked: said.MoveFile) -> dict[str, Any]:
    return session.files.move(asked.old, asked.new)._asdict()


def _list(session: Session, asked: said.OfPath) -> list[dict[str, Any]]:
    return [{**each._asdict(), "path": writable(each.path)} for each in session.files.entries(asked.path)]


def _glob(session: Session, asked: said.GlobFiles) -> list[str]:
    return [writable(path) for path in session.files.glob(asked.pattern, asked.path)]


def _search(session: Session, asked: said.SearchFiles) -> list[dict[str, Any]]:
    hits = session.files.search(asked.pattern, asked.path, only=asked.only)
    return [{**each._asdict(), "path": writable(each.path)} for each in hits]


FILE_CALLS: dict[str, tuple[type[ToolParameters], FileCall]] = {
    "readFile": (said.ReadFileCall, _read),
    "writeFile": (said.WriteFileCall, _write),
    "appendToFile": (said.WriteFileCall, _append),
    "replaceInFile": (said.ReplaceInFile, _replace),
    "deleteFile": (said.DeleteFile, _delete),
    "moveFile": (said.MoveFile, _move),
    "listFiles": (said.OfPath, _list),
    "globFiles": (said.GlobFiles, _glob),
    "searchFiles": (said.SearchFiles, _search),
}
