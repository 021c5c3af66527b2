"""A session that has ended is taken up again, under its own id."""

import os
from collections.abc import Mapping

from pinfold.approval.store import Store
from pinfold.audit.history import has
from pinfold.model.errors import PolicyError
from pinfold.model.visible import visible
from pinfold.session.sessions import living
from pinfold.session.state import approvals_file, journal_file


def projects_of(id: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The projects it was granted anything in, none if it was not; raises where there is no such session."""
    if any(each.id == id for each in living(environ)):
        raise PolicyError(
            f"the session `{visible(id)}` has not ended", help="see `pinfold status`; end it, or open another"
        )
    given = [each for each in Store(approvals_file(environ)).answers() if each.session == id]
    mine = [each.subject.roots for each in given if each.subject.user == os.getuid()]
    if not mine and not _is_journaled(id, environ):
        raise PolicyError(f"no session `{visible(id)}` is known", help="an id is in `session.id`")
    return mine[-1] if mine else ()


def _is_journaled(id: str, environ: Mapping[str, str]) -> bool:
    return has(journal_file(environ), id)
