"""Arguments that every verb shares: its parser, the common options, and the settings files they name.

argparse asks for the terminal's width at each argument, by way of `shutil`, unless it is given a width.
So the width is asked for only where help is printed.
"""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace
from typing import TYPE_CHECKING, Any, NoReturn

from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible

if TYPE_CHECKING:
    from pinfold.model.settings import Settings
    from pinfold.settings import Sources


def parser_of(name: str, about: str, exits: str) -> ArgumentParser:
    return _Parser(
        prog=f"pinfold {name}", description=about, epilog=exits, allow_abbrev=False, formatter_class=_Help
    )


class _Parser(ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reports unknown arguments with the parser of the action, whose help lists the known ones. argparse
        would use the parser of the verb."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """Reports them like other bad input; argparse would print the whole usage above the error."""
        raise PolicyError(message, help=f"see `{self.prog} --help`")


class _Help(HelpFormatter):
    def __init__(self, prog: str) -> None:
        asked = {"-h", "--help"} & set(sys.argv)
        super().__init__(prog, width=None if asked else 100)


def add_common(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--settings", metavar="FILE", type=filled, help="use this settings file instead of your own"
    )
    parser.add_argument(
        "--cwd", metavar="DIR", type=filled, help="work in DIR, and look for the project around it"
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def filled(text: str) -> str:
    """Rejects an empty argument, such as a shell variable that is empty by mistake."""
    if not text:
        raise ArgumentTypeError("must not be empty")
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
        raise ArgumentTypeError(f"`{text}` is not a port number from 1 to 65535")
    return int(text)


def here() -> str:
    from pinfold.cli.output import caller

    try:
        return caller().cwd
    except OSError:
        raise PolicyError(
            "the working directory no longer exists", help="cd to one that exists, or use --cwd DIR"
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
