"""Where an agent's own file tools may write in its own directory: its plans and its memory.

The rest that is shown there (skills, plugins) is what the agent obeys or runs outside of the sandbox.
"""

import os
from collections.abc import Mapping

from pinfold.model.home import expanded
from pinfold.model.partly_hidden import hidden_except, partly_hidden
from pinfold.model.request import WriteFile
from pinfold.model.symlinks import real_path
from pinfold.policy.hidden_paths import shown_in
from pinfold.session.judge import Judge
from pinfold.settings.defaults import MOVED, WRITTEN_BY


def is_own_file(agent: str, request: WriteFile, judge: Judge, environ: Mapping[str, str]) -> bool:
    """Whether a path leads to the agent's plans or memory, which the policy shows."""
    if agent not in WRITTEN_BY or request.delete:
        return False
    usual, patterns = WRITTEN_BY[agent]
    places = [
        os.path.join(environ[name], below)
        for name, (below, path) in MOVED.items()
        if path == usual and environ.get(name)
    ]
    path = real_path(os.path.join(judge.cwd, request.path))
    for place in (*places, expanded(usual, judge.home)):
        own = partly_hidden(hidden_except(real_path(place), patterns))
        if own is not None and own.shows(path) and shown_in(path, judge.source.policy):
            return True
    return False
