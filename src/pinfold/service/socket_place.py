"""Where a service may listen: nowhere that a command could put another socket in the place of its own."""

import os
import stat
from collections.abc import Iterable, Mapping
from shlex import quote

from pinfold.model.errors import PinfoldError
from pinfold.policy.paths import contains
from pinfold.state.directory import state_directory


def require_private_directory(path: str, environ: Mapping[str, str]) -> None:
    """Raises where every user may create names: another user could create the socket first."""
    directory = os.path.dirname(os.path.realpath(path))
    try:
        is_everybodys = os.stat(directory).st_mode & stat.S_IWOTH
    except OSError:
        return  # `bind` will say what is wrong
    if is_everybodys:
        raise PinfoldError(f"{path}: every user may create files in {directory}; {_instead(environ)}")


def require_out_of_reach(path: str, writable: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raises if commands that write in these places could take the socket away and answer instead of it."""
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if contains(os.path.realpath(state_directory(environ)), real):
        return  # which is hidden from every command
    if within := next((each for each in writable if contains(os.path.realpath(each), real)), ""):
        raise PinfoldError(
            f"{path}: commands can write in {within}, so one could put another socket there; "
            f"{_instead(environ)}"
        )


def _instead(environ: Mapping[str, str]) -> str:
    ours = os.path.join(state_directory(environ), "serve.sock")
    return f"listen where no command can write: pinfold serve --socket {quote(ours)}"
