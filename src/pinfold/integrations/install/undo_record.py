"""What an install found, so that it can be undone byte for byte. Kept in pinfold's state, which no command
sees.
"""

import os
from collections.abc import Mapping, Sequence

from msgspec import DecodeError, Struct, ValidationError, json

from pinfold.integrations.install.mcp_servers import ReplacedText
from pinfold.model.errors import PinfoldError
from pinfold.settings.files import write_text
from pinfold.state.directory import ELSEWHERE, state_directory


class Kept(Struct, frozen=True):
    path: str
    before: str | None
    """What it was without us; None where there was no such file."""
    after: str
    """What we wrote. Where it still is that, the undoing is exact."""
    made: tuple[str, ...] = ()
    """Directories that were made for it, the innermost first."""
    pieces: tuple[ReplacedText, ...] = ()
    """What was replaced around MCP servers."""
    is_whole: bool = True
    """Whether `before` and `after` are the file. A file of MCP servers may hold keys and is written often, so
    of that only the pieces are kept."""


def kept_of(agent: str, environ: Mapping[str, str]) -> tuple[Kept, ...]:
    """What is remembered; nothing where there is nothing, or what is there cannot be read."""
    try:
        with open(_file(agent, environ), "rb") as file:
            return json.decode(file.read(), type=tuple[Kept, ...])
    except (OSError, DecodeError, ValidationError):
        return ()


def keep(agent: str, kept: Sequence[Kept], environ: Mapping[str, str]) -> None:
    path = _file(agent, environ)
    try:
        for directory in (state_directory(environ), os.path.dirname(path)):
            os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise PinfoldError(
            f"the record for undoing this cannot be written: {why}; nothing was changed; {ELSEWHERE}"
        ) from None
    write_text(path, json.encode(kept).decode())


def forget(agent: str, environ: Mapping[str, str]) -> None:
    try:
        os.unlink(_file(agent, environ))
    except FileNotFoundError:
        return


def _file(agent: str, environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "installed", f"{agent}.json")
