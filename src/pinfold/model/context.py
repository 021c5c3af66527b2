"""What one request is judged, asked about, journaled, started and explained by."""

from collections.abc import Callable

from msgspec import Struct

from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import Settings


class Context(Struct, frozen=True):
    """What is in force when a request comes. It is taken once, and every stage gets the same one.

    After a person has answered, the request is judged once more by a new one, and goes on with that.
    """

    settings: Settings
    policy: SandboxPolicy
    """The user's own policy, with the workspace and its ignore files."""
    roots: tuple[str, ...]
    """The directories of the session's projects, absolute and real."""
    home: str
    cwd: str
    """The directory that a request starts in if it names none."""
    sandbox_trouble: str
    """Why there is no sandbox here, as far as is known; empty if nothing is in its way."""
    own: Callable[[], tuple[str, ...]]
    """Paths that Pinfold itself obeys, runs or remembers. Computed only when a decision needs it: few do."""
