"""A session that has ended is taken up again, under its own id, in its own projects and no wider than it was.

Each session writes down what it had (`keep`): its projects, the settings it was given, and every value
in force. INVARIANT (resume_never_widens): what is written there caps today's settings key by key
(`settings.cap_resumed`), and where it cannot be read or restored, the session is not resumed.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from time import time
from typing import Any

import msgspec
from msgspec import Struct

from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.home import home_of
from pinfold.model.load_structs import ready
from pinfold.model.symlinks import project_directory
from pinfold.state.directory import is_private, state_directory, write_private
from pinfold.state.sessions import live_sessions, require_id

VERSION = 1
LARGEST = 4 << 20
MOST = 1000
"""Of more than so many sessions, the oldest cannot be resumed."""


class SessionRecord(Struct, frozen=True):
    """What a session had when it last changed."""

    version: int
    roots: tuple[str, ...]
    home: str
    given: str | dict[str, Any] | None
    """Its `settings`: a file, values, or none."""
    overrides: dict[str, Any]
    """Its command line's layer, as it was opened."""
    held: dict[str, Any]
    """Each key whose value in force was not the default, and that value."""


def keep(
    id: str,
    roots: tuple[str, ...],
    given: str | Mapping[str, object] | None,
    overrides: Mapping[str, object],
    held: dict[str, Any],
    lasts: float | None,
    environ: Mapping[str, str],
) -> None:
    """Writes down what the session has now, `held` being each key whose value in force is not the default.

    What cannot be written down cannot be resumed. Records older than `lasts` seconds are removed.
    """
    values = dict(given) if isinstance(given, Mapping) else given
    kept = SessionRecord(VERSION, roots, home_of(environ), values, dict(overrides), held)
    place = _directory(environ)
    path = os.path.join(place, f"{require_id(id)}.json")
    with suppress(OSError):
        os.unlink(path)  # an older one could be wider
    with suppress(OSError, TypeError, ValueError, UnicodeEncodeError):
        write_private(path, msgspec.json.encode(kept))
        _sweep(place, lasts)


def kept_of(id: str, environ: Mapping[str, str]) -> SessionRecord:
    """What an ended session had; raises a `PolicyError` where it cannot be taken up again."""
    name = visible(id)
    if any(each.id == id for each in live_sessions(environ)):
        raise PolicyError(f"the session `{name}` has not ended", help="see `pinfold status`; end it first")
    kept = _read(id, environ)
    if kept is None:
        raise PolicyError(
            f"no session `{name}` is known that can be resumed",
            help="open another one; an id is in `session.id`",
        )
    if kept.home != home_of(environ):
        raise PolicyError(
            f"the session `{name}` had another home, {visible(kept.home)}",
            help="set HOME to that, or open another",
        )
    for root in kept.roots:
        if project_directory(root) != root:
            raise PolicyError(
                f"`{visible(root)}` leads elsewhere than in the session `{name}`", help="open another"
            )
    return kept


def require_same(id: str, roots: tuple[str, ...], kept: SessionRecord) -> None:
    """Raises where a session is to be resumed in other projects than its own."""
    if {*roots} != {*kept.roots}:
        raise PolicyError(
            f"the session `{visible(id)}` had other projects: {', '.join(map(visible, kept.roots))}",
            help="leave `projects` out, or open another session",
        )


def _read(id: str, environ: Mapping[str, str]) -> SessionRecord | None:
    place = _directory(environ)
    if not is_private(place):
        return None
    try:
        with open(os.path.join(place, f"{require_id(id)}.json"), "rb") as file:
            kept = msgspec.json.decode(file.read(LARGEST), type=ready(SessionRecord))
    except (OSError, ValueError, msgspec.DecodeError):
        return None
    return kept if kept.version == VERSION else None


def _sweep(place: str, lasts: float | None) -> None:
    """Forgets what is older than answers are kept, and the oldest beyond `MOST`."""
    found = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(place))
    oldest = 0.0 if lasts is None else time() - lasts
    for number, (made, path) in enumerate(found):
        if made < oldest or number < len(found) - MOST:
            os.unlink(path)


def _directory(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "resumable")
