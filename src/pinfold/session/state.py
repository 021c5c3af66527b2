"""Where pinfold keeps what it must remember: never in a workspace, and hidden from every command."""

import os
from collections.abc import Mapping


def state_directory(environ: Mapping[str, str]) -> str:
    """`$XDG_STATE_HOME/pinfold`; the XDG rules say that a relative value is ignored."""
    base = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        home = environ.get("HOME") or os.path.expanduser("~")
        base = os.path.join(home, ".local", "state")
    return os.path.join(base, "pinfold")


def approvals_file(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "approvals.json")


def journal_file(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "journal.sqlite")
