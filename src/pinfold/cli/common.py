"""What every verb shares: the common arguments, the sources they name, and how an error is drawn."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from pinfold.cli import BAD_INPUT
from pinfold.cli.draw import is_coloured, paint
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible, visible_json
from pinfold.model.home import home_of
from pinfold.model.locations import Origin

if TYPE_CHECKING:
    from pinfold.model.settings import Settings
    from pinfold.settings import Sources

MOST = 40
"""Columns that a cell may push the next one to."""


def add_common(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--settings", metavar="FILE", type=filled, help="a settings file in place of the user's own"
    )
    parser.add_argument(
        "--cwd", metavar="DIR", type=filled, help="where to work, and where the project is looked for"
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def filled(text: str) -> str:
    """An argument that names something: a variable that is empty by mistake names nothing else instead."""
    if not text:
        raise ArgumentTypeError("it is empty")
    return text


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):  # false for nan too
        raise ArgumentTypeError(f"`{text}` is not a number of seconds above 0")
    return found


def port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) < 1 << 16:
        raise ArgumentTypeError(f"`{text}` is not a port: a number from 1 to 65535")
    return int(text)


def here() -> str:
    try:
        return os.getcwd()
    except OSError:
        raise PolicyError(
            "the working directory is gone", help="cd to one that exists, or give --cwd"
        ) from None


def project_of(args: Namespace) -> str:
    from pinfold.settings.sources import find_project

    directory = os.path.realpath(args.cwd or here())
    if not os.path.isdir(directory):
        raise PolicyError("is not a directory", where=f"--cwd {visible(args.cwd)}")
    return find_project(directory)


def sources_from(args: Namespace) -> "Sources":
    from pinfold.settings import Sources

    return Sources.usual((project_of(args),), user=args.settings)


def settings_from(args: Namespace) -> "Settings":
    from pinfold.policy.hosts import require_pattern
    from pinfold.settings import load
    from pinfold.shell.rule_text import shape

    return load(sources_from(args), shape, require_pattern)


def user_file_of(args: Namespace) -> str:
    """The file that `rules` and `exclude` change."""
    from pinfold.settings.sources import user_file

    return os.path.abspath(args.settings) if args.settings else user_file(os.environ)


def place(origin: Origin) -> str:
    """Where a value is written, as short as it can be said here; empty where nothing is written."""
    if not origin.file:
        return ""
    file = short(origin.file)
    return visible(f"{file}:{origin.line}" if origin.line else file)


def short(path: str) -> str:
    """A path as it can be said here; whole where the working directory is gone, and the home's is another."""
    try:
        near = os.getcwd()
    except OSError:
        near = "/"
    for base, sign in ((near, ""), (home_of(os.environ), "~/")):
        if base != "/" and path.startswith(base + "/"):
            return sign + path[len(base) + 1 :]
    return path


def print_json(value: object) -> None:
    from msgspec import json

    if sys.stdout is None:
        raise OSError(None, "standard output is closed")
    try:
        encoded = json.encode(value)
    except UnicodeEncodeError:  # a path that is not UTF-8, for one
        from pinfold.session.serialize import all_writable

        encoded = json.encode(all_writable(value))
    sys.stdout.write(visible_json(json.format(encoded, indent=2).decode()) + "\n")


def print_error(error: PolicyError, *, as_json: bool = False) -> int:
    """Where, what, the excerpt and what to write instead; returns the exit code."""
    if as_json:
        print_error_json(error.message, error.where, error.help)
        return BAD_INPUT
    out = sys.stderr
    colour = is_coloured(out)
    where = f"{visible(error.where)}: " if error.where else ""
    print(f"pinfold: {paint(where, 'bold', colour)}{paint(visible(error.message), 'red', colour)}", file=out)
    for line in error.excerpt.split("\n") if error.excerpt else ():
        print(f"  {visible(line)}", file=out)
    if error.help:
        print(f"  {paint('help:', 'green', colour)} {visible(error.help)}", file=out)
    return BAD_INPUT


def print_error_json(message: str, where: str = "", help: str = "") -> None:
    print_json({"error": {"where": where, "message": message, "help": help}})


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Aligned columns, but for cells that are wider than most; the last one takes what it needs."""
    if not rows:
        return
    widths = [min(MOST, max(len(row[column]) for row in rows)) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        print("  ".join([*cells, row[-1]]).rstrip())
