"""The address of the approval page (`pinfold web`), in a file that its process wrote and that no pen can see.

Approvers find the page by it, and the gate keeps every command from the port that it names.
"""

import os
from collections.abc import Mapping

from msgspec import DecodeError, Struct, json

from pinfold.model.load_structs import ready
from pinfold.state.directory import state_directory

LONGEST = 1 << 16


class PageAddress(Struct, frozen=True):
    """An address of loopback, and the token that visitors need."""

    host: str
    port: int
    token: str

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}/#{self.token}"


def page_directory(environ: Mapping[str, str]) -> str:
    """The page's directory: its socket for questions, and the file with its address."""
    return os.path.join(state_directory(environ), "web")


def page_file(environ: Mapping[str, str]) -> str:
    return os.path.join(page_directory(environ), "page.json")


def find_page(environ: Mapping[str, str]) -> PageAddress | None:
    """The address of the page; None if there is none, or if its file cannot be read."""
    try:
        return _load_place(environ)
    except (OSError, DecodeError):
        return None


def page_at(environ: Mapping[str, str], port: int) -> str:
    """Says whether this port of loopback is the page's, or may be (in doubt every port); else empty."""
    try:
        is_there = _load_place(environ).port == port
    except (FileNotFoundError, NotADirectoryError):
        is_there = False
    except (OSError, DecodeError):
        return f"may be pinfold's own page ({page_file(environ)} cannot be read; restart `pinfold web`)"
    return "is pinfold's own page" if is_there else ""


def _load_place(environ: Mapping[str, str]) -> PageAddress:
    with open(page_file(environ), "rb") as file:
        return json.decode(file.read(LONGEST), type=ready(PageAddress))
