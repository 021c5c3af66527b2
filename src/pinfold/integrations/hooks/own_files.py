"""Where an agent's own file tools may write in its own directory: its plans and its memory.

The rest that is shown there (skills, plugins) is what the agent obeys or runs outside of the sandbox.
"""

import os

from pinfold.model.home import expanded
from pinfold.model.partly_hidden import hidden_except, partly_hidden
from pinfold.model.request import WriteFile
from pinfold.model.symlinks import real_path
from pinfold.policy.hidden_paths import shown_in
from pinfold.session.judge import Judge
from pinfold.settings.defaults import WRITTEN_BY


def is_own_file(agent: str, request: WriteFile, judge: Judge) -> bool:
    """Whether a path leads to the agent's plans or memory in the home, which the policy shows.

    A place that a variable names is left out: a project may set variables for its agent.
    """
    if agent not in WRITTEN_BY or request.delete:
        return False
    usual, patterns = WRITTEN_BY[agent]
    path = real_path(os.path.join(judge.cwd, request.path))
    own = partly_hidden(hidden_except(real_path(expanded(usual, judge.home)), patterns))
    return own is not None and own.shows(path) and bool(shown_in(path, judge.source.policy))
