"""The parser of one verb's arguments.

argparse asks for the terminal's width at each argument, by way of `shutil`, unless told a width: it is asked
for only where help is drawn.
"""

import sys
from argparse import ArgumentParser, HelpFormatter
from typing import Any, NoReturn

from pinfold.model.errors import PolicyError


def parser_of(name: str, about: str, exits: str) -> ArgumentParser:
    return _Parser(
        prog=f"pinfold {name}", description=about, epilog=exits, allow_abbrev=False, formatter_class=_Help
    )


class _Parser(ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What is left over is told by the action's own parser, whose help says what it takes: argparse would
        leave that to the verb's."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """Told like any other bad input; argparse would print the whole usage above it."""
        raise PolicyError(message, help=f"see `{self.prog} --help`")


class _Help(HelpFormatter):
    def __init__(self, prog: str) -> None:
        asked = {"-h", "--help"} & set(sys.argv)
        super().__init__(prog, width=None if asked else 100)
