"""Makes the changes of a plan. What is remembered is written first: a half-done install can be undone."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pinfold.integrations.install.plan import Change, Plan
from pinfold.integrations.install.undo_record import forget, keep
from pinfold.model.errors import PolicyError
from pinfold.settings.files import locked, read_text, write_text


def apply_install(agent: str, plan: Plan, environ: Mapping[str, str]) -> None:
    keep(agent, plan.kept, environ)
    _apply(plan.changes)


def apply_uninstall(agent: str, plan: Plan, environ: Mapping[str, str]) -> None:
    _apply(plan.changes)
    for directory in plan.directories:
        with suppress(OSError):  # somebody has something in it, or it has gone
            os.rmdir(directory)
    forget(agent, environ)


def _apply(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.after is None:
            with suppress(FileNotFoundError):
                os.unlink(change.path)
            continue
        with locked(change.path):
            if read_text(change.path) != change.before:
                raise PolicyError("has been changed meanwhile", where=change.path, help="try again")
            write_text(change.path, change.after)
