"""Where Pinfold's settings and state are, for a process that an agent started.

A project's `.env` may set XDG_CONFIG_HOME and XDG_STATE_HOME for an agent, and so for its hooks. A command of
the sandbox could then have written the settings there, and the answers of questions.
"""

from collections.abc import Mapping
from posixpath import join, normpath

from pinfold.model.agent_variables import AgentVariables
from pinfold.model.errors import PolicyError
from pinfold.model.symlinks import real_path
from pinfold.policy.paths import contains, is_covered

USUAL = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state"}
PROCESSES = "/proc/"


def require_own_directories(roots: tuple[str, ...], home: str, environ: Mapping[str, str]) -> None:
    """Raises if an agent's variables lead Pinfold to settings or state in a project.

    Accepted: a project that is the home, or holds it, holds those directories anyway.
    """
    if not isinstance(environ, AgentVariables):
        return
    for name, usual in USUAL.items():
        given = environ.get(name, "")
        if not given.startswith("/") or real_path(given) == real_path(join(home, usual)):
            continue
        within = [
            root for root in roots if not contains(root, home) and is_covered(real_path(given), (root,))
        ]
        if within or normpath(given).startswith(PROCESSES):
            place = within[0] if within else PROCESSES
            raise PolicyError(
                f"{name} leads into {place}, and a file of the project may have set it",
                help=f"set {name} to a directory outside of the projects, or unset it",
            )
